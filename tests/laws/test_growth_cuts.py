"""What growth promises of cuts: a text that an earlier document keeps is cut from later ones.

What is cut from a dump is what one run over it and all dumps before it cuts from its documents. What was
cut of the dumps before stays as it is.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from stages.errors import ConfigError, ShardmillError
from tests.conftest import digests, run_small
from tests.laws.test_law2_cuts import texts

pytestmark = pytest.mark.slow

DEDUP: dict[str, Any] = {
    "near": False,
    "lines": {"min_documents": 3, "min_chars": 20},
    "paragraphs": {"min_documents": 3, "min_chars": 50},
    "substrings": {"min_words": 12},
}
NAMES = "abc"


def dumps_of(seed: int) -> list[list[str]]:
    """Return documents of three dumps, made of lines and strings that stand in several of them."""
    rng = np.random.default_rng([seed, 11])

    def words(count: int | np.integer) -> str:
        return " ".join(f"w{word}" for word in rng.integers(0, 5_000, count))

    lines = [words(rng.integers(4, 30)) for _ in range(12)]
    strings = [words(rng.integers(10, 40)) for _ in range(8)]

    def document() -> str:
        parts = []
        for kind in rng.integers(0, 4, rng.integers(2, 7)):
            line, string = lines[rng.integers(12)], strings[rng.integers(8)]
            begin = int(rng.integers(0, 6))
            part = " ".join(string.split()[begin : begin + int(rng.integers(8, 40))])
            parts.append([words(15), line, f"{words(4)} {part} {words(3)}", f"{line}\n{string}"][kind])
        return ["\n", "\n\n"][rng.integers(2)].join(parts)

    return [[document() for _ in range(rng.integers(4, 14))] for _ in NAMES]


def write(folder: Path, name: str, documents: list[str]) -> None:
    """Write one dump; its documents are called a0, a1, ..."""
    folder.mkdir(exist_ok=True)
    records = [{"text": text, "name": f"{name}{number}"} for number, text in enumerate(documents)]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def cut(folder: Path, output: str, dumps: str, against: str = "", **options: Any) -> Path:
    """Run over some dumps as far as the cuts, against the runs of others, parted by spaces."""
    source = {"name": "s", "paths": [f"{name}.jsonl" for name in dumps], "id_column": "name"}
    dedup = {**options.pop("dedup", DEDUP), "against": [f"run-{name}" for name in against.split()]}
    ingest = {"min_chars": 5, "unit_size": "4KiB"}
    settings = {"sources": [source], "dedup": dedup, "ingest": ingest, "until": "cut", **options}
    run_small(folder, folder / output, **settings)
    return folder / output


def left(run: Path, name: str) -> dict[str, str]:
    """Return the texts of a dump that a run keeps, by own id."""
    names = {}
    for table in run.glob("ingest/*/*/documents.parquet"):
        for row in pq.read_table(table, columns=["id", "own_id"]).to_pylist():
            names[row["id"]] = row["own_id"]
    return {names[one]: text for one, text in texts(run).items() if names[one].startswith(name)}


def cuts(run: Path, name: str) -> list[tuple[Any, ...]]:
    """Return what a run cuts from the documents of a dump, and where the first copies stand."""
    columns = ["own_id", "method", "start", "end", "cut_bytes", "emptied", "first_own_id", "excerpt"]
    rows = pq.read_table(run / "dedup/cuts.parquet").to_pylist()
    return [tuple(row[one] for one in columns) for row in rows if row["own_id"].startswith(name)]


@pytest.mark.parametrize("unit", ["min_words", "min_bytes"])
def test_each_dump_is_cut_as_in_one_run_over_it_and_all_before(unit: str, tmp_path: Path) -> None:
    seed, size = (0, 12) if unit == "min_words" else (1, 80)
    dedup = {**DEDUP, "substrings": {unit: size}}
    dumps = dumps_of(seed)
    for name, documents in zip(NAMES, dumps, strict=True):
        write(tmp_path, name, documents)
    found = cut(tmp_path, "run-a", "a", dedup=dedup)
    named = {json.loads((found / "run.json").read_text())["steps"]["dedup"]["fingerprint"]: "a"}
    for number in (1, 2):
        name, before = NAMES[number], digests(found, "ingest", "dedup", "cut", "ledger", "commits")
        run = cut(tmp_path, f"run-{name}", name, " ".join(NAMES[:number]), dedup=dedup)
        whole = cut(tmp_path, f"whole-{name}", NAMES[: number + 1], dedup=dedup)
        assert left(run, name) == left(whole, name)
        assert cuts(run, name) == cuts(whole, name)
        rows = pq.read_table(run / "dedup/cuts.parquet").to_pylist()
        assert all(named.get(row["first_run"], name) == row["first_own_id"][0] for row in rows)
        assert {row["first_own_id"][0] for row in rows} >= set(NAMES[:number])
        assert {row["method"] for row in rows} >= {"line", "substring"}
        assert digests(found, "ingest", "dedup", "cut", "ledger", "commits") == before
        steps = json.loads((run / "run.json").read_text())["steps"]
        named[steps["dedup"]["fingerprint"]], found = name, run


def lines_of(first: int, count: int) -> list[str]:
    """Return lines of which no two are alike."""
    return [
        f"line {number} has words of its own, {number * 7919 + 3}"
        for number in range(first, first + count)
    ]


def test_lines_count_with_those_that_were_cut_before(tmp_path: Path) -> None:
    line, often = (
        "this line stands in some documents of each dump",
        "this one is cut in the first dump already",
    )
    own = lines_of(0, 8)
    write(
        tmp_path,
        "a",
        [f"{own[n]}\n{often}" for n in range(3)] + [f"{own[3]}\n{line}", f"{own[4]}\n{line}"],
    )
    write(tmp_path, "b", [f"{own[5]}\n{line}", f"{own[6]}\n{often}", f"{own[7]}\n{own[0]}"])
    dedup = {"near": False, "lines": {"min_documents": 3, "min_chars": 20}}
    old, new = cut(tmp_path, "run-a", "a", dedup=dedup), cut(tmp_path, "run-b", "b", "a", dedup=dedup)
    assert left(old, "a") == {
        "a0": f"{own[0]}\n{often}",
        "a1": f"{own[1]}\n",
        "a2": f"{own[2]}\n",
        "a3": f"{own[3]}\n{line}",
        "a4": f"{own[4]}\n{line}",
    }
    assert left(new, "b") == {"b0": f"{own[5]}\n", "b1": f"{own[6]}\n", "b2": f"{own[7]}\n{own[0]}"}


def test_a_document_that_its_cuts_emptied_keeps_nothing(tmp_path: Path) -> None:
    string = " ".join(f"s{number}" for number in range(14))
    rest = " ".join(f"r{number}" for number in range(11))
    write(tmp_path, "a", [f"{lines_of(0, 1)[0]}\n{string}", f"{string}\n{rest}"])
    write(tmp_path, "b", [f"{lines_of(1, 1)[0]}\n{string} {rest}"])
    dedup = {"near": False, "substrings": {"min_words": 12}}
    ingest = {"min_chars": 45}
    old = cut(tmp_path, "run-a", "a", dedup=dedup, ingest=ingest)
    assert list(left(old, "a")) == ["a0"]
    new = cut(tmp_path, "run-b", "b", "a", dedup=dedup, ingest=ingest)
    assert rest in left(new, "b")["b0"]
    assert string not in left(new, "b")["b0"]


def test_earlier_runs_without_cuts_or_with_others(tmp_path: Path) -> None:
    string = " ".join(f"s{number}" for number in range(30))
    own = lines_of(0, 3)
    write(tmp_path, "a", [f"{own[0]}\n{string}"])
    write(tmp_path, "b", [f"{own[1]}\n{string}"])
    near = {"near": False}
    substrings = {"near": False, "substrings": {"min_words": 20}}
    cut(tmp_path, "run-a", "a", dedup=near, until="dedup")
    new = cut(tmp_path, "run-b", "b", "a", dedup=substrings)
    assert left(new, "b") == {"b0": f"{own[1]}\n"}
    (cut_row,) = pq.read_table(new / "dedup/cuts.parquet").to_pylist()
    assert cut_row["first_own_id"] == "a0"
    (tmp_path / "run-a").rename(tmp_path / "away")
    before = digests(new, "cut", "commits")
    assert cut(tmp_path, "run-b", "b", "a", dedup=substrings) == new, "what is done needs it no more"
    assert digests(new, "cut", "commits") == before
    cut(tmp_path, "run-a2", "a", dedup=near | {"paragraphs": {}}, until="dedup")
    write(tmp_path, "c", [f"{own[2]}\n{string}"])
    with pytest.raises(ConfigError, match="step cut of that run is not done"):
        cut(tmp_path, "run-c", "c", "a2", dedup=substrings)


@pytest.fixture(scope="module")
def old_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a dump, of its run and of a later dump."""
    folder = tmp_path_factory.mktemp("old")
    for name, documents in zip(NAMES, dumps_of(7), strict=True):
        write(folder, name, [*documents, documents[0]])
    cut(folder, "run-a", "a")
    return folder


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("dedup/removed.parquet", flip),
        ("dedup/removed.parquet", cut_short),
        ("dedup/keep/s/*.npy", flip),
        ("cut/keep/s/*.npy", flip),
        ("ingest/s/*/documents.parquet", flip),
        ("dedup/clusters.parquet", Path.unlink),
        ("commits/dedup/decide.json", flip),
    ],
)
def test_a_changed_file_of_an_earlier_run_is_refused_by_name(
    old_run: Path, name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(old_run, folder)
    file = min((folder / "run-a").glob(name))
    damage(file)
    with pytest.raises(ShardmillError, match=f"dedup.against: run-a: .*{file.name}") as refused:
        cut(folder, "run-b", "b", "a")
    assert "restore it, or make that run again with --replace" in str(refused.value)
    assert not (folder / "run-b/dedup/removed.parquet").exists()
