"""What outputs promise: no command takes a URL for a folder, a file for one, or somebody else's."""

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pipeline import cli
from pipeline.commands.boundary import exit_code_of
from pipeline.planning.outputs import require_local, require_run_folder
from pipeline.system.stopping import Signals
from stages.errors import ConfigError

URLS = {
    "s3://bucket/x": "s3://bucket/x",
    "memory://x": "memory://x",
    "gs://bucket": "gs://bucket",
    "hf://datasets/me/x": "hf://datasets/me/x",
    "simplecache::s3://bucket/x": "simplecache::s3://bucket/x",
    "file:///data/x": "write /data/x",
    "S3://bucket/x": "S3://bucket/x",
}
"""A URL, and what its refusal says of it."""
HIDDEN = "hunter2"
HOLDING = [
    "s3://KEY:hunter2@bucket/x",
    "S3://KEY:hunter2@bucket/x",
    "s3://KEY:a/hunter2@bucket/x",
    "gs://hunter2@bucket/x",
    "az://bucket/x?sig=hunter2",
    "gs://bucket/x#hunter2",
    "https://me:hunter2@host/x",
    "ftp://me:hunter2@host/x",
    "simplecache::s3://KEY:hunter2@bucket/x",
]
"""URLs that have a secret."""
WORDS = {"--format": "mds", "--pieces": "9", "--nodes": "2"}
"""What required options are given that name no path."""
_PATHS = re.compile("DIR|PATH|FILE|FOLDER|MODEL|CHECKPOINT|[.]Path")


