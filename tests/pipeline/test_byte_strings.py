"""What cuts of strings of bytes promise: what plain loops say, in any units and any pieces."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.cut.byte_windows import (
    WINDOWS,
    PlacedRanges,
    WindowGroup,
    cut_windows,
    window_ranges,
    write_shared,
)
from pipeline.steps.cut.spans import SpanGroup, SpanPartition, cut_spans, repeats_key, write_repeats
from pipeline.steps.dedup.unit_groups import UnitGroup
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.units import Unit, kept_groups, units_of
from stages.dedup.byte_cuts import WindowRanges, readable_bytes, repeated_bytes
from stages.dedup.cuts import merged
from stages.dedup.repeats import documents_of, ordinals_of
from tests.conftest import run_small

SIZE = 32
SUBSTRINGS = {"min_bytes": SIZE}
SOURCES = [{"name": "letters", "paths": ["*.jsonl"], "language": "en"}]
Place = tuple[int, int]


def written(chance: Random) -> list[str]:
    """Return texts over small alphabets that share strings, and repeat themselves."""
    texts = []
    for alphabet in ("ab", "abcd. \n", "猫犬。 ", "abcdefghijklmnopqrstuvwxyz ,\n"):
        parts = ["".join(chance.choices(alphabet, k=chance.randint(1, 90))) for _ in range(5)]
        for _ in range(5):
            text = (
                "x"
                + "".join(chance.choices(parts, k=3))
                + chance.choice(parts)[:3] * chance.randint(0, 20)
            )
            texts.append(text + chance.choice(alphabet) + "y")
    return texts


@pytest.fixture(scope="module", params=[1, 2])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that cuts strings of bytes, with many units."""
    folder = tmp_path_factory.mktemp("letters")
    texts = written(Random(request.param))  # noqa: S311  # any texts
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    output = folder / "run"
    options: dict[str, Any] = {"sources": SOURCES, "ingest": {"unit_size": "1KiB", "min_chars": 1}}
    run_small(folder, output, until="cut", dedup={"near": False, "substrings": SUBSTRINGS}, **options)
    return output


def units(run: Path, kept_by: str) -> list[Unit]:
    """Return the units of a run as a step leaves them."""
    found = dict(Commits(LocalStorage(run)).all("ingest"))[STEP_COMMIT].read(IngestRecord).units
    changes = {"kept_by": kept_by, "cut": kept_by == "cut"}
    return [Unit(**{**vars(unit), **changes}) for unit in units_of(found)]


def texts(run: Path, kept_by: str) -> dict[bytes, bytes]:
    """Return the kept documents of a run, in canonical order."""
    workspace = Workspace(run, run / "tmp")
    return {
        row["id"]: row["text"].encode()
        for unit in units(run, kept_by)
        for table in kept_groups(workspace, unit, ["id", "text"])
        for row in table.to_pylist()
    }


def plain_repeats(documents: list[bytes]) -> dict[Place, Place]:
    """Return each window that stands more than once with its first place."""
    places: dict[bytes, list[Place]] = {}
    for number, text in enumerate(documents):
        for start in range(len(text) - SIZE + 1):
            places.setdefault(text[start : start + SIZE], []).append((number, start))
    return {place: every[0] for every in places.values() if len(every) > 1 for place in every}


def repeats_in(root: Path, pieces: int) -> dict[Place, Place]:
    """Return what the step found, with documents by number."""
    every = np.concatenate([np.load(root / repeats_key("substring", piece)) for piece in range(pieces)])
    sides = [
        [*zip(documents_of(one).tolist(), ordinals_of(one).tolist(), strict=True)] for one in every.T
    ]
    return dict(zip(*sides, strict=True))


def test_repeats_are_those_of_plain_loops_in_any_pieces(run: Path, tmp_path: Path) -> None:
    kept = list(texts(run, "dedup").values())
    wanted = plain_repeats(kept)
    assert len(kept) == sum(unit.documents for unit in units(run, "dedup"))
    assert len(wanted) > 1_000
    for name in ("ingest", "dedup"):
        (tmp_path / name).symlink_to(run / name)
    every = [Unit(**{**vars(unit), "cut": True}) for unit in units(run, "dedup")]
    assert len(every) > 3
    runs = [UnitGroup(number, (unit,)) for number, unit in enumerate(every)]
    workspace, dedup = Workspace(tmp_path, tmp_path), Dedup.model_validate({"substrings": SUBSTRINGS})
    firsts = tuple(one.first for one in runs)
    for one in runs:
        cut_spans(workspace, SpanGroup(one, "substring", dedup, 3))
    for piece in range(3):
        write_shared(workspace, SpanPartition(firsts, "substring", dedup, piece, "substring"))
    for one in runs:
        cut_windows(workspace, WindowGroup(one, dedup, 3, 7))
    for piece in range(7):
        write_repeats(workspace, SpanPartition(firsts, "substring", dedup, piece, WINDOWS))
    assert repeats_in(tmp_path, 7) == wanted
    found = PlacedRanges(workspace, "substring", 7).of(0, len(kept))
    again = {
        (place + step, first + step)
        for place, first, count in zip(*(column.tolist() for column in found), strict=True)
        for step in range(count)
    }
    assert again == {(p << 32 | s, f << 32 | b) for (p, s), (f, b) in wanted.items()}


def test_what_is_left_is_what_plain_loops_leave(run: Path) -> None:
    before, after = texts(run, "dedup"), texts(run, "cut")
    repeats, changed = plain_repeats(list(before.values())), 0
    for number, (name, text) in enumerate(before.items()):
        others = [
            (start, first[1] if first[0] == number else -1, 1)
            for (document, start), first in sorted(repeats.items())
            if document == number and first != (document, start)
        ]
        runs = WindowRanges(*np.array(others, np.int64).reshape(-1, 3).T)
        ranges = repeated_bytes(np.frombuffer(text, np.uint8), runs, min_bytes=SIZE).tolist()
        found = [readable_bytes(text, low, high, min_bytes=SIZE) for low, high in ranges]
        left = bytearray(text)
        for low, high in reversed(merged([cut for cut in found if cut is not None])):
            del left[low:high]
        changed += bytes(left) != text
        if name in after:
            assert after[name] == bytes(left)
        else:
            assert not left.strip()
    assert changed > 10
    listed = pq.read_table(run / "dedup" / "cuts.parquet").to_pylist()
    assert {row["method"] for row in listed} == {"substring"}
    for row in listed:
        text, first = before[bytes.fromhex(row["id"])], before[bytes.fromhex(row["first_id"])]
        assert (
            first[row["first_at"] :][:4]
            in text[row["start"] - SIZE if row["start"] > SIZE else 0 : row["end"]]
        )


def test_windows_that_follow_each_other_are_one_run() -> None:
    repeats = np.array([[5, 1], [6, 2], [7, 9], [9, 11], [10, 12]], np.uint64)
    assert window_ranges(repeats).tolist() == [[5, 1, 2], [7, 9, 1], [9, 11, 2]]
    assert window_ranges(repeats[:0]).shape == (0, 3)
