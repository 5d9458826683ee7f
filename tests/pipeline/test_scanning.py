"""What scanning promises.

Each file is read once by a worker and never by the driver; what is remembered is believed while the
file's stamp says that it is the same, and forgotten when a read finds that it is not; nothing that is
remembered decides a byte.
"""

import gzip
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from fsspec.implementations.memory import MemoryFileSystem

from pipeline.inputs.files import FoundFile, find_inputs
from pipeline.planning.plan import State
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.state.commits import Commits
from pipeline.state.journal import read_log
from pipeline.state.storage import LocalStorage
from pipeline.steps.scan.files import ScanRecord, scan_file
from stages.errors import ChangedInputError, ConfigError, DataError, Stopped
from stages.reading.checked import BLOCK_BYTES
from tests.campaign import some_of
from tests.conftest import digests
from tests.material.changing_server import serving

pytestmark = pytest.mark.slow

LINE = b'{"text": "a line of a file of lines"}\n'
OTHER = b'{"text": "a word of a file of words"}\n'


def run_of(*paths: str, unit: str = "64MiB", **source: Any) -> RunFile:
    """Return a run over one source."""
    content = {
        "sources": [{"name": "web", "paths": paths, **source}],
        "ingest": {"unit_size": unit},
        "dedup": {"near": False},
        "datasets": [{"name": "clm"}],
    }
    return RunFile.model_validate(content)


def run(folder: Path, *paths: str, until: str = "ingest", replace: bool = False, **more: Any) -> Path:
    """Run over the files of a folder, and return the output."""
    output = folder / "out"
    request = RunRequest(run_of(*paths, **more), folder, output, 0, until=until, replace=replace)
    run_session(request, stream=None)
    return output


def states(folder: Path, *paths: str, **more: Any) -> dict[str, State]:
    """Return what a plan says of each step."""
    steps = plan_session(RunRequest(run_of(*paths, **more), folder, folder / "out", 0))
    return {status.step.name: status.state for status in steps}


def scans(output: Path) -> int:
    """Return how many tasks scanned something, over all sessions."""
    return sum(e["event"] == "commit" and e["step"] == "scan" for e in read_log(output))


def records(output: Path) -> dict[str, Any]:
    """Return what is remembered, by path."""
    found = [ScanRecord.model_validate(c.record) for _, c in Commits(LocalStorage(output)).all("scan")]
    return {file.path: file for record in found for file in record.files}


def found(folder: Path, *paths: str, **more: Any) -> list[FoundFile]:
    """Return the files of a run."""
    return find_inputs(run_of(*paths, **more), folder).files


