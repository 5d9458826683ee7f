"""What places promise: a URL is found, stamped and opened as a local path is, and no secret is told."""

import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pipeline.inputs.files import FoundFile, find_inputs
from pipeline.inputs.listing import is_pattern
from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import is_url, place_status
from pipeline.run_file.config import RunFile
from pipeline.steps.scan.files import scan_file
from stages.errors import ConfigError, Stopped
from tests.material.changing_server import serving


def find(*paths: str, output: Path, **source: Any) -> list[FoundFile]:
    """Return the files of a run over one source."""
    sources = [{"name": "web", "paths": paths, **source}]
    run = RunFile.model_validate(
        {"sources": sources, "datasets": [{"name": "clm"}], "ingest": {"unit_size": "1KiB"}}
    )
    return find_inputs(run, output).files


def put(path: str, data: bytes) -> None:
    """Keep a file in fsspec's memory."""
    fsspec.filesystem("memory").pipe(f"/places/{path}", data)


@pytest.fixture(autouse=True)
def _files() -> None:
    memory = fsspec.filesystem("memory")
    if memory.exists("/places"):
        memory.rm("/places", recursive=True)
    put("a/x.jsonl", b'{"text": "a"}\n' * 200)
    put("a/deep/y.jsonl", b'{"text": "b"}\n')
    put("b.jsonl", b'{"text": "c"}\n')


@pytest.mark.parametrize(
    ("paths", "source", "expected"),
    [
        (["memory://places/a/*.jsonl"], {}, ["x.jsonl"]),
        (["memory://places/a/**"], {}, ["deep/y.jsonl", "x.jsonl"]),
        (["memory://places/b.jsonl"], {}, ["b.jsonl"]),
        (
            ["memory://places/b.jsonl", "memory://places/a/x*"],
            {"root": "memory://places"},
            ["a/x.jsonl", "b.jsonl"],
        ),
    ],
)
def test_urls_are_found_under_names_relative_to_their_root(
    paths: list[str], source: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    assert [file.path for file in find(*paths, output=tmp_path, **source)] == expected


def test_a_url_and_a_local_copy_are_the_same_input(tmp_path: Path) -> None:
    (remote,) = find("memory://places/a/*.jsonl", output=tmp_path)
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "a"}\n' * 200)
    (local,) = find("*.jsonl", output=tmp_path)
    (one, blocks), (other, same) = scan_file(remote, ""), scan_file(local, "")
    assert one == other
    assert blocks.tolist() == same.tolist()
    assert one.slices is not None
    assert [before for _, _, before, _ in one.slices] == [0, 73, 146]
    with open_place(remote.place, key="web") as file:
        assert file.read(9) == b'{"text": '


@pytest.mark.parametrize(
    ("url", "explanation"),
    [
        ("memory://places/none.jsonl", "no such file"),
        ("memory://places/none/*.jsonl", "matches no file"),
        ("memory://places/a", "is a folder"),
        (
            "gs://bucket/a.jsonl",
            "gs:// needs a driver that is not installed: pip install 'shardmill[gcs]'",
        ),
        ("gs://bucket/*.jsonl", "pip install 'shardmill[gcs]'"),
        ("nope://bucket/a.jsonl", "nope:// is no protocol that fsspec knows"),
        ("simplecache::memory://places/b.jsonl", "URLs joined by `::` are not supported"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_with_the_way_out(
    url: str, explanation: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        find(url, output=tmp_path)
    assert str(caught.value).startswith("sources.web.paths: ")
    assert explanation in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hunter2@bucket/*.jsonl",
        "s3://AKIA:hunt/hunter2@bucket/*.jsonl",
        "ftp://hunter2@host/a.jsonl",
        "https://host/a.jsonl?signature=hunter2",
        "https://host/a.jsonl#hunter2",
    ],
)
def test_a_url_with_a_secret_is_refused_and_the_secret_not_repeated(url: str, tmp_path: Path) -> None:
    for paths, source in (([url], {}), (["memory://places/b.jsonl"], {"root": url})):
        with pytest.raises(ConfigError) as caught:
            find(*paths, output=tmp_path, **source)
        assert "hunter2" not in str(caught.value)
        assert "AKIA" not in str(caught.value)
        assert "/..." in str(caught.value)


def test_what_is_a_url_and_what_is_a_pattern() -> None:
    assert is_url("s3://bucket/a")
    assert not is_url("/a/b.jsonl")
    assert not is_url("a:b.jsonl")
    assert is_pattern("s3://bucket/*.jsonl")
    assert not is_pattern("s3://bucket/a.jsonl")


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    local = tmp_path / "a.jsonl"
    local.write_text("{}")
    places: list[Path | str] = [local, f"file://{local}"]
    before = [place_status(place, key="web") for place in places]
    local.write_text("{ }")
    after = [place_status(place, key="web") for place in places]
    assert [status.lasting for status in before] == [True, True]
    for one, other in zip(before, after, strict=True):
        assert (one.stamp, one.size) != (other.stamp, other.size)


def test_a_server_that_is_down_is_no_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    with serving(tmp_path) as server:
        url = f"{server.url}/a.jsonl"
        assert [file.path for file in find(url, output=tmp_path)] == ["a.jsonl"]
        with pytest.raises(ConfigError, match=r"b\.jsonl: no such file"):
            find(f"{server.url}/b.jsonl", output=tmp_path)
        server.fault = "unavailable"
        with pytest.raises(Stopped, match=r"a\.jsonl: cannot be read now \(.*503.*\); run again to"):
            find(url, output=tmp_path)
    with pytest.raises(Stopped, match=r"a\.jsonl: cannot be read now \(.*\); run again to resume"):
        find(url, output=tmp_path)


@pytest.mark.parametrize("what", ["FIFO", "folder", "nothing"])
def test_what_took_a_file_s_place_is_not_opened(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    if what == "FIFO":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    expected = "no such file" if what == "nothing" else f"is a {what}, and only files are read"
    with pytest.raises(ConfigError, match=expected), open_place(path, key="sources.web"):
        pass


@pytest.mark.parametrize("columns", [{"language": {"column": "lang"}}, {"id_column": "id"}])
def test_columns_of_plain_text_are_refused(columns: dict[str, Any], tmp_path: Path) -> None:
    put("note.txt", b"a note")
    with pytest.raises(ConfigError, match=r"note\.txt is plain text and has no columns"):
        find("memory://places/note.txt", output=tmp_path, **columns)
