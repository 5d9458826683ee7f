"""What inputs promise: canonical order, names free of the machine, and refusals that name the place."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.inputs.files import FoundFile, FoundInputs, find_inputs
from pipeline.inputs.skipped import glob_matches
from pipeline.run_file.config import RunFile
from pipeline.run_file.source import Source
from stages.errors import ConfigError
from stages.reading.table import endings_said

FILES = ("web/b.jsonl", "web/a.jsonl.gz", "web/deep/er/c.jsonl.zst", "code/z.jsonl", "top.jsonl")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder of a few files whose bytes differ."""
    folder = tmp_path / "base"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def inputs(base: Path, *sources: dict[str, Any]) -> FoundInputs:
    """Return what a run over some sources reads, and what not."""
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    return find_inputs(run, base)


def find(base: Path, *sources: dict[str, Any]) -> list[FoundFile]:
    """Return the files of a run over some sources."""
    return inputs(base, *sources).files


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
        ("web", "is a folder; write web/** and skip_unknown = true to read every file in it"),
        ("web", "(exclude leaves out more), or web/*.jsonl for one ending"),
        ("web/note.doc", "remove it from paths, or give it the ending of what it holds. Files are read"),
        ("web/*.doc", f"by their endings: {endings_said()}"),
        ("web/LOUD.JSONL", f"by their endings: {endings_said()}"),
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
    with pytest.raises(ValueError, match="paths is missing: name the files"):
        Source(name="web", paths=())


