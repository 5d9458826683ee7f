"""What inputs promise: canonical order, names free of the machine, and refusals that name the place."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import RunFile, Source
from pipeline.inputs import CACHE_NAME, InputFile, find_inputs, remember_digests
from stages.errors import ConfigError
from stages.reading.formats import ENDINGS

FILES = ("web/b.jsonl", "web/a.jsonl.gz", "web/deep/er/c.jsonl.zst", "code/z.jsonl", "top.jsonl")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder of a few files whose bytes differ."""
    folder = tmp_path / "base"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def find(base: Path, *sources: dict[str, Any], output: Path | None = None) -> list[InputFile]:
    """Give the inputs of a run over some sources."""
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    return find_inputs(run, base, output=output or base / "no-run")


def names(files: list[InputFile]) -> list[tuple[str, str]]:
    """Give what documents' ids are made of."""
    return [(file.source, file.path) for file in files]


def refusal(base: Path, *paths: str, **source: Any) -> str:
    """Give the message with which the paths of a source named web are refused."""
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
    assert found[0].digest == found[1].digest
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
        ("web/note.csv", f"reads {', '.join(ENDINGS)} files only"),
        ("web/*.csv", f"reads {', '.join(ENDINGS)} files only"),
        ("web/LOUD.JSONL", f"reads {', '.join(ENDINGS)} files only"),
    ],
)
def test_what_is_no_input_file_is_refused_with_the_source_and_the_place(
    path: str, explanation: str, base: Path
) -> None:
    (base / "web" / "note.csv").write_text("a note")
    (base / "web" / "LOUD.JSONL").write_text("{}")
    message = refusal(base, path)
    assert message.startswith(f"sources.web.paths: {base / path.replace('*', 'note')}")
    assert explanation in message


def test_a_copy_of_the_files_elsewhere_is_the_same_input(base: Path, tmp_path: Path) -> None:
    source = {"name": "web", "paths": ["web/**"]}
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(base, elsewhere)

    def known(folder: Path) -> list[tuple[str, str, int, str]]:
        return [(file.key, file.path, file.size, file.digest) for file in find(folder, source)]

    assert known(base) == known(elsewhere)
    assert len({digest for _, _, _, digest in known(base)}) == 3


def test_remembered_digests_are_used_while_size_and_time_of_change_agree(
    base: Path, tmp_path: Path
) -> None:
    source, place = {"name": "web", "paths": ["web/b.jsonl"]}, base / "web/b.jsonl"
    first = find(base, source, output=tmp_path)
    remember_digests(first, tmp_path)
    before = place.stat()
    place.write_text("B" * before.st_size)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find(base, source, output=tmp_path) == first, "nothing is read again"
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    later = find(base, source, output=tmp_path)
    assert later[0].digest != first[0].digest
    remember_digests(later, tmp_path)
    place.write_text("B" * before.st_size + "B")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert find(base, source, output=tmp_path)[0].digest != later[0].digest


@pytest.mark.parametrize("content", ["", "{", '{"cut": "in the m'])
def test_a_broken_memory_of_digests_is_passed_over(content: str, base: Path, tmp_path: Path) -> None:
    (tmp_path / CACHE_NAME).write_text(content)
    source = {"name": "web", "paths": ["web/*.jsonl"]}
    assert find(base, source, output=tmp_path) == find(base, source)


def test_a_source_needs_at_least_one_path() -> None:
    with pytest.raises(ValueError, match="at least 1 item"):
        Source(name="web", paths=())


def test_a_file_that_two_globs_find_under_two_paths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jsonl").write_text("{}\n")
    sources = [{"name": "s", "paths": ["a/*.jsonl", "**/*.jsonl"]}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    with pytest.raises(ConfigError, match=r"matches twice, as 'x\.jsonl' and 'a/x\.jsonl'"):
        find_inputs(run, tmp_path, output=tmp_path)


def test_a_folder_whose_name_has_wildcards_is_taken_by_its_letters(tmp_path: Path) -> None:
    base = tmp_path / "[v1]*"
    (base / "a").mkdir(parents=True)
    (base / "a" / "x.jsonl").write_text("{}\n")
    sources = [{"name": "s", "paths": ["a/*.jsonl"]}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    assert [file.path for file in find_inputs(run, base, output=tmp_path)] == ["x.jsonl"]


def test_sections_of_plain_text_are_refused(base: Path) -> None:
    (base / "web" / "page.txt").write_text("a text")
    found = refusal(base, "web/*.txt", section_columns=("target",))
    assert "sources.web.section_columns = ['target']: " in found
    assert "is plain text and has no columns" in found
