"""Which strings stand twice: the step `cut` beside a suffix array of pydivsufsort, in time and memory.

    python benchmarks/suffix_arrays.py RUN --min-bytes 200 --min-words 50

RUN has finished its step `dedup`; its kept documents are read. Each program works in a process of its
own and writes which bytes, or words, lie in a string of the given length that stands at least twice. The
two answers are compared. `pydivsufsort` is no dependency of the project: put it on the path.

The suffix array takes the whole corpus at once, documents apart by a byte that no UTF-8 has. Neighbours
in the array say how much they have in common (Kasai et al. 2001). Words are numbers of four bytes there,
because the library sorts bytes. `cut` does its phases up to the repeats, one task after another.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from repeated_strings import covered, kept_texts

from pipeline.engine.tasks import Workspace
from pipeline.planning.kept_plan import kept_run, read_kept_plan
from pipeline.run_file.deduplication import Dedup
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.cut.byte_windows import (
    WINDOWS,
    WindowRun,
    cut_windows,
    window_pieces,
    write_shared,
)
from pipeline.steps.cut.repeats import SpanPiece, repeats_key, write_repeats
from pipeline.steps.cut.spans import SpanRun, cut_spans, span_pieces
from pipeline.steps.dedup.runs import unit_runs
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.selection import as_kept_by, is_cut
from pipeline.steps.units import Unit, kept_mask, units_of
from stages.dedup.repeats import documents_of, ordinals_of
from stages.dedup.shingles import split_tokens

METHOD = "substring"
SEPARATOR = 0xFF
"""A byte that no UTF-8 has."""


def units_in(run: Path) -> list[Unit]:
    """Return the units of a run as its step `dedup` leaves them."""
    commits, file = Commits(LocalStorage(run)), kept_run(run, read_kept_plan(run))
    assert file.sources
    ingested = dict(commits.all("ingest"))[STEP_COMMIT].read(IngestRecord)
    found = [as_kept_by(unit, "dedup") for unit in units_of(ingested.units)]
    return [Unit(**{**vars(unit), "cut": is_cut(unit)}) for unit in found]


def numbered(texts: list[str], name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the bytes or the numbers of the words of all texts, with their lengths."""
    if name == "bytes":
        parts = [np.frombuffer(text.encode(), np.uint8) for text in texts]
    else:
        known: dict[str, int] = {}
        parts = [
            np.array([known.setdefault(word, len(known)) for word in split_tokens(text)], np.uint32)
            for text in texts
        ]
    return np.concatenate(parts), np.array([len(part) for part in parts], np.int64)


def by_suffix_array(run: Path, name: str, least: int) -> tuple[NDArray[np.bool_], dict[str, float]]:
    """Return which bytes or words lie in a string that stands twice, by the library."""
    from pydivsufsort import divsufsort, kasai  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415

    values, lengths = numbered(list(kept_texts(run)), name)
    step = values.dtype.itemsize
    flat = np.full((len(values) + len(lengths), step), SEPARATOR, np.uint8)
    ends = np.cumsum(lengths + 1) - 1
    inside = np.ones(len(flat), np.bool_)
    inside[ends] = False
    flat[inside] = values.view(np.uint8).reshape(-1, step)
    data = flat.reshape(-1)
    array = divsufsort(data)
    common = np.asarray(kasai(data, array))
    long = common >= least * step  # of a suffix and the next one
    twice = long.copy()
    twice[1:] |= long[:-1]
    starts = np.sort(array[twice & (array % step == 0)].astype(np.int64)) // step
    last = ends[np.searchsorted(ends, starts)]
    starts = starts[starts + least <= last]
    return covered(starts, len(flat), least)[inside], {}


