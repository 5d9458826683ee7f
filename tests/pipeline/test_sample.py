"""What a sample of the inputs promises: every source counts alike, and it says what the run would do.

A source that is read whole beside one of which a share is read is not counted more than it has.
"""

import json
import shutil
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.inputs.limited import sample_source
from pipeline.run_file.config import RunFile
from pipeline.run_file.source import Source
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.forecast.forecast import forecast_run
from pipeline.tools.forecast.sample import DrawnFile, InputSample, draw_sample, even_share
from pipeline.tools.forecast.terminal import Forecast
from stages.chat.config import ChatConfig
from stages.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("measured_once")
WORDS = ["".join(word) for word in np.random.default_rng(7).choice(list("abcdefghijklmnop"), (2_000, 5))]
MIB = 1 << 20


BESIDE = 2_000
"""Characters that stand beside each text in a large file: bytes to read that no run has to work on."""


def lines(number: int, words: int, language: str = "en", *, beside: int = 0) -> str:
    """Return documents of so many words each, of which none repeats another."""
    drawn_words = np.random.default_rng([number, *language.encode()]).choice(WORDS, (number, words))
    rows = (
        {
            "text": f"{n} {' '.join(row)}",
            "lang": language,
            **({"beside": "." * beside} if beside else {}),
        }
        for n, row in enumerate(drawn_words.tolist())
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def run_file(names: list[str], **changes: Any) -> RunFile:
    """Return a run whose sources are files of their names."""
    content: dict[str, Any] = {
        "sources": [
            {"name": name, "paths": [f"{name}[.-]*"], "language": {"column": "lang"}} for name in names
        ],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"train": {"vocab_size": 600, "sample_size": "64KiB"}},
        "validation": {"fraction": 0.0},
        "verify": {"learning": False},
        "datasets": [{"name": "clm"}],
    }
    return RunFile.model_validate({**content, **changes})


def drawn(folder: Path, names: list[str], share: float) -> InputSample:
    into = folder / "sample"
    into.mkdir()
    return draw_sample(run_file(names), folder, into, share=share)