def calls(group: Any, *names: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a call for every option and argument that names a file or folder; URL stands for it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from calls(command, *names, name)
            continue
        typed = inspect.signature(command.callback).parameters
        for asked in command.params:
            said = f"{asked.metavar} {typed[asked.name].annotation if asked.name in typed else ''}"
            if _PATHS.search(said) is None:
                continue
            words = [*names, name]
            for one in command.params:
                if one is asked or one.required:
                    word = "URL" if one is asked else WORDS.get(one.opts[0], "x")
                    words += [one.opts[0], word] if one.opts[0].startswith("-") else [word]
            yield f"{' '.join([*names, name])} {asked.opts[0]}", words


ROOT = typer.main.get_command(cli.app)
COMMANDS = dict(calls(ROOT))
NAMED = ("compare --evaluate", "tokenizer compare models")
"""Of these, those that take NAME=PATH."""
STORED = (
    "plan --output",
    "run --output",
    "status folder",
    "verify folder",
    "inspect folder",
    "export folder",
    "export --to",
    "launch slurm --output",
)
"""Those that take a URL of a store."""
FREE = "quick paths"
"""Takes any URL, as `sources.NAME.paths` does."""
READ = (
    *("init folders", "init --tokenizer", "plan run_file", "run run_file", "quick --tokenizer"),
    *("compare --evaluate", "tokenizer compare models", "tokenizer compare --parallel"),
    *("tokenizer compare --text", "tokenizer verify model", "tokenizer verify --text"),
    *("tokenizer sweep run_file", "tokenizer sweep --parallel", "tokenizer extend model"),
    *("tokenizer extend --text", "tokenizer extend --old-text", "tokenizer resize checkpoint"),
    *("tokenizer resize --old", "tokenizer resize --new", "tokenizer resize --text"),
    *("tokenizer export model", "tokenizer export --text", "launch slurm run_file"),
)
"""Those that name no run and nothing that is written: their names may have any bytes."""
REFUSING = [name for name in COMMANDS if name != FREE]


def refusal(name: str, url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command says of a URL that it refuses; it makes nothing."""
    words = [url if word == "URL" else word for word in COMMANDS[name]]
    assert exit_code_of(lambda: ROOT(words), Signals()) == 2, (name, url)
    assert list(Path().iterdir()) == [], (name, url)
    return capsys.readouterr().err


@pytest.mark.parametrize("name", REFUSING)
def test_a_url_is_refused_by_every_command_and_nothing_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {url: said for url, said in URLS.items() if name not in STORED or not is_of_store(url)}
    assert len(asked) >= 5
    for before in ("", "own=") if name in NAMED else ("",):
        for url, said in asked.items():
            error = refusal(name, before + url, capsys)
            assert "is a URL, but this must be a local path" in error, error
            assert said in error


def is_of_store(url: str) -> bool:
    """Say whether a run may lie there."""
    return url.startswith(("s3://", "gs://"))


@pytest.mark.parametrize("name", REFUSING)
def test_no_command_shows_the_secret_of_a_url(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in HOLDING:
        assert HIDDEN in url
        error = refusal(name, url, capsys)
        assert HIDDEN not in error, error
        assert "://" in error, error


def test_every_option_and_argument_that_names_a_path_is_among_those_tried() -> None:
    assert len(COMMANDS) == 45
    assert {*NAMED, *STORED, *READ, FREE} <= COMMANDS.keys()


@pytest.mark.parametrize(
    "path", ["runs/2026-07-01T10:00", "a:b", "a:b/c", "x/s3:/y", "/data/s3:/x", ".", "..", "/", "~x"]
)
def test_a_local_path_is_no_url(path: str) -> None:
    assert require_local(Path(path), "--output") == Path(path)


@pytest.mark.parametrize("name", ["file", "file/below", "file/far/below", "link"])
def test_an_output_that_is_no_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=rf"--output {tmp_path}/{name}: .*(is a file|to nothing)"):
        require_run_folder(tmp_path / name)


@pytest.mark.parametrize(
    "names",
    [
        ["a.txt"],
        ["datasets"],
        ["lock", "notes.md"],
        ["report", "inputs.json"],
        ["run.toml"],
        ["tmp"],
        ["commits", "thesis"],
    ],
)
def test_a_folder_of_something_else_is_refused_by_a_name_in_it(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(ConfigError, match=r"but no run; name an empty or a new folder") as caught:
        require_run_folder(tmp_path)
    assert names[-1] in str(caught.value) or names[0] in str(caught.value)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["run.json", "anything"],
        ["commits/ingest/u.json", "anything"],
        ["lock", "log.jsonl", "status.json", "tmp"],
        ["log.jsonl", "scan/0", "commits/scan/.0.json.half"],
        [".nfs0001", ".DS_Store"],
        ["lost+found"],
    ],
)
def test_an_empty_folder_one_of_a_run_and_one_of_a_run_that_just_began_are_taken(
    names: list[str], tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    require_run_folder(tmp_path)
    require_run_folder(tmp_path / "new" / "deep")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        name.partition("/")[0] for name in names
    )


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("kind", ["file", "foreign"])
def test_plan_and_run_refuse_alike(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.jsonl").write_text('{"text": "a text"}\n')
    run = '[[sources]]\nname = "s"\npaths = ["corpus/*.jsonl"]\n[[datasets]]\nname = "clm"\n'
    (tmp_path / "run.toml").write_text(run)
    output = tmp_path / ("run.toml" if kind == "file" else "corpus")
    words = [command, str(tmp_path / "run.toml"), "-o", str(output)]
    assert exit_code_of(lambda: ROOT(words), Signals()) == 2
    assert "name an empty or a new folder" in capsys.readouterr().err
    assert (tmp_path / "run.toml").read_text() == run
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("name", sorted({*REFUSING} - {*READ}))
def test_a_path_that_is_not_utf_8_is_refused_by_every_command_that_writes_it_and_nothing_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [os.fsdecode(b"caf\xe9") if word == "URL" else word for word in COMMANDS[name]]
    assert exit_code_of(lambda: ROOT(words), Signals()) == 2
    assert r"caf\udce9: its path is not UTF-8 (byte 0xe9 of it)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_in_a_folder_that_is_not_utf_8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    monkeypatch.chdir(tmp_path / os.fsdecode(b"\xff"))
    with pytest.raises(ConfigError, match="byte 0xff of it"):
        require_local(Path("out"), "--output")