def table(rows: int = 5) -> bytes:
    """Return a small Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.table({"text": [f"row {n}" for n in range(rows)]}), file, row_group_size=2)
    return file.getvalue()


def test_a_scan_keeps_size_digest_slices_and_a_digest_for_each_block(tmp_path: Path) -> None:
    data = LINE * (2 * BLOCK_BYTES // len(LINE) + 1_000)
    (tmp_path / "a.jsonl").write_bytes(data)
    (file,) = found(tmp_path, "a.jsonl", unit="1MiB")
    scanned, blocks = scan_file(file, "f")
    assert (scanned.size, scanned.end) == (len(data), len(data))
    assert scanned.digest == xxhash.xxh3_128_hexdigest(data)
    pieces = [data[start : start + BLOCK_BYTES] for start in range(0, len(data), BLOCK_BYTES)]
    assert blocks.tolist() == [xxhash.xxh3_64_intdigest(piece) for piece in pieces]
    assert len(blocks) == 3
    assert scanned.slices is not None
    assert [s[2] for s in scanned.slices] == [data[: n << 20].count(b"\n") for n in range(9)]


@pytest.mark.parametrize(
    ("name", "data", "end", "slices"),
    [
        ("a.jsonl", b"", 0, ((0, 0, 0, 0),)),
        ("a.jsonl.gz", gzip.compress(LINE * 3, mtime=0), None, None),
        ("a.parquet", table(), 5, ((0, 3, 0, 0),)),
        ("a.txt", b"one\n\ntwo", 8, None),
    ],
)
def test_what_is_kept_follows_from_the_format(
    name: str,
    data: bytes,
    end: int | None,
    slices: tuple[tuple[int, ...], ...] | None,
    tmp_path: Path,
) -> None:
    (tmp_path / name).write_bytes(data)
    (file,) = found(tmp_path, name)
    scanned, _ = scan_file(file, "f")
    assert (scanned.end, scanned.slices, scanned.size) == (end, slices, len(data))


def test_a_file_is_scanned_once_while_its_stamp_stays(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(LINE)
    output = run(tmp_path, "*.jsonl")
    before = digests(output, "commits", "scan")
    assert scans(output) == 1
    assert len(before) == 4
    assert len(list((output / "scan").rglob("*.npy"))) == 1, "small files share a task and a commit"
    run(tmp_path, "*.jsonl")
    assert scans(output) == 1
    assert digests(output, "commits", "scan") == before
    assert set(states(tmp_path, "*.jsonl").values()) == {State.DONE, State.NEW}


@pytest.mark.parametrize("how", ["more bytes", "other bytes", "same time of change"])
def test_a_file_whose_stamp_changed_is_scanned_again_and_no_other(how: str, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(LINE)
    output = run(tmp_path, "*.jsonl", until="scan")
    before = records(output)
    changed = tmp_path / "b.jsonl"
    status = changed.stat()
    changed.write_bytes(LINE * 2 if how == "more bytes" else OTHER)
    if how == "same time of change":
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    run(tmp_path, "*.jsonl", until="scan")
    commits = [ScanRecord.model_validate(c.record) for _, c in Commits(LocalStorage(output)).all("scan")]
    assert [len(record.files) for record in sorted(commits, key=lambda r: -len(r.files))] == [2, 1]
    (again,) = next(record.files for record in commits if len(record.files) == 1)
    assert again.path == "b.jsonl"
    assert again.digest != before["b.jsonl"].digest
    (tmp_path / "a.jsonl").unlink()
    run(tmp_path, "*.jsonl", until="scan")
    assert list(records(output)) == ["b.jsonl"], "what fits no file any more is dropped"
    assert len(list((output / "scan").rglob("*.npy"))) == 1


def test_the_same_bytes_with_another_stamp_make_nothing_stale(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    output = run(tmp_path, "a.jsonl")
    before = digests(output, "ingest")
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "a.jsonl").write_bytes(LINE)
    assert states(tmp_path, "a.jsonl")["ingest"] is State.DONE, "a plan reads it in memory"
    assert scans(output) == 1
    run(tmp_path, "a.jsonl")
    assert scans(output) == 2
    assert digests(output, "ingest") == before


def test_a_plan_of_a_new_run_opens_no_file_but_tables(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("/proc/self/mem")
    assert set(states(tmp_path, "a.jsonl").values()) == {State.NEW}
    (tmp_path / "b.parquet").write_bytes(table())
    with pytest.raises(ConfigError, match=r"text_column = 'body': .*b\.parquet has no such column"):
        states(tmp_path, "b.parquet", text_column="body")
    assert not (tmp_path / "out").exists()


def test_a_table_without_a_column_is_refused_before_other_files_are_scanned(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    (tmp_path / "b.parquet").write_bytes(table())
    with pytest.raises(ConfigError, match=r"text_column = 'body': .*b\.parquet has no such column"):
        run(tmp_path, "*.*", text_column="body")
    assert not (tmp_path / "out/scan").exists()


def test_a_file_that_changes_after_it_was_found_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    (file,) = found(tmp_path, "a.jsonl")
    (tmp_path / "a.jsonl").write_bytes(LINE * 2)
    with pytest.raises(DataError) as caught:
        scan_file(file, "f")
    assert str(caught.value) == (
        f"sources.web: {tmp_path}/a.jsonl: it changed while it was scanned (it had {len(LINE)} bytes, it"
        f" has {2 * len(LINE)}); run again once nothing writes to it"
    )


def test_digests_that_are_lost_are_taken_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    output = run(tmp_path, "a.jsonl", until="scan")
    (path,) = (output / "scan").rglob("*.npy")
    path.unlink()
    stream = io.StringIO()
    request = RunRequest(run_of("a.jsonl"), tmp_path, output, 0, until="scan")
    run_session(request, stream=stream)
    assert "is not whole" in stream.getvalue()
    assert "blocks.npy: committed with 136 bytes, found nothing" in stream.getvalue()
    assert path.exists() or len(list((output / "scan").rglob("*.npy"))) == 1


def test_digests_that_are_damaged_are_named_and_taken_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    output = run(tmp_path, "a.jsonl", until="scan")
    (path,) = (output / "scan").rglob("*.npy")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ChangedInputError, match=r"blocks\.npy: not as it was committed; run again"):
        run(tmp_path, "a.jsonl")
    run(tmp_path, "a.jsonl")
    assert scans(output) == 2


class SilentFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A server that says nothing of when a file changed; it may fail, as drivers of servers do."""

    protocol = "silent"
    store: dict[str, Any] = {}  # noqa: RUF012  # as its base has it
    pseudo_dirs = [""]  # noqa: RUF012
    stamp: str | None = None
    failure: type[Exception] | None = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str):
            path = path.replace("silent://", "memory://")
        return super()._strip_protocol(path)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return name, size and type, and the ETag that the test chose."""
        kept = super().info(path, **options)
        return {**{k: kept[k] for k in ("name", "size", "type")}, "ETag": type(self).stamp}

    def ukey(self, path: str) -> None:
        """Return no stamp."""

    def _open(self, path: str, *arguments: Any, **options: Any) -> Any:
        failure = type(self).failure
        if failure is not None:
            raise failure("Could not connect to the endpoint URL")
        return super()._open(path, *arguments, **options)


class EndpointConnectionError(Exception):
    """As botocore's: no OSError."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> MemoryFileSystem:
    """A server with one file."""
    fsspec.register_implementation("silent", SilentFileSystem, clobber=True)
    monkeypatch.setattr(SilentFileSystem, "store", {})
    monkeypatch.setattr(SilentFileSystem, "stamp", None)
    monkeypatch.setattr(SilentFileSystem, "failure", None)
    system = fsspec.filesystem("silent")
    system.pipe("/a.jsonl", LINE * 200)
    return system


