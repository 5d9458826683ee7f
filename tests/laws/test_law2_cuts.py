"""What law 2 promises of cuts below the document: one copy stays, the rest is listed, no more goes.

The corpus has one licence in front of many files of code, passages that stand in several texts, one text
with nothing of its own, and prompts with targets, of which nothing is cut.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.ledger import read_flows
from pipeline.state.publishing import Outcome
from pipeline.state.storage import LocalStorage
from pipeline.steps.cut.check import check_cuts
from pipeline.steps.cut.step import (
    CutRecord,
    recount_evidence_of_cuts,
)
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.recount import UnitRecount
from pipeline.steps.selection import recount_kept
from pipeline.steps.units import Unit, kept_groups, units_of
from stages.dedup.shingles import split_tokens
from stages.store.digests import digest_file
from tests.conftest import bundled_lines, digests, run_small

ROOT = Path(__file__).parents[2]
WORDS = 20
LICENCE = "\n".join(
    f"# Permission number {line} is granted to any person that obtains a copy of this software, and"
    for line in range(14)
)
PROMPT = "Question of this test: "
SOURCES: list[dict[str, Any]] = [
    {"name": "code", "paths": ["code.jsonl"], "language": "en"},
    {"name": "mixed", "paths": ["text*.jsonl"], "id_column": "id", "language": {"column": "lang"}},
    {
        "name": "pairs",
        "paths": ["pairs.jsonl"],
        "text_column": "prompt",
        "section_columns": ["target"],
        "language": "en",
    },
]
CUTTING = {
    "lines": {"lines": {"min_documents": 5}},
    "paragraphs": {"paragraphs": {"min_documents": 5}},
    "substrings": {"substrings": {"min_words": WORDS}},
}
ALL: dict[str, Any] = {key: value for one in CUTTING.values() for key, value in one.items()}
FOLDERS = ("tokens", "dedup", "tokenizer", "cut")


def write(path: Path, records: list[dict[str, str]]) -> None:
    """Write records as lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its files."""
    folder = tmp_path_factory.mktemp("cut")
    code = [json.loads(line)["text"] for line in bundled_lines("code/*", 40)]
    write(folder / "code.jsonl", [{"text": f"{LICENCE}\n\n{text}"} for text in code])
    records = [json.loads(line) for line in bundled_lines("text/*", 12)]
    for number, record in enumerate(records):
        record["text"] += "\n\n" + records[number // 3]["text"][:400]
    own = {**records[0], "id": "nothing-new", "text": records[5]["text"][:900].rsplit(maxsplit=1)[0]}
    write(folder / "text-a.jsonl", records[::2])
    write(folder / "text-b.jsonl", [*records[1::2], own])
    prompt = PROMPT + records[0]["text"]
    pairs = [{"prompt": prompt, "target": f" answer {number}"} for number in range(8)]
    write(folder / "pairs.jsonl", pairs)
    return folder


def cut_run(corpus: Path, output: Path, dedup: dict[str, Any], **options: Any) -> Path:
    """Run with some cuts, near-duplicates left in."""
    train = {"vocab_size": 1024, "character_coverage": 0.98}
    changes = {"sources": SOURCES, "tokenizer": {"train": train}, **options}
    run_small(corpus, output, dedup={"near": False, **dedup}, **changes)
    return output


@pytest.fixture(scope="module")
def inline(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cuts, by a plain loop, up to the check of the texts."""
    output = tmp_path_factory.mktemp("inline") / "run"
    return cut_run(corpus, output, ALL, until="verify", verify={"learning": False})


def units(run: Path, **changes: Any) -> list[Unit]:
    """Return the units of a run as the step cut leaves them."""
    commits = dict(Commits(LocalStorage(run)).all("ingest"))
    found = units_of(commits[STEP_COMMIT].read(IngestRecord).units)
    own = {"kept_by": "cut", **changes}
    return [
        Unit(**{**vars(unit), **own, "cut": own["kept_by"] == "cut" and unit.sections == 1})
        for unit in found
    ]


def texts(run: Path, **changes: Any) -> dict[bytes, str]:
    """Return the kept documents of a run by id."""
    workspace = Workspace(run, run / "tmp")
    return {
        row["id"]: row["text"]
        for unit in units(run, **changes)
        for table in kept_groups(workspace, unit, ["id", "text"])
        for row in table.to_pylist()
    }


def windows(text: str, size: int = WORDS) -> Iterator[tuple[str, ...]]:
    """Return the strings of some words of a text."""
    words = split_tokens(text)
    return (tuple(words[start : start + size]) for start in range(len(words) - size + 1))


