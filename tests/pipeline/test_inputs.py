"""What inputs promise: canonical order, names free of the machine, and refusals that name the place."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pipeline.inputs.files import FoundFile, find_files
from pipeline.run_file.config import RunFile, Source
from stages.errors import ConfigError
from stages.reading.table import ENDINGS

FILES = ("web/b.jsonl", "web/a.jsonl.gz", "web/deep/er/c.jsonl.zst", "code/z.jsonl", "top.jsonl")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder of a few files whose bytes differ."""
    folder = tmp_path / "base"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def find(base: Path, *sources: dict[str, Any]) -> list[FoundFile]:
    """Return the files of a run over some sources."""
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    return find_files(run, base)


def names(files: list[FoundFile]) -> list[tuple[str, str]]:
    """Return what documents' ids are made of."""
    return [(file.source, file.path) for file in files]


def refusal(base: Path, *paths: str, **source: Any) -> str:
    """Return the message with which the paths of a source named web are refused."""
    with pytest.raises(ConfigError) as caught:
        find(base, {"name": "web", "paths": paths, **source})
    return str(caught.value)


def test_the_order_is_by_source_then_path_however_they_are_written(base: Path) -> None:
    web = {"name": "web", "paths": ["web/*.jsonl", "web/*.gz"]}
    code = {"name": "code", "paths": ["code/z.jsonl"]}
    expected = [("code", "z.jsonl"), ("web", "a.jsonl.gz"), ("web", "b.jsonl")]
    assert names(find(base, web, code)) == expected
    assert names(find(base, code, {**web, "paths": web["paths"][::-1]})) == expected


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("web/b.jsonl", "b.jsonl"),
        ("web/b*", "b.jsonl"),
        ("w?b/b.jsonl", "web/b.jsonl"),
        ("web/*/er/*", "deep/er/c.jsonl.zst"),
        ("./web/deep/*/c.*", "er/c.jsonl.zst"),
        ("*.jsonl", "top.jsonl"),
        ("code/../top.jsonl", "top.jsonl"),
    ],
)
def test_a_path_is_relative_to_the_part_of_the_glob_before_any_wildcard(
    pattern: str, path: str, base: Path
) -> None:
    assert names(find(base, {"name": "web", "paths": [pattern]})) == [("web", path)]


def test_two_stars_find_files_at_every_depth_and_no_folders(base: Path) -> None:
    found = find(base, {"name": "web", "paths": ["web/**"]})
    assert names(found) == [
        ("web", "a.jsonl.gz"),
        ("web", "b.jsonl"),
        ("web", "deep/er/c.jsonl.zst"),
    ]


def test_an_explicit_root_is_what_paths_are_relative_to(base: Path) -> None:
    paths = ["web/b.jsonl", "code/*.jsonl"]
    found = find(base, {"name": "all", "paths": paths, "root": "."})
    assert names(found) == [("all", "code/z.jsonl"), ("all", "web/b.jsonl")]


def test_an_absolute_glob_gives_the_same_names_as_a_relative_one(base: Path, tmp_path: Path) -> None:
    absolute = find(tmp_path, {"name": "web", "paths": [f"{base}/web/*.jsonl"]})
    assert names(absolute) == names(find(base, {"name": "web", "paths": ["web/*.jsonl"]}))
    assert len(absolute) == 1


def test_a_file_that_two_globs_match_is_read_once(base: Path) -> None:
    assert len(find(base, {"name": "web", "paths": ["web/b.jsonl", "web/*.jsonl"]})) == 1


def test_a_file_outside_the_explicit_root_is_refused(base: Path) -> None:
    message = refusal(base, "top.jsonl", root="web")
    assert "sources.web: " in message
    assert f"{base / 'top.jsonl'} is outside of root {base / 'web'}" in message


def test_two_files_that_would_have_one_path_are_refused(base: Path) -> None:
    (base / "code" / "b.jsonl").write_text("another")
    message = refusal(base, "web/*.jsonl", "code/b.jsonl")
    assert message.startswith("sources.web: ")
    assert str(base / "web/b.jsonl") in message
    assert str(base / "code/b.jsonl") in message
    assert "would both be 'b.jsonl'; set root to a folder above both" in message


def test_one_path_in_two_sources_is_two_inputs(base: Path) -> None:
    first, second = ({"name": name, "paths": ["web/b.jsonl"]} for name in ("a", "b"))
    found = find(base, first, second)
    assert names(found) == [("a", "b.jsonl"), ("b", "b.jsonl")]
    assert found[0].place == found[1].place
    assert found[0].key != found[1].key


def test_a_wildcard_that_matches_nothing_is_refused(base: Path) -> None:
    assert refusal(base, "web/*.json") == (
        f"sources.web.paths: 'web/*.json' matches no file in {base.resolve()}"
    )


@pytest.mark.parametrize(
    ("path", "explanation"),
    [
        ("web/none.jsonl", "no such file"),
        ("web", "is a folder; write web/*.jsonl.zst"),
        ("web/note.doc", f"reads {', '.join(ENDINGS)} files only"),
        ("web/*.doc", f"reads {', '.join(ENDINGS)} files only"),
        ("web/LOUD.JSONL", f"reads {', '.join(ENDINGS)} files only"),
    ],
)
def test_what_is_no_input_file_is_refused_with_the_source_and_the_place(
    path: str, explanation: str, base: Path
) -> None:
    (base / "web" / "note.doc").write_text("a note")
    (base / "web" / "LOUD.JSONL").write_text("{}")
    message = refusal(base, path)
    assert message.startswith(f"sources.web.paths: {base / path.replace('*', 'note')}")
    assert explanation in message