def forecast(folder: Path, file: RunFile, share: float) -> Forecast:
    return forecast_run(RunRequest(file, folder, folder / "never", 0), share=share)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large source of long records, and small ones of short records in another language."""
    folder = tmp_path_factory.mktemp("uneven")
    (folder / "big.jsonl").write_text(lines(9_000, 40, beside=BESIDE))
    for name in ("s1", "s2", "s3"):
        (folder / f"{name}.jsonl").write_text(lines(4_000, 20, name))
    assert (folder / "big.jsonl").stat().st_size > 16 * MIB
    return folder


def test_sources_that_are_read_whole_are_not_counted_more_than_they_have(uneven: Path) -> None:
    found = forecast(uneven, run_file(["big", "s1", "s2", "s3"]), 0.05)
    assert found["read"] == pytest.approx(9_000 + 3 * 4_000, rel=0.02)
    counts = {row["language"]: row["documents"] for row in found["languages"]}
    assert counts.keys() == {"en", "s1", "s2", "s3"}
    assert counts["en"] == pytest.approx(9_000, rel=0.02)
    for name in ("s1", "s2", "s3"):
        assert counts[name] == pytest.approx(4_000, rel=0.02)
    assert any("4 of 4 files are read, some records of each" in note for note in found["notes"])
    assert any("all sources and files count alike" in note for note in found["notes"])


def test_the_same_documents_stay_whenever_they_are_drawn(uneven: Path, tmp_path: Path) -> None:
    names, seen = ["big", "s1"], []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        draw_sample(run_file(names), uneven, tmp_path / str(number), share=0.05)
        seen.append([(tmp_path / f"{number}/{name}.jsonl").read_bytes() for name in names])
    assert seen[0] == seen[1]
    positions = [int(json.loads(line)["_text"].split()[0]) for line in seen[0][1].splitlines()]
    assert positions == sorted(positions)
    assert max(positions) > 3_500, "the documents that stay are not those of the beginning"


def test_small_files_of_a_source_are_not_counted_more_than_the_large_ones(
    uneven: Path, tmp_path: Path
) -> None:
    """The large file is read to a share, the small one beside it to its end."""
    shutil.copy(uneven / "big.jsonl", tmp_path / "s-large.jsonl")
    (tmp_path / "s-small.jsonl").write_text(lines(4_000, 20, "de"))
    sample = drawn(tmp_path, ["s"], 0.1)
    assert (sample.opened, sample.files) == (2, 2)
    rows = [json.loads(line) for line in (tmp_path / "sample/s.jsonl").read_text().splitlines()]
    assert len(rows) == sample.documents
    small = sum(row["_language"] == "de" for row in rows)
    assert small * sample.times == pytest.approx(4_000, rel=0.1)
    assert (len(rows) - small) * sample.times == pytest.approx(9_000, rel=0.02)


def test_as_much_stays_of_each_file_as_of_the_one_of_which_least_was_read() -> None:
    """Two files of a group of 4,000 bytes were opened; of the other source all was read."""
    files = [
        DrawnFile("a/part", ("a", False), 1_000, read=0.1),
        DrawnFile("a/whole", ("a", False), 1_000),
        DrawnFile("b/large", ("b", True), 500, read=0.5),
        DrawnFile("b/empty", ("b", False), 0),
    ]
    stored = {("a", False): 4_000, ("b", True): 500, ("b", False): 0}
    share, stays = even_share(files, stored)
    assert share == pytest.approx(0.05)
    assert [fraction for _, fraction in stays] == pytest.approx([1.0, 0.1, 0.1, 1.0])
    stand_for = sum(file.size * file.read * fraction for file, fraction in stays)
    assert stand_for / share == pytest.approx(sum(stored.values()))


def test_unreadable_records_stay_in_proportion(uneven: Path, tmp_path: Path) -> None:
    shutil.copy(uneven / "big.jsonl", tmp_path)
    (tmp_path / "junk.jsonl").write_text("no json\n" * 1_000 + lines(1_000, 20))
    sample = drawn(tmp_path, ["big", "junk"], 0.05)
    assert sample.unreadable * sample.times == pytest.approx(1_000, rel=0.001)
    assert sample.documents * sample.times == pytest.approx(10_000, rel=0.02)


def test_a_source_of_which_less_than_a_document_would_stay_is_said(uneven: Path, tmp_path: Path) -> None:
    shutil.copy(uneven / "big.jsonl", tmp_path)
    (tmp_path / "tiny.jsonl").write_text(lines(4, 20, "de"))
    found = forecast(tmp_path, run_file(["big", "tiny"]), 0.05)
    (said,) = [note for note in found["notes"] if "source tiny is too small" in note]
    assert "one document of it is used, so what is counted of it is 5 times too much" in said


def test_a_run_that_would_stop_at_unreadable_records_is_said(tmp_path: Path) -> None:
    """The bound is of all records, and before that of the first ones once there are a thousand."""
    (tmp_path / "a.jsonl").write_text("no json\n" * 1_200)
    (tmp_path / "b.jsonl").write_text(lines(400, 10))
    allowed = {"max_bad_fraction": 0.8}
    for names, said in (
        (
            ["a", "b"],
            "100.00% of the records up to those of source a, in the order of names, are unreadable",
        ),
        (["b"], None),
    ):
        file = run_file(names, ingest=allowed)
        found = [note for note in forecast(tmp_path, file, 1.0)["notes"] if "would stop" in note]
        assert len(found) == (said is not None)
        assert said is None or (said in found[0] and "ingest.max_bad_fraction = 0.8" in found[0])
    file = run_file(["a", "b"], ingest=allowed)
    with pytest.raises(DataError, match=r"max_bad_fraction = 0.8: 1,200 of the first 1,200"):
        run_session(RunRequest(file, tmp_path, tmp_path / "run", 0), stream=None)


def test_unreadable_records_of_a_later_source_count_among_all(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(300, 20))
    (tmp_path / "b.jsonl").write_text("no json\n" * 100)
    notes = forecast(tmp_path, run_file(["a", "b"]), 0.5)["notes"]
    assert any("the run would stop: 25.00% of the records are unreadable" in note for note in notes)
    assert "no document was drawn of source b: all of it was read" in notes
    allowed = run_file(["a", "b"], ingest={"max_bad_fraction": 0.25})
    assert not any("would stop" in note for note in forecast(tmp_path, allowed, 0.5)["notes"])


def dialogues(folder: Path, *, tool: bool, number: int = 4_000) -> RunFile:
    """Write dialogues, of which the second has a turn of a tool if any has."""
    rows = [
        [
            {"role": "user", "content": f"{n} {WORDS[n % 2_000]} " * 90},
            {"role": "assistant", "content": "so"},
        ]
        for n in range(number)
    ]
    if tool:
        rows.insert(1, [{"role": "tool", "content": "said"}])  # half are drawn: the first, the third
    (folder / "c.jsonl").write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    source = {
        "name": "c",
        "paths": ["c.jsonl"],
        "chat": {"template": "chatml", "learn": ["tool", "assistant"]},
    }
    clm = {"name": "clm", "objective": {"kind": "clm", "loss": "targets"}}
    return run_file([], sources=[source], datasets=[clm])


@pytest.mark.campaign
def test_a_role_that_the_sample_lacks_is_a_note(tmp_path: Path) -> None:
    file = dialogues(tmp_path, tool=True)
    notes = forecast(tmp_path, file, 0.5)["notes"]
    (said,) = [note for note in notes if "chat.learn" in note]
    assert said.startswith(
        "sources.c.chat.learn: no turn of the sample is of role 'tool'; roles there: "
    )
    assert not any("chat.learn" in note for note in forecast(tmp_path, file, 1.0)["notes"])


@pytest.mark.campaign
def test_a_role_alone_that_the_sample_lacks_is_a_note(tmp_path: Path) -> None:
    file = dialogues(tmp_path, tool=True)
    chat = {"template": "chatml", "learn": ["tool"]}
    source = {"name": "c", "paths": ["c.jsonl"], "chat": chat}
    alone = run_file([], sources=[source], datasets=[one.model_dump() for one in file.datasets])
    notes = forecast(tmp_path, alone, 0.5)["notes"]
    assert any("no turn of the sample is of role 'tool'" in note for note in notes)


def test_a_role_that_all_of_the_inputs_lack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sources.c.chat.learn: no turn is of role 'tool'"):
        forecast(tmp_path, dialogues(tmp_path, tool=False, number=40), 1.0)


VALUES: dict[str, list[object]] = {
    "stamp": [datetime.fromisoformat("2023-11-14T22:13:20"), datetime.fromisoformat("2023-11-14")],
    "zoned": [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), datetime(2023, 11, 15, tzinfo=UTC)],
    "day": [date(2023, 11, 14), date(2023, 11, 15)],
    "hour": [time(22, 13, 20), time(22, 13, 21)],
    "price": [Decimal("1.50"), Decimal("2.50")],
    "raw": [b"ab\xff", b"cd"],
    "days": [[date(2023, 11, 14)], []],
    "score": [float("inf"), float("nan")],
    "whole": [1.0, 2.0],
    "flag": [True, False],
}


def test_filters_see_of_a_table_what_the_run_sees(tmp_path: Path) -> None:
    """Each column has the value that its filter wants, but in four records of its own."""
    rows = [
        {
            "text": f"{n} {' '.join(WORDS[:40])}",
            "lang": "en",
            **{name: values[n % 20 == place] for place, (name, values) in enumerate(VALUES.items(), 1)},
            "number": Decimal(100 + n if n % 20 else 9),
        }
        for n in range(80)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    filters: list[dict[str, Any]] = [{"kind": "column", "column": "number", "min": 40}]
    for column in VALUES:
        first = pq.read_table(tmp_path / "t.parquet")[column][0].as_py()
        text = str(first).lower() if isinstance(first, bool) else str(first)
        filters.append({"kind": "column", "column": column, "one_of": [text]})
    file = run_file(["t"], filters=filters)
    found = forecast(tmp_path, file, 1.0)
    run = RunRequest(file, tmp_path, tmp_path / "run", 0, until="shard")
    report = run_session(run, stream=None)
    dropped = {why: count for why, count in report["documents"]["dropped"].items() if count}
    assert {why: count for why, count in found["dropped"].items() if count} == dropped
    assert found["kept"] == report["documents"]["kept"] == 36
    assert dropped["column.below_min"] == 4, "as numbers, not as texts"


def test_a_vocabulary_that_the_run_may_not_give_is_said(tmp_path: Path) -> None:
    """The text of the whole is less than what pieces commonly take; the sample's is less still."""
    (tmp_path / "s.jsonl").write_text(lines(200, 400))
    many = run_file(["s"], tokenizer={"train": {"vocab_size": 16_000}})
    (said,) = [note for note in forecast(tmp_path, many, 0.5)["notes"] if "to train 16,000" in note]
    assert "The run would be refused" in said or "The run may be refused" in said
    assert "tokenizer.train.vocab_size" in said


def test_a_prompt_and_its_completion_are_one_dialogue_of_a_sample(tmp_path: Path) -> None:
    chat = ChatConfig(template="chatml", column="prompt", completion_column="completion")
    found = sample_source(Source(name="pairs", paths=("a.jsonl",), chat=chat), tmp_path / "s.jsonl").chat
    assert found is not None
    assert (found.column, found.completion_column) == ("_messages", None)
