"""What listing promises: what `glob` finds, and no folder that is passed over without a word."""

import errno
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec import AbstractFileSystem

from pipeline.inputs.files import find_inputs
from pipeline.inputs.listing import local_matches, remote_matches
from pipeline.inputs.places import local_places
from pipeline.run_file.config import RunFile
from stages.errors import ConfigError, ShardmillError, Stopped

FILES = (
    "a.jsonl",
    "b/a.jsonl",
    "b/c/a.jsonl",
    "b/c/d/b.txt",
    "b/.hidden/a.jsonl",
    "b/.a.jsonl",
    "e[1]/a.jsonl",
    "e1/a.jsonl",
    "e1/c/a.jsonl",
)
PATTERNS = (
    "*",
    "*.jsonl",
    "**",
    "**/*.jsonl",
    "**/a.jsonl",
    "**/**/*.txt",
    "b/**",
    "b/**/c/*",
    "./b//*.jsonl",
    "*/a.jsonl",
    "*/c/*.jsonl",
    "*/c/none.jsonl",
    "*/none/*.jsonl",
    "none/*",
    "a.jsonl/*",
    "*/../*.jsonl",
    "b/.*",
    "b/.*/*.jsonl",
    "e[1]/*",
    "e[[]1]/*.jsonl",
    "[!a]*/?.jsonl",
    "link/*.jsonl",
    "*/c/",
    "b/*/",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files, hidden ones, and links."""
    for name in FILES:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text("{}")
    (tmp_path / "tree" / "link").symlink_to("b")
    (tmp_path / "tree" / "nothing.jsonl").symlink_to("nowhere")
    (tmp_path / "tree" / "loop.jsonl").symlink_to("loop.jsonl")
    return tmp_path / "tree"


@pytest.mark.parametrize("where", ["relative", "absolute"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_the_standard_library_says(pattern: str, where: str, tree: Path) -> None:
    asked = f"{tree}/{pattern}" if where == "absolute" else pattern
    expected = {tree / found for found in glob.glob(asked, root_dir=tree, recursive=True)}  # noqa: PTH207  # the oracle
    if pattern.endswith("**"):
        expected.discard(tree / pattern.removesuffix("**"))  # the folder that it begins in
    assert set(local_matches(asked, tree, key="web")) == expected
    assert bool(expected) == ("none" not in pattern and pattern != "a.jsonl/*")


class Flaky(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A file system of which one folder cannot be listed."""

    protocol = "flaky"
    cachable = False

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    def ls(self, path: str, **_: Any) -> list[Any]:
        """List a folder of three."""
        listed = {
            "d": [("d/a", "directory"), ("d/b", "directory"), ("d/x.jsonl", "file")],
            "d/a": [("d/a/x.jsonl", "file")],
        }
        if path.rstrip("/") == "d/b":
            raise self.fault
        return [{"name": name, "type": kind, "size": 1} for name, kind in listed[path.rstrip("/")]]


def refused(place: Path, number: int) -> Any:
    """Return a scandir that cannot list one folder."""
    scandir = os.scandir

    def listed(path: Any = ".") -> Iterator[os.DirEntry[str]]:
        if Path(path) == place:
            raise OSError(number, os.strerror(number), str(path))
        return scandir(path)

    return listed


FAULTS = {
    errno.EACCES: ConfigError,
    errno.EPERM: ConfigError,
    errno.EIO: Stopped,
    errno.ESTALE: Stopped,
    errno.EREMOTEIO: Stopped,
}


@pytest.mark.parametrize("url", ["", "file://"])
@pytest.mark.parametrize("number", FAULTS)
@pytest.mark.parametrize("pattern", ["**/*.jsonl", "*/*.jsonl", "b/*.jsonl", "b*/**", "**"])
def test_a_folder_that_cannot_be_listed_is_named_not_skipped(
    pattern: str, number: int, url: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "link").unlink()
    (tree / "nothing.jsonl").unlink()
    (tree / "loop.jsonl").unlink()
    run = RunFile.model_validate(
        {
            "sources": [{"name": "web", "paths": [f"{url}{tree}/{pattern}"]}],
            "datasets": [{"name": "clm"}],
        }
    )
    monkeypatch.setattr(os, "scandir", refused(tree / "b", number))
    with pytest.raises(ShardmillError) as caught:
        find_inputs(run, tree)
    assert type(caught.value) is FAULTS[number]
    assert str(caught.value).startswith(f"sources.web.paths: {url}{tree / 'b'}: ")
    assert os.strerror(number) in str(caught.value)
    if FAULTS[number] is ConfigError:
        assert "the folder cannot be listed, and files in it would be missing; give" in str(caught.value)


@pytest.mark.parametrize("pattern", ["*.jsonl", "e1/**", "e1/*.jsonl", "b/c/*.jsonl", "*1/c/*"])
def test_a_folder_that_no_pattern_passes_is_not_looked_at(
    pattern: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "scandir", refused(tree / "b", errno.EACCES))
    assert [*local_matches(pattern, tree, key="web")]


def test_a_folder_of_a_driver_that_cannot_be_listed_is_named() -> None:
    for fault, kind in ((PermissionError(13, "no"), ConfigError), (TimeoutError("late"), Stopped)):
        for pattern in ("d/*/*.jsonl", "d/**/*.jsonl", "d/**"):
            with pytest.raises(kind, match=r"^web: flaky://d/b: "):
                remote_matches(Flaky(fault), pattern, key="web")
        assert remote_matches(Flaky(fault), "d/*.jsonl", key="web") == {"d/x.jsonl": "file"}
        assert remote_matches(Flaky(fault), "d/a/**", key="web") == {"d/a/x.jsonl": "file"}


@pytest.mark.parametrize(
    "pattern", [p for p in PATTERNS if not p.endswith("/") and not set(p.split("/")) & {".", "..", ""}]
)
@pytest.mark.parametrize("protocol", ["memory", "file"])
def test_a_pattern_behind_a_url_matches_what_fsspec_says(
    pattern: str, protocol: str, tree: Path
) -> None:
    system = fsspec.filesystem(protocol)
    root = str(tree) if protocol == "file" else "/listing"
    if protocol == "memory":
        system.pipe({f"{root}/{name}": b"{}" for name in FILES})
    asked = f"{root}/{pattern}"
    expected = {name for name, info in system.glob(asked, detail=True).items() if info["type"] == "file"}
    found = remote_matches(system, asked, key="web")
    assert {name for name, kind in found.items() if kind == "file"} == expected


def test_a_file_is_found_by_its_own_name_though_it_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].jsonl").write_text("{}")
    assert local_places("a[1].jsonl", tmp_path, key="web") == [tmp_path / "a[1].jsonl"]
    (tmp_path / "a1.jsonl").write_text("{}")
    with pytest.raises(ConfigError) as caught:
        local_places("a[1].jsonl", tmp_path, key="web")
    assert str(caught.value) == (
        "web: 'a[1].jsonl' is the name of a file, and also a pattern that matches"
        f" {tmp_path / 'a1.jsonl'};"
        " write 'a[[]1].jsonl' for the file of that name, or rename it"
    )
    assert local_places("a[[]1].jsonl", tmp_path, key="web") == [tmp_path / "a[1].jsonl"]
    assert len(local_places("a*.jsonl", tmp_path, key="web")) == 2
