"""What outputs promise: no command takes a URL for a folder, a file for one, or somebody else's."""

import os
from pathlib import Path

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
FORMAT = ("--dataset", "d", "--format", "mds")
QUICK = ("quick", "a.jsonl", "--tokenizer", "t.model", "--format", "mds")
COMMANDS = {
    "plan -o": ("plan", "run.toml", "-o", "URL"),
    "run -o": ("run", "run.toml", "--output", "URL"),
    "status": ("status", "URL"),
    "verify": ("verify", "URL"),
    "inspect": ("inspect", "URL", "--dataset", "d"),
    "export": ("export", "URL", *FORMAT, "--to", "out"),
    "export --to": ("export", "run", *FORMAT, "--to", "URL"),
    "quick --to": (*QUICK, "--to", "URL"),
    "quick --work": (*QUICK, "--to", "out", "--work", "URL"),
    "compare": ("compare", "URL"),
    "compare, second": ("compare", "run", "URL"),
    "compare -o": ("compare", "run", "-o", "URL"),
}
"""A call for every option and argument that names a folder."""
STORED = ("plan -o", "run -o", "status", "verify", "inspect", "export", "export --to")
"""Those that take a URL of a store."""


@pytest.mark.parametrize(
    ("name", "url"),
    [
        (name, url)
        for name in COMMANDS
        for url in URLS
        if name not in STORED or not url.startswith(("s3://", "gs://"))
    ],
)
def test_a_url_is_refused_by_every_command_and_nothing_is_made(
    name: str,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [url if word == "URL" else word for word in COMMANDS[name]]
    assert exit_code_of(lambda: cli.app(words), Signals()) == 2
    error = capsys.readouterr().err
    assert "is a URL; outputs are local folders, or mounted ones" in error
    assert URLS[url] in error
    assert list(tmp_path.iterdir()) == []


def test_every_option_and_argument_that_names_a_folder_is_among_those_tried() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    tried = {(words[0], words[words.index("URL") - 1]) for words in COMMANDS.values()}
    asked = 0
    for name, command in commands.items():
        for parameter in command.params:
            if parameter.metavar not in ("DIR", "PATH"):
                continue
            asked += 1
            spellings = {(name, option) for option in parameter.opts} | {(name, name)}
            assert spellings & tried, (name, parameter.opts)
    assert asked == 12


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
    assert exit_code_of(lambda: cli.app(words), Signals()) == 2
    assert "name an empty or a new folder" in capsys.readouterr().err
    assert (tmp_path / "run.toml").read_text() == run
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_path_that_is_not_utf_8_is_refused_by_every_command_and_nothing_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [os.fsdecode(b"caf\xe9") if word == "URL" else word for word in COMMANDS[name]]
    assert exit_code_of(lambda: cli.app(words), Signals()) == 2
    assert r"caf\udce9: its path is not UTF-8 (byte 0xe9 of it)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_in_a_folder_that_is_not_utf_8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    monkeypatch.chdir(tmp_path / os.fsdecode(b"\xff"))
    with pytest.raises(ConfigError, match="byte 0xff of it"):
        require_local(Path("out"), "--output")
