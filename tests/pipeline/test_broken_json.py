"""What ingest promises of a broken JSON file: no record is lost unseen, and what stops it is named."""

import json
from pathlib import Path

import pytest

from stages.errors import DataError
from tests.pipeline.test_ingest import ONLY_TEXT, ingest, summary

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("data", [b"", b"[]\n", b" \n"])
def test_an_input_without_a_record_is_refused_as_such(data: bytes, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.json").write_bytes(data)
    with pytest.raises(DataError, match=r"the 1 input files hold no record: .*; check sources.paths"):
        ingest(corpus, tmp_path / "run", **ONLY_TEXT)


def test_a_broken_list_loses_no_record_or_stops_the_run(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    lines = [json.dumps({"text": f"the document of the number {number}"}) for number in range(300)]
    broken = [line.removesuffix("}") if number == 200 else line for number, line in enumerate(lines)]
    whole = "[" + ",\n".join(broken) + "]"
    (corpus / "a.json").write_text(whole)
    found = ingest(corpus, tmp_path / "run", **ONLY_TEXT, ingest={"unit_size": "4KiB"})
    assert found.num_rows == 299
    assert summary(tmp_path / "run")["drops"] == {"bad_json": 1}
    for name, text, says in (
        ("cut", whole[:9_000], "a.json: its record .* is not closed at the end, byte 9,000"),
        (
            "line",
            whole.replace("\n", ""),
            "a.json: its record 201, .* is broken at byte .* leave it out",
        ),
    ):
        (corpus / "a.json").write_text(text)
        with pytest.raises(DataError, match=says):
            ingest(corpus, tmp_path / name, **ONLY_TEXT)