def test_a_source_needs_at_least_one_path() -> None:
    with pytest.raises(ValueError, match="at least 1 item"):
        Source(name="web", paths=())


def test_a_file_that_two_globs_find_under_two_paths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jsonl").write_text("{}\n")
    sources = [{"name": "s", "paths": ["a/*.jsonl", "**/*.jsonl"]}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    with pytest.raises(ConfigError, match=r"matches twice, as 'x\.jsonl' and 'a/x\.jsonl'"):
        find_files(run, tmp_path)


def test_a_folder_whose_name_has_wildcards_is_taken_by_its_letters(tmp_path: Path) -> None:
    base = tmp_path / "[v1]*"
    (base / "a").mkdir(parents=True)
    (base / "a" / "x.jsonl").write_text("{}\n")
    sources = [{"name": "s", "paths": ["a/*.jsonl"]}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    assert [file.path for file in find_files(run, base)] == ["x.jsonl"]


def test_sections_of_plain_text_are_refused(base: Path) -> None:
    (base / "web" / "page.txt").write_text("a text")
    found = refusal(base, "web/*.txt", section_columns=("target",))
    assert "sources.web.section_columns = ['target']: " in found
    assert "is plain text and has no columns" in found


def test_no_file_is_opened_to_be_found(base: Path) -> None:
    (base / "web/b.jsonl").chmod(0)
    assert names(find(base, {"name": "web", "paths": ["web/*.jsonl"]})) == [("web", "b.jsonl")]


def make_special(kind: str, path: Path) -> None:
    """Put something at a path that is no file."""
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a character device"])
@pytest.mark.parametrize("pattern", ["web/x.jsonl", "web/*.jsonl", "**/*.jsonl"])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, pattern: str, base: Path) -> None:
    make_special(kind, base / "web/x.jsonl")
    message = refusal(base, pattern)
    assert message.startswith(f"sources.web.paths: {base / 'web/x.jsonl'}")
    assert f"is {kind}, and only files are read: copy its content to a regular file, or" in message
    assert ("a link to /dev/zero" in message) == (kind == "a character device")


@pytest.mark.parametrize("pattern", ["web/*.jsonl", "web/*", "*/*.jsonl", "web/fold*.jsonl"])
def test_a_folder_that_is_named_like_a_file_is_refused(pattern: str, base: Path) -> None:
    folder = base / "web/folder.jsonl"
    folder.mkdir()
    (folder / "part-0.jsonl").write_text("{}")
    (base / "code/z.jsonl").unlink()
    if pattern == "web/*":
        (base / "web/a.jsonl.gz").unlink()
    message = refusal(base, pattern)
    assert f"{folder} is a folder that is named like a file" in message
    assert f"name its files, as {folder}/*" in message
    found = find(base, {"name": "web", "paths": ["web/*.jsonl/*"]})
    assert names(found) == [("web", "folder.jsonl/part-0.jsonl")], "the way out is one"


def test_a_folder_named_like_a_file_is_no_fault_where_its_files_are_read(base: Path) -> None:
    (base / "web/out.jsonl").mkdir()
    (base / "web/out.jsonl/part-0.jsonl").write_text("{}")
    found = find(base, {"name": "web", "paths": ["web/**/*.jsonl"]})
    assert names(found) == [("web", "b.jsonl"), ("web", "out.jsonl/part-0.jsonl")]


@pytest.mark.parametrize(
    ("link", "to", "paths"),
    [
        ("web/again", ".", ["web/**/*.jsonl"]),
        ("web/c.jsonl", "b.jsonl", ["web/*.jsonl"]),
        ("web/c.jsonl", "b.jsonl", ["web/b.jsonl", "web/c.jsonl"]),
        ("other", "web", ["*/b.jsonl"]),
    ],
)
def test_a_file_that_links_make_two_is_refused(link: str, to: str, paths: list[str], base: Path) -> None:
    (base / link).symlink_to(to)
    message = refusal(base, *paths)
    assert "are one file, through a link, and would be read twice" in message
    assert str(base / "web/b.jsonl") in message
    (base / link).unlink()
    assert find(base, {"name": "web", "paths": [path for path in paths if path != link]})


def test_a_link_to_a_file_that_is_read_once_is_no_fault(base: Path) -> None:
    (base / "link.jsonl").symlink_to("web/b.jsonl")
    assert names(find(base, {"name": "web", "paths": ["link.jsonl"]})) == [("web", "link.jsonl")]


@pytest.mark.parametrize("pattern", ["web/c.jsonl", "web/*.jsonl"])
def test_a_link_that_leads_to_itself_is_named(pattern: str, base: Path) -> None:
    (base / "web/c.jsonl").symlink_to("c.jsonl")
    message = refusal(base, pattern)
    assert message == f"sources.web.paths: {base / 'web/c.jsonl'}: Too many levels of symbolic links"


def test_a_link_to_nothing_is_named(base: Path) -> None:
    (base / "web/c.jsonl").symlink_to("nowhere")
    assert refusal(base, "web/*.jsonl") == f"sources.web.paths: {base / 'web/c.jsonl'}: no such file"
