"""What people read of dropped records: a whole file has no line, and each main reason an example."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.report.flow import SHOWN, example_drops, shown_place
from pipeline.report.report import DocumentCounts
from pipeline.report.terminal import print_report
from stages.reading.reader import TextSplit
from tests.conftest import run_small
from tests.pipeline.reports import DOCUMENTS

SPLITS = {"plain": TextSplit.FILE, "lines": TextSplit.BLANK_LINE}


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("plain: sub/a.txt, line 1", "plain: sub/a.txt"),
        ("plain: a.md.gz, line 1: empty: no text", "plain: a.md.gz: empty: no text"),
        ("plain: a.html, line 1: k.r: n: 1", "plain: a.html: k.r: n: 1"),
        ("plain: a, line 1.htm, line 1: k.r: n", "plain: a, line 1.htm: k.r: n"),
        ("lines: a.html, line 1: k.r: n", "lines: a.html: k.r: n"),
        ("lines: a.txt, line 1: k.r: n", None),
        ("plain: a.jsonl, line 1: k.r: n", None),
        ("plain: a.jsonl, line 7: bad_record: b.txt, line 1: n", None),
        ("plain: a.parquet, row 1", None),
        ("plain: a.warc, line 1", None),
        ("plain", None),
    ],
)
def test_a_document_that_is_its_file_is_shown_without_a_line(place: str, shown: str | None) -> None:
    assert shown_place(place, SPLITS) == (place if shown is None else shown)


def test_each_main_reason_has_an_example_the_most_frequent_first() -> None:
    sample = {"reason": "k.short", "id": "0", "place": "web: b.parquet, row 3", "excerpt": ""}
    dropped = {"empty": 2, "k.short": 9, **{f"k.{n}": 1 for n in range(2 * SHOWN)}}
    content = DOCUMENTS | {
        "dropped": dropped,
        "named_drops": [
            "plain: a.txt: empty: no text",
            "plain: b.txt: empty: no text",
            *(f"plain: c.txt: k.{n}: it is" for n in range(2 * SHOWN)),
        ],
        "samples": [{**sample, "detail": "words: 3"}, {**sample, "detail": "words: 4"}],
    }
    documents = DocumentCounts.model_validate(content)
    assert list(example_drops(documents))[:3] == [
        "web: b.parquet, row 3: k.short: words: 3",
        "plain: a.txt: empty: no text",
        "plain: c.txt: k.0: it is",
    ]
    assert len(list(example_drops(documents))) == SHOWN
    unseen = documents.model_copy(update={"dropped": {"unseen": 3}})
    assert list(example_drops(unseen)) == []


@pytest.mark.slow
def test_the_terminal_tells_changes_from_drops_and_says_what_examples_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Write to one@example.org about all of it.")
    (tmp_path / "b.txt").write_text("short")
    (tmp_path / "c.jsonl").write_text('{"text": "brief"}\n{"text": "A text that is long enough."}\n{}\n')
    sources = [{"name": name, "paths": [path]} for name, path in (("z", "*.txt"), ("a", "*.jsonl"))]
    filters = [{"kind": "length", "min_chars": 12}, {"kind": "pii"}]
    options: dict[str, Any] = {"ingest": {"min_chars": 1, "max_bad_fraction": 0.5}, "until": "ingest"}
    report = run_small(tmp_path, tmp_path / "run", sources=sources, filters=filters, **options)
    assert {sample["place"] for sample in report["documents"]["samples"]} == {
        "z: b.txt",
        "a: c.jsonl, line 1",
    }
    print_report(report, as_json=False)
    said = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    place = said.index("examples of what was dropped, one for each of the main reasons:")
    assert said[place + 1].startswith("  ")
    assert ": length.too_short: " in said[place + 1]
    assert said[place + 2].startswith("  a: c.jsonl, line 3: missing_text: ")
    assert said[place + 3] == ""
    assert not any("changed: " in line for line in said)
    changed = next(
        n for n, line in enumerate(said) if line.startswith("changed by filters, not dropped")
    )
    assert said[changed + 1].split() == ["pii.documents", "1"]