def test_verify_passes_and_the_ledger_says_what_is_cut(inline: Path) -> None:
    report = json.loads((inline / "report" / "report.json").read_text())
    assert report["passed"]
    record = dict(Commits(LocalStorage(inline)).all("cut"))[STEP_COMMIT].read(CutRecord)
    assert set(record.bytes) == {"line", "paragraph", "substring"}
    assert all(record.bytes.values())
    assert record.removed == {"cut_empty": 1}
    listed = pq.read_table(inline / "dedup" / "cuts.parquet").to_pylist()
    assert len(listed) == record.cuts > 60
    before, after = texts(inline, kept_by="dedup"), texts(inline)
    lost = sum(len(before[name].encode()) - len(text.encode()) for name, text in after.items())
    assert lost == sum(record.bytes.values())


def test_each_cut_is_listed_with_the_place_of_the_first_copy(inline: Path) -> None:
    before, after = texts(inline, kept_by="dedup"), texts(inline)
    listed, same = pq.read_table(inline / "dedup" / "cuts.parquet").to_pylist(), 0
    for row in listed:
        gone = before[bytes.fromhex(row["id"])].encode()[row["start"] : row["end"]].decode()
        assert gone.strip().startswith(row["excerpt"][:40])
        first = " ".join(split_tokens(before[bytes.fromhex(row["first_id"])]))
        assert split_tokens(gone)[0] in first
        same += " ".join(split_tokens(gone)[: WORDS // 2]) in first
    assert same > 0.98 * len(listed)  # some are made of several strings, of which the first one is short
    by_id: dict[str, list[tuple[int, int]]] = {}
    for row in listed:
        by_id.setdefault(row["id"], []).append((row["start"], row["end"]))
    changed = {name for name, text in after.items() if text != before[name]}
    assert {bytes.fromhex(name) for name in by_id} == changed | (before.keys() - after.keys())
    for name, ranges in by_id.items():
        data = before[bytes.fromhex(name)].encode()
        gone_bytes = {place for start, end in ranges for place in range(start, end)}
        left = bytes(byte for place, byte in enumerate(data) if place not in gone_bytes)
        assert after.get(bytes.fromhex(name), left.decode()) == left.decode()


@pytest.fixture(scope="module")
def of_strings(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repeated strings cut, by a plain loop, up to the cuts."""
    output = tmp_path_factory.mktemp("strings") / "run"
    return cut_run(corpus, output, CUTTING["substrings"], until="cut")


def test_of_each_repeated_string_one_copy_stays_and_hardly_more(of_strings: Path) -> None:
    run = of_strings
    cut = {unit.source for unit in units(run) if unit.cut}
    assert cut == {"code", "mixed"}
    before, after = texts(run, kept_by="dedup"), texts(run)
    prompts = {name for name, text in before.items() if text.startswith(PROMPT)}
    own = [name for name in before if name not in prompts]
    counts = Counter(window for name in own for window in windows(before[name]))
    left = Counter(window for name in own if name in after for window in windows(after[name]))
    repeated = {window for window, count in counts.items() if count > 1}
    assert len(repeated) > 1_000
    assert sum(left[window] > 1 for window in repeated) < len(repeated) / 1_000
    short = {window for name in own for window in windows(before[name], 5)}
    stays = {window for name in own if name in after for window in windows(after[name], 5)}
    assert len(short - stays) < len(short) / 30
    assert all(before[name] == after[name] for name in prompts)


@pytest.mark.parametrize("name", CUTTING)
def test_one_licence_stays_and_no_code_is_touched(name: str, tmp_path: Path) -> None:
    code = [path.read_text() for path in sorted((ROOT / "stages").rglob("*.py"))]
    code = [text for text in code if len(text) > 500][:40]
    write(tmp_path / "code.jsonl", [{"text": f"{LICENCE}\n\n{text}"} for text in code])
    options = {"sources": SOURCES[:1], "until": "cut"}
    least = {"substrings": {}}.get(name, {"min_documents": 35})
    dedup = {name: least}
    found = list(texts(cut_run(tmp_path, tmp_path / "run", dedup, **options)).values())
    assert len(found) == 40
    assert sum("Permission number 7" in text for text in found) == 1
    assert found[0] == f"{LICENCE}\n\n{code[0]}"
    assert found[1:] == code[1:]


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_units_and_workers_change_no_byte(corpus: Path, inline: Path, tmp_path: Path) -> None:
    other = cut_run(corpus, tmp_path / "run", ALL, workers=2, until="tokenize")
    assert digests(other, *FOLDERS) == digests(inline, *FOLDERS)
    small = {"ingest": {"unit_size": "40KiB", "min_chars": 20}}
    many = cut_run(corpus, tmp_path / "many", ALL, until="cut", **small)
    assert len(units(many)) > len(units(inline))
    assert texts(many) == texts(inline)
    tables = [pq.read_table(run / "dedup" / "cuts.parquet") for run in (many, inline)]
    assert tables[0].equals(tables[1])


def test_what_only_the_step_needs_is_gone_once_it_is_whole(inline: Path, tmp_path: Path) -> None:
    assert {path.name for path in (inline / "cut").iterdir()} == {"found", "keep", "ranges"}
    for step in ("ingest", "dedup", "cut"):  # as after a kill in the middle of removing them
        shutil.copytree(inline / "commits" / step, tmp_path / "commits" / step)
    passing = tmp_path / "commits" / "cut" / "spans-line-00000.json"
    commits, file = Commits(LocalStorage(tmp_path)), tmp_path / "cut" / "spans" / "keys.npy"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"1")
    digest = digest_file(file)
    whole = passing.with_name(f"{STEP_COMMIT}.json").read_bytes()
    passing.with_name(f"{STEP_COMMIT}.json").unlink()
    commits.put("cut", passing.stem, "f", Outcome(file.parents[2], {"cut/spans/keys.npy": digest}))
    passing.with_name(f"{STEP_COMMIT}.json").write_bytes(whole)
    assert file.exists()
    assert passing.stem not in commits.survey("cut").damaged
    file.unlink()
    assert passing.stem not in commits.survey("cut").damaged
    for _ in range(2):
        commits.release("cut", ("spans-",))
        assert not passing.exists()
        assert not (tmp_path / "cut").exists()
    assert commits.survey("cut").commits[STEP_COMMIT].units


def test_cuts_that_are_taken_out_of_the_run_file_leave_nothing(
    corpus: Path, of_strings: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(of_strings, tmp_path / "run"))
    listed = run / "dedup" / "cuts.parquet"
    cut_run(corpus, run, {}, until="dedup")
    assert listed.exists()
    cut_run(corpus, run, {}, until="dedup", replace=True)
    assert not listed.exists()
    assert not (run / "cut").exists()
    assert "cut" not in Commits(LocalStorage(run)).steps()
    assert (run / "dedup" / "removed.parquet").exists()


def test_texts_without_repeats_are_left_as_they_are(corpus: Path, tmp_path: Path) -> None:
    dedup = {"substrings": {"min_words": 10_000}, "lines": {"min_documents": 1_000}}
    run = cut_run(corpus, tmp_path / "run", dedup, until="cut")
    assert texts(run) == texts(run, kept_by="dedup")
    assert pq.read_table(run / "dedup" / "cuts.parquet").num_rows == 0


Damage = Callable[[Path, Unit], None]


def _edited(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    edit(rows[0])
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def longer(run: Path, unit: Unit) -> None:
    """Cut one byte more."""
    _edited(run / unit.cuts, lambda row: row["ends"].__setitem__(-1, row["ends"][-1] + 1))


def other_digest(run: Path, unit: Unit) -> None:
    _edited(run / unit.cuts, lambda row: row.update(digest=bytes(16)))


def crossed(run: Path, unit: Unit) -> None:
    _edited(run / unit.cuts, lambda row: row["starts"].__setitem__(0, row["ends"][0] + 5))


def past_the_end(run: Path, unit: Unit) -> None:
    _edited(run / unit.cuts, lambda row: row["ends"].__setitem__(-1, 1 << 40))


def not_listed(run: Path, _: Unit) -> None:
    path = run / "dedup" / "cuts.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


def kept_again(run: Path, unit: Unit) -> None:
    np.save(run / unit.keep_mask, np.ones(unit.documents, np.bool_))


def all_gone(run: Path, unit: Unit) -> None:
    (run / unit.cuts).unlink()


@pytest.mark.parametrize(
    "damage", [longer, other_digest, crossed, past_the_end, not_listed, kept_again, all_gone]
)
def test_what_is_changed_afterwards_is_found(damage: Damage, inline: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for folder in ("cut", "dedup", "ingest", "ledger", "commits"):
        shutil.copytree(inline / folder, run / folder)
    flows, workspace = read_flows(run, "cut"), Workspace(run, run / "tmp")
    record = dict(Commits(LocalStorage(run)).all("cut"))[STEP_COMMIT].read(CutRecord)
    unit = next(one for one in units(run) if flows[one.commit_name].gone["cut_empty"].documents)

    def found() -> list[Any]:
        assert record.ledger is not None
        checks = [
            recount_kept(workspace, UnitRecount(unit, flows[unit.commit_name])),
            recount_evidence_of_cuts(workspace, record.ledger),
        ]
        return [*check_cuts(workspace, unit), *(one for check in checks for one in check.findings)]

    assert found() == []
    damage(run, unit)
    assert found()


def test_no_empty_document_is_kept_for_a_line_that_stands_inside_another(tmp_path: Path) -> None:
    line = " ".join(f"w{number}" for number in range(2 * WORDS))
    records = [
        f"Before it {line} after it.",
        line,
        f"One. Two.\n{line}\nAnd more of it.",
        f"{line}\nA third",
    ]
    write(tmp_path / "code.jsonl", [{"text": text} for text in records])
    dedup = {"lines": {"min_documents": 2}, **CUTTING["substrings"]}
    ingest = {"unit_size": "200KiB", "min_chars": 5}
    run = cut_run(tmp_path, tmp_path / "run", dedup, sources=SOURCES[:1], until="cut", ingest=ingest)
    assert [*texts(run).values()] == [records[0], "One. Two.\nAnd more of it.", "A third"]