def by_windows(run: Path, name: str, least: int) -> tuple[NDArray[np.bool_], dict[str, float]]:
    """Return which bytes or words lie in a string that stands twice, by the phases of the step `cut`."""
    units = units_in(run)
    substrings = {"min_bytes" if name == "bytes" else "min_words": least}
    dedup = Dedup.model_validate({"substrings": substrings})
    runs = unit_runs(units)
    firsts = tuple(one.first for one in runs)
    pieces = span_pieces(sum(unit.text_bytes for unit in units))
    with tempfile.TemporaryDirectory(dir=run.parent) as folder:
        root = Path(folder)
        for kept in ("ingest", "dedup"):
            (root / kept).symlink_to((run / kept).resolve())
        workspace = Workspace(root, root)
        spans = METHOD
        for one in runs:
            cut_spans(workspace, SpanRun(one, METHOD, dedup, pieces))
        if name == "bytes":
            pieces, spans = _bytes(workspace, dedup, runs, firsts, pieces), WINDOWS
        for piece in range(pieces):
            write_repeats(workspace, SpanPiece(firsts, METHOD, dedup, piece, spans))
        disk = sum(path.stat().st_size for path in (root / "cut").rglob("*.npy"))
        places = [np.load(root / repeats_key(METHOD, piece))[:, 0] for piece in range(pieces)]
        spent = {"cpu": time.process_time(), "disk": float(disk)}
        spent["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _marked(run, units, np.sort(np.concatenate(places)), name, least), spent


def _bytes(
    workspace: Workspace, dedup: Dedup, runs: list[Any], firsts: tuple[int, ...], pieces: int
) -> int:
    windows = 0
    for piece in range(pieces):
        windows += write_shared(workspace, SpanPiece(firsts, METHOD, dedup, piece, METHOD)).windows
    count = window_pieces(windows)
    for one in runs:
        cut_windows(workspace, WindowRun(one, dedup, pieces, count))
    return count


def _marked(
    run: Path, units: list[Unit], places: NDArray[np.uint64], name: str, least: int
) -> NDArray[np.bool_]:
    """Return which bytes or words windows cover, in the order of the kept texts."""
    workspace = Workspace(run, run / "tmp")
    kept = np.concatenate([unit.first + np.flatnonzero(kept_mask(workspace, unit)) for unit in units])
    _, lengths = numbered(list(kept_texts(run)), name)
    begins = np.cumsum(lengths) - lengths
    starts = begins[np.searchsorted(kept, documents_of(places))] + ordinals_of(places)
    return covered(starts, int(lengths.sum()), least)


PROGRAMS: dict[str, Callable[[Path, str, int], tuple[NDArray[np.bool_], dict[str, float]]]] = {
    "suffix array": by_suffix_array,
    "cut": by_windows,
}


def main() -> None:
    """Print a row for each program, and whether they agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--min-bytes", type=int)
    parser.add_argument("--min-words", type=int)
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    wanted = {"bytes": given.min_bytes, "words": given.min_words}
    for name, least in wanted.items():
        if least is None:
            continue
        if given.program:
            begun = time.process_time()  # what was imported is not counted
            marks, spent = PROGRAMS[given.program](given.run, name, least)
            spent.setdefault("cpu", time.process_time())
            spent.setdefault("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            spent["cpu"] -= begun
            np.save(given.answer, marks)
            print(json.dumps(spent))
            return
        _compare(given.run, name, least)


def _compare(run: Path, name: str, least: int) -> None:
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS:
            answer = Path(folder) / f"{program}.npy"
            command = [sys.executable, __file__, str(run), f"--min-{name}"]
            command += [str(least), "--program", program, "--answer", str(answer)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own
            spent = json.loads(output)
            marks = np.load(answer)
            answers.append(marks)
            disk = f", {spent['disk'] / 1e6:,.0f} MB on disk" if "disk" in spent else ""
            print(
                f"{run.name}, {least} {name}, {program}: {marks.mean():.3%} of {len(marks):,} in strings"
                f" that stand twice; {spent['cpu']:.1f} CPU s, peak {spent['peak']:,.0f} MiB{disk}"
            )
    print(
        "they agree on each"
        if np.array_equal(*answers)
        else f"{(answers[0] != answers[1]).sum():,} differ"
    )


if __name__ == "__main__":
    main()
