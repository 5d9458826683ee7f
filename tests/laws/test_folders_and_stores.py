"""The laws, in the same words for a run in a folder and for one in a store.

    nothing is lost in silence     every record is kept once or named; the sums know what digests do not
    whole or not there             whatever ends a run, and when: its units are whole, its end the same
    damage is named                whatever file is gone, cut or changed; --replace makes the same bytes

The store is that of a real server, on loopback. Of what only one of the two has, its own tests speak.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.commands import api
from pipeline.run_file.config import RunFile
from pipeline.state import lease
from stages.errors import ConfigError, DataError, Stopped, VerificationError
from tests.campaign import some_of
from tests.laws.stored_tiny_run import RUN, require_same
from tests.laws.test_law2_ledger import row_exchanged, row_lost, row_made_up
from tests.laws.tiny_run import tiny_run
from tests.material.commit_seals import vouched
from tests.material.run_places import RunPlace

ARRAYS = "datasets/mlm/train/epoch-0000"
EVIDENCE = {
    "ingest/*/*/drops.parquet": row_lost,
    "ingest/*/*/documents.parquet": row_lost,
    "dedup/removed.parquet": row_made_up,
    "dedup/clusters.parquet": row_lost,
    "split/validation.parquet": row_lost,
    "tokens/*/*/documents.parquet": row_exchanged,
    f"{ARRAYS}/*/documents.parquet": row_lost,
}
"""Tables that the sums are made from, with what is done to one of each kind."""


def _short_and_twice(corpus: Path, folder: Path) -> tuple[RunFile, bytes]:
    """Return a run over texts of which one is too short and one is there twice, and those texts."""
    texts = b"".join((corpus / "corpus" / name).read_bytes() for name in ("a.jsonl", "b.jsonl"))
    texts += b'{"text": "short", "lang": "en"}\n' + texts.splitlines(keepends=True)[2]
    (folder / "texts.jsonl").write_bytes(texts)
    source = {"name": "s", "paths": [str(folder / "texts.jsonl")], "language": {"column": "lang"}}
    return tiny_run(sources=[source]), texts


def test_every_record_is_kept_once_or_named(place: RunPlace, corpus: Path, tmp_path: Path) -> None:
    file, texts = _short_and_twice(corpus, tmp_path)
    assert api.run(file, place.name, workers=0)["passed"]
    with place.changed() as run:
        read, dropped, removed, stored = (
            _rows(run, pattern)
            for pattern in (
                "ingest/*/*/documents.parquet",
                "ingest/*/*/drops.parquet",
                "dedup/removed.parquet",
                "tokens/*/*/documents.parquet",
            )
        )
        drawn = _rows(run, "datasets/mlm/*/epoch-0000/*/documents.parquet")
        kept = {row["id"]: row["tokens"] for row in stored}
    begins = [sum(map(len, texts.splitlines(keepends=True)[:n])) for n in range(texts.count(b"\n"))]
    assert sorted(row["position"] for row in [*read, *dropped]) == begins
    assert [row["reason"] for row in dropped] == ["too_short"]
    assert Counter(row["id"] for row in read) == Counter(row["id"] for row in [*removed, *stored])
    assert [row["method"] for row in removed] == ["exact"]
    tokens: Counter[str] = Counter()
    for row in drawn:
        tokens[row["id"]] += row["tokens"]
    assert tokens == kept


def _rows(run: Path, pattern: str) -> list[dict[str, Any]]:
    rows = [row for path in sorted(run.glob(pattern)) for row in pq.read_table(path).to_pylist()]
    return [{**row, "id": _hex(row["id"])} if "id" in row else row for row in rows]


def _hex(name: bytes | str) -> str:
    return name.hex() if isinstance(name, bytes) else name


def test_what_is_off_the_sums_is_named_though_its_commit_vouches_for_it(
    place: RunPlace, corpus: Path, tmp_path: Path
) -> None:
    file, _ = _short_and_twice(corpus, tmp_path)
    api.run(file, place.name, workers=0)
    with place.changed() as run:
        wanted = {_changed_table(run, pattern, change) for pattern, change in EVIDENCE.items()}
    report = api.verify(place.name, workers=0)
    assert not report["passed"]
    assert report["audit"] is not None
    found = {one["file"] for one in report["audit"]["findings"] if one["check"] == "ledger"}
    assert wanted <= found, wanted - found


def _changed_table(run: Path, pattern: str, change: Callable[[pa.Table], pa.Table]) -> str:
    """Change a table and let its commit vouch for it; return its key."""
    path = min(run.glob(pattern))
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    key = path.relative_to(run).as_posix()
    for commit, data in vouched(run, {key}).items():
        commit.write_bytes(data)
    return key


@pytest.mark.parametrize("changes", some_of((57, 40, 31, 26), 1))
def test_a_run_that_is_cut_again_and_again_has_whole_units_and_ends_the_same(
    changes: int, place: RunPlace, in_folder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PERIOD", 0.3)
    cuts, report = 0, None
    while report is None and cuts < 40:
        with place.cut_at(changes):
            report = api.run(RUN, place.name, workers=0)
        cuts += 1
        assert place.broken() == {}
    assert report is not None, "each time it comes further"
    assert report["passed"]
    assert cuts > 2
    require_same(place.artifacts(), in_folder)


def test_a_replace_that_is_cut_at_a_change_leaves_no_step_that_looks_whole(
    place: RunPlace, in_folder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PERIOD", 0.3)
    api.run(RUN, place.name, workers=0)
    for moment in some_of(range(12), 3):
        with place.changed() as run:
            (run / ARRAYS / "00000" / "input_ids.npy").write_bytes(b"other")
        with place.cut_at(moment) as made:
            api.run(RUN, place.name, workers=0, replace=True)
        assert made() == moment
        broken = place.broken()
        assert broken.keys() <= {"shard-mlm/train-00000"}, broken  # what was damaged
        assert api.run(RUN, place.name, workers=0, replace=True)["passed"]
        require_same(place.artifacts(), in_folder)


def test_a_killed_run_is_gone_on_with(
    place: RunPlace, in_folder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.run(RUN, place.name, workers=0, until="scan")  # so the probe is no part of what is killed
    monkeypatch.setattr(lease, "PERIOD", 1.0)
    for units in (2, 6):
        _kill_at(place, units)
        assert place.broken() == {}
    assert api.run(RUN, place.name, workers=0)["passed"]
    require_same(place.artifacts(), in_folder)


def _kill_at(place: RunPlace, units: int) -> None:
    """Kill a run once so many units are committed."""
    code = (
        "from tests.laws.stored_tiny_run import RUN; from pipeline.commands import api;"
        " from pipeline.state import lease; lease.PERIOD = 1.0;"
        f" api.run(RUN, {place.name!r}, workers=0)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 60
    while len(place.committed()) < units:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_run_that_is_held_is_not_taken(place: RunPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "PERIOD", 1.0)
    api.run(RUN, place.name, workers=0, until="scan")
    before = place.committed()
    with place.held(), pytest.raises(Stopped, match=f"{place.name}: in use by process "):
        api.run(RUN, place.name, workers=0)
    assert place.committed() == before
    assert api.run(RUN, place.name, workers=0)["passed"]


@pytest.mark.parametrize("turn", some_of(range(3), 1))
def test_every_file_that_went_or_changed_is_named_whatever_it_is(
    turn: int, place: RunPlace, in_folder: dict[str, str]
) -> None:
    api.run(RUN, place.name, workers=0)
    keys = sorted(in_folder.keys() - {"run.json"})
    with place.changed() as run:
        for number, key in enumerate(keys):
            data = (run / key).read_bytes()
            half = len(data) // 2
            flipped = data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
            other = (None, flipped, data[:half])[(number + turn) % 3]
            if other is None:
                (run / key).unlink()
            else:
                (run / key).write_bytes(other)
    report = api.verify(place.name, workers=0)
    assert not report["passed"]
    assert report["audit"] is not None
    named = {found["file"] for found in report["audit"]["findings"]}
    assert sorted(set(keys) - named) == []
    assert api.run(RUN, place.name, workers=0, replace=True)["passed"]
    require_same(place.artifacts(), in_folder)


def test_run_and_verify_name_what_went_or_changed_and_replace_makes_it_anew(
    place: RunPlace, in_folder: dict[str, str]
) -> None:
    api.run(RUN, place.name, workers=0)
    gone, cut = f"{ARRAYS}/00000/input_ids.npy", f"{ARRAYS}/00001/input_ids.npy"
    with place.changed() as run:
        (run / gone).unlink()
        (run / cut).write_bytes(b"other")
    for ask in (partial(api.run, RUN), api.verify):
        with pytest.raises((DataError, VerificationError)) as said:
            _require_passed(ask(place.name, workers=0))
        assert gone in str(said.value)
        assert cut in str(said.value)
    assert api.run(RUN, place.name, workers=0, replace=True)["passed"]
    require_same(place.artifacts(), in_folder)


def _require_passed(report: Any) -> None:
    if not report["passed"]:
        raise VerificationError(json.dumps(report["audit"]))


def test_a_stray_stops_no_run(place: RunPlace, in_folder: dict[str, str]) -> None:
    api.run(RUN, place.name, workers=0, until="dedup")
    stray = "datasets/left.npy"
    place.put(stray, b"left")
    assert api.run(RUN, place.name, workers=0)["passed"]
    found = place.artifacts()
    found.pop(stray, None)
    require_same(found, in_folder)


def test_a_place_that_holds_something_else_is_refused(place: RunPlace) -> None:
    place.put("note.txt", b"mine")
    before = place.artifacts()
    with pytest.raises(ConfigError, match=r"note\.txt"):
        api.run(RUN, place.name, workers=0)
    assert place.artifacts() == before