def test_a_file_that_two_globs_find_under_two_paths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jsonl").write_text("{}\n")
    sources = [{"name": "s", "paths": ["a/*.jsonl", "**/*.jsonl"]}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    with pytest.raises(ConfigError, match=r"matches twice, as 'x\.jsonl' and 'a/x\.jsonl'"):
        find_inputs(run, tmp_path)


def test_a_folder_whose_name_has_wildcards_is_taken_by_its_letters(tmp_path: Path) -> None:
    base = tmp_path / "[v1]*"
    (base / "a").mkdir(parents=True)
    (base / "a" / "x.jsonl").write_text("{}\n")
    sources = [{"name": "s", "paths": ["a/*.jsonl"]}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    assert [file.path for file in find_inputs(run, base).files] == ["x.jsonl"]


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


@pytest.mark.parametrize("pattern", ["web/*.jsonl", "web/*", "web/fold*.jsonl", "web/folder.jsonl"])
def test_of_a_folder_that_is_named_like_a_file_the_files_are_read(pattern: str, base: Path) -> None:
    folder = base / "web/folder.jsonl"
    (folder / "_temporary/0").mkdir(parents=True)
    (folder / "lang=en").mkdir()
    for name in ("part-0.jsonl", "_SUCCESS", "_temporary/0/part-0.jsonl", "lang=en/part-1.jsonl"):
        (folder / name).write_text("{}")
    (base / "web/b.jsonl").unlink()
    (base / "web/a.jsonl.gz").unlink()
    found = inputs(base, {"name": "web", "paths": [pattern]})
    inside = ["folder.jsonl/lang=en/part-1.jsonl", "folder.jsonl/part-0.jsonl"]
    assert names(found.files) == [("web", path) for path in inside]
    (skipped,) = found.skipped
    assert skipped.line == (
        "sources.web: 2 files are not read: 2 hidden (name begins with _ or .) (folder.jsonl/_SUCCESS,"
        " folder.jsonl/_temporary/0/part-0.jsonl)"
    )


def test_all_that_is_hidden_in_such_a_folder_is_counted(base: Path) -> None:
    folder = base / "notes.md"
    (folder / ".deep").mkdir(parents=True)
    for name in ("_draft.md", ".x.md", "a.md", ".deep/b.md", ".k=1.md"):
        (folder / name).write_text("text")
    for pattern in ("notes.md", "*.md"):
        found = inputs(base, {"name": "web", "paths": [pattern]})
        assert [Path(file.path).name for file in found.files] == ["a.md"]
        (skipped,) = found.skipped
        assert skipped.by == {"hidden": 4}
        assert "4 hidden (name begins with _ or .) (" in skipped.line


def test_an_encoding_of_a_source_without_text_is_refused(base: Path) -> None:
    (base / "a.parquet").write_bytes(b"")
    message = refusal(base, "a.parquet", encoding="cp1252")
    assert message == (
        "sources.web.encoding = 'cp1252': all its files are Parquet, which say their encoding"
        " themselves; leave it out"
    )
    (base / "b.jsonl").write_bytes(b"")
    assert len(find(base, {"name": "web", "paths": ["a.parquet", "b.jsonl"], "encoding": "cp1252"})) == 2
    assert find(base, {"name": "web", "paths": ["a.parquet"], "encoding": "utf8"})


def test_a_note_beside_the_data_of_a_folder_is_not_read_by_a_pattern_of_its_own(base: Path) -> None:
    folder = base / "t.parquet"
    folder.mkdir()
    for name in ("part-0.parquet", "_metadata", "_SUCCESS", ".part-0.parquet.crc"):
        (folder / name).write_bytes(b"")
    for pattern in ("t.parquet/*", "*/*.parquet"):
        found = inputs(base, {"name": "web", "paths": [pattern]})
        assert [Path(file.path).name for file in found.files] == ["part-0.parquet"]
    with pytest.raises(ConfigError, match=r"_metadata: no reader knows this file"):
        find(base, {"name": "web", "paths": ["t.parquet/_metadata"]})


def test_a_folder_that_is_named_like_a_file_and_holds_none_is_refused(base: Path) -> None:
    (base / "t.parquet").mkdir()
    assert refusal(base, "t.parquet") == (
        f"sources.web.paths: 't.parquet' matches no file in {base.resolve()}"
    )


@pytest.mark.parametrize(
    ("glob", "left"),
    [
        ("*.log", ["a.jsonl.gz", "b.jsonl", "deep/er/c.jsonl.zst"]),
        ("er", ["a.jsonl.gz", "b.jsonl", "x.log"]),
        ("deep/*", ["a.jsonl.gz", "b.jsonl", "x.log"]),
        ("deep", ["a.jsonl.gz", "b.jsonl", "x.log"]),
        ("**/*.zst", ["a.jsonl.gz", "b.jsonl", "x.log"]),
        ("./b.*", ["a.jsonl.gz", "deep/er/c.jsonl.zst", "x.log"]),
        ("er/*", ["a.jsonl.gz", "b.jsonl", "deep/er/c.jsonl.zst", "x.log"]),
        ("*/b.jsonl", ["a.jsonl.gz", "b.jsonl", "deep/er/c.jsonl.zst", "x.log"]),
    ],
)
def test_a_glob_of_exclude_is_of_a_name_or_of_a_path(glob: str, left: list[str], base: Path) -> None:
    (base / "web/x.log").write_text("junk")
    paths = ["a.jsonl.gz", "b.jsonl", "deep/er/c.jsonl.zst", "x.log"]
    source = {"name": "web", "paths": ["web/**"], "exclude": [glob]}
    assert [path for path in paths if not glob_matches(path, glob)] == left
    found = inputs(base, {**source, "skip_unknown": True})
    assert [file.path for file in found.files] == [path for path in left if path != "x.log"]
    (skipped,) = found.skipped
    assert sum(skipped.by.values()) == 4 - len(found.files)
    assert skipped.idle == ((glob,) if left == paths else ())


def test_files_that_are_not_read_are_counted_and_the_first_named(base: Path) -> None:
    for name in ("1.log", "2.log", "3.log", "4.log", "b.doc", "c"):
        (base / "web" / name).write_text("junk")
    source = {"name": "web", "paths": ["web/*"], "exclude": ["*.log", "*.lgo"], "skip_unknown": True}
    found = inputs(base, source)
    assert [file.path for file in found.files] == ["a.jsonl.gz", "b.jsonl"]
    (skipped,) = found.skipped
    assert skipped.by == {"excluded": 4, "unknown": 2}
    assert skipped.line == (
        "sources.web: 6 files are not read: 4 by exclude (1.log, 2.log, 3.log and 1 more), 2 that no"
        " reader knows (b.doc, c); exclude: '*.lgo' matches no file"
    )
    assert inputs(base, {"name": "web", "paths": ["web/*.jsonl"]}).skipped == ()


def test_a_file_that_no_reader_knows_is_refused_with_both_ways_out(base: Path) -> None:
    (base / "web" / "note.doc").write_text("a note")
    (base / "web" / "README").write_text("a note")
    ways = "set skip_unknown = true, which leaves out all such files and counts them, or exclude = "
    assert f"{ways}['README']. " in refusal(base, "web/*")
    message = refusal(base, "web/*", exclude=["README"])
    assert f"{ways}['*.doc']. " in message
    assert "remove it from paths" in refusal(base, "web/note.doc", skip_unknown=True), "it is meant"


def test_a_source_of_which_nothing_is_left_is_refused(base: Path) -> None:
    message = refusal(base, "web/*.jsonl", exclude=["*.jsonl"])
    assert message == "sources.web: 1 file is not read: 1 by exclude (b.jsonl); no file is left to read"


def test_what_is_excluded_is_not_looked_at(base: Path) -> None:
    make_special("a FIFO", base / "web/x.jsonl")
    source = {"name": "web", "paths": ["web/*.jsonl"], "exclude": ["x.*"]}
    assert names(find(base, source)) == [("web", "b.jsonl")]


@pytest.mark.parametrize("glob", ["", "/", "."])
def test_a_glob_of_exclude_that_names_nothing_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="names no file"):
        Source(name="web", paths=("*",), exclude=(glob,))


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


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("a.html", "resiliparse", "html"),
        ("a.warc.gz", "brotli", "warc"),
        ("a.wet", "resiliparse", "warc"),
    ],
)
def test_a_file_whose_library_is_not_installed_is_refused_with_the_extra(
    name: str, library: str, extra: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "web" / name).write_text("")
    assert find(base, {"name": "web", "paths": [f"web/{name}"]})
    monkeypatch.setitem(sys.modules, library, None)
    message = refusal(base, f"web/{name}")
    assert f"needs {library}, which is not installed: pip install 'shardmill[{extra}]'" in message