def test_a_file_whose_server_says_nothing_is_scanned_in_each_session(
    server: MemoryFileSystem, tmp_path: Path
) -> None:
    output = run(tmp_path, "silent://a.jsonl")
    run(tmp_path, "silent://a.jsonl")
    assert scans(output) == 2
    assert len(list((output / "scan").rglob("*.npy"))) == 1
    server.pipe("/a.jsonl", OTHER * 200)
    with pytest.raises(ConfigError, match=r"ingest would be made anew .* Run with --replace"):
        run(tmp_path, "silent://a.jsonl")


def test_a_change_that_keeps_the_stamp_is_noticed_once_and_both_ways_out_work(
    server: MemoryFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SilentFileSystem, "stamp", "always the same")
    output = run(tmp_path, "silent://a.jsonl", unit="1KiB")
    before = digests(output, "ingest")
    shutil.rmtree(output / "ingest")
    shutil.rmtree(output / "commits/ingest")
    for meant in (False, True):
        server.pipe("/a.jsonl", OTHER * 200)
        with pytest.raises(ChangedInputError, match=r"silent:///a\.jsonl: block 0 .*--replace"):
            run(tmp_path, "silent://a.jsonl", unit="1KiB", replace=True)
        if not meant:
            server.pipe("/a.jsonl", LINE * 200)
            run(tmp_path, "silent://a.jsonl", unit="1KiB")
            assert digests(output, "ingest") == before
            shutil.rmtree(output / "commits/ingest")
    run(tmp_path, "silent://a.jsonl", unit="1KiB", replace=True)
    tables = [pq.read_table(path) for path in (output / "ingest").rglob("documents.parquet")]
    assert set(pa.concat_tables(tables).column("text").to_pylist()) == {json.loads(OTHER)["text"]}


@pytest.mark.parametrize("error", [EndpointConnectionError, ConnectionResetError, TimeoutError, OSError])
def test_what_a_driver_raises_stops_the_run_by_name(
    error: type[Exception], server: MemoryFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "silent://a.jsonl", until="scan")
    monkeypatch.setattr(SilentFileSystem, "failure", error)
    with pytest.raises(Stopped) as caught:
        run(tmp_path, "silent://a.jsonl")
    message = str(caught.value)
    assert message.startswith("sources.web: silent:///a.jsonl: cannot be read now (")
    assert "Could not connect to the endpoint URL); run again to resume" in message
    monkeypatch.setattr(SilentFileSystem, "failure", None)
    run(tmp_path, "silent://a.jsonl")
    assert server.exists("/a.jsonl")


@pytest.mark.parametrize("name", some_of(["a.jsonl.gz", "a.jsonl"], 1))
def test_a_server_that_gives_no_parts_is_read_from_front_to_back(name: str, tmp_path: Path) -> None:
    wide = b'{"beside": "' + b"." * 2_000 + b'", ' + LINE.removeprefix(b"{")
    data = b"".join(wide.replace(b"line", b"%04d" % n) for n in range(5_000))
    served = tmp_path / "served"
    served.mkdir()
    (served / name).write_bytes(data if name == "a.jsonl" else gzip.compress(data, 0, mtime=0))
    (served / "b.parquet").write_bytes(table())
    assert (served / name).stat().st_size > BLOCK_BYTES
    with serving(served, ranges=False) as server:
        output = run(tmp_path, f"{server.url}/{name}", unit="1MiB")
        with pytest.raises(ConfigError, match="its server gives no parts of a file"):
            run(tmp_path, f"{server.url}/b.parquet")
    whole = json.loads((output / "commits/ingest/_step.json").read_text())["record"]
    assert whole["read"] == 5_000
    assert len(whole["units"]) > 3


def test_blocks_of_many_files_stand_one_after_the_other(tmp_path: Path) -> None:
    sizes = [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1]
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}.txt").write_bytes(b"x" * size)
    output = run(tmp_path, "*.txt", until="scan")
    (path,) = (output / "scan").rglob("*.npy")
    blocks = np.load(path)
    assert blocks.dtype.str == "<u8"
    files = [records(output)[f"{number}.txt"] for number in range(len(sizes))]
    assert [(file.first_block, file.blocks) for file in files] == [(0, 0), (0, 1), (1, 1), (2, 2)]
    whole = xxhash.xxh3_64_intdigest(b"x" * BLOCK_BYTES)
    one = xxhash.xxh3_64_intdigest(b"x")
    assert blocks.tolist() == [one, whole, whole, one]
