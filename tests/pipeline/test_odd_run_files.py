"""What odd run files promise: one that cannot be read or held is refused in one short line."""

import os
import socket
import threading
from pathlib import Path

import pytest

from pipeline.run_file.load import load_run_file
from stages.errors import ConfigError
from tests.pipeline.test_run_file import DATASET, LEAST, Load, refusal

LONG = "9" * 5_000
DEEP = "[" * 5_000 + "]" * 5_000
TABLES = ".".join(["a"] * 5_000)
ODD = {
    "digits": (f"seed = {LONG}", "holds a number of more than 4,300 digits; shorten it"),
    "many digits": (f"seed = {'1' * 4_000}", "seed = 1111"),
    "hexadecimal digits": (f"seed = 0x{LONG}", "seed = ...: "),
    "lists": (f"seed = {DEEP}", "its lists or tables are nested too deep"),
    "lists in a list": (f"seed = {'[' * 200}{']' * 200}", "seed = [[["),
    "tables": (f"packing.{TABLES} = 1", "packing.a: no such key"),
    "a list of tables": (f"seed = [{{{TABLES} = 1}}]", "seed = "),  # Python 3.13 can write the value
}


@pytest.mark.parametrize("name", ODD)
def test_toml_that_python_cannot_hold_is_refused_in_a_short_line(name: str, load: Load) -> None:
    text, explanation = ODD[name]
    in_file = refusal(load, f"{text}\n{LEAST}")
    assert f"run.toml: {explanation}" in in_file
    key, _, value = text.partition(" = ")
    as_option = refusal(load, LEAST, f"{key}={value}")
    assert explanation in as_option
    assert f"--set {key}: " in as_option or "run.toml: " in as_option
    assert max(len(in_file), len(as_option)) < 1_000


PATHS = 'paths = ["*.jsonl"]\n'


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("sources.web.paths", PATHS, 'paths = ["a\\u0000.jsonl"]\n'),
        ("sources.web.paths", PATHS, 'paths = ["b.jsonl", "*\\u0000.jsonl"]\n'),
        ("sources.web.root", PATHS, PATHS + 'root = "a\\u0000"\n'),
        ("tokenizer.path", DATASET, DATASET + '[tokenizer]\npath = "a\\u0000.model"\n'),
    ],
)
def test_a_path_that_no_file_can_have_is_refused_by_its_key(
    key: str, before: str, after: str, load: Load
) -> None:
    message = refusal(load, LEAST.replace(before, after))
    assert f"run.toml: {key} = " in message
    assert message.endswith(": no path can hold the character NUL; remove it")
    assert load(LEAST.replace(before, after.replace("\\u0000", "x")))


def test_an_empty_path_is_refused(load: Load) -> None:
    message = refusal(load, LEAST.replace("*.jsonl", ""))
    assert "sources.web.paths = ['']: '' names no file; write a file, a glob" in message


@pytest.mark.parametrize("place", ["/dev/null", "/dev/zero", "folder", "link", "socket"])
def test_a_run_file_that_is_no_file_is_refused_unread(place: str, tmp_path: Path) -> None:
    path = tmp_path / place
    if place == "folder":
        path.mkdir()
    elif place == "link":
        path.symlink_to("/dev/zero")
    elif place == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    with pytest.raises(ConfigError) as caught:
        load_run_file(path)
    kind = {"folder": "a folder", "socket": "a socket"}.get(place, "a character device")
    assert str(caught.value) == (
        f"{path}: is {kind}, and a run file is a regular file or a FIFO; name one"
    )


def test_a_run_file_may_be_a_fifo_as_a_shell_makes_of_a_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.toml")
    writer = threading.Thread(target=(tmp_path / "run.toml").write_text, args=(LEAST,))
    writer.start()
    assert load_run_file(tmp_path / "run.toml").sources[0].name == "web"
    writer.join()
