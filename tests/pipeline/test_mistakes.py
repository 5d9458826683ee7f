"""Mistakes that people make: each has one message that says what, where, the bound and the way out.

python -m tests.pipeline.test_mistakes      prints all of them
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.called import called
from tests.conftest import write_small_corpus

RUN = """
name = "small"
[[sources]]
name = "mixed"
paths = ["*.jsonl*"]
id_column = "id"
language = { column = "lang" }
[ingest]
min_chars = 20
[dedup]
near = false
[tokenizer.train]
vocab_size = 1500
[packing]
seq_len = 64
[verify]
learning = false
[[datasets]]
name = "clm"
[[datasets]]
name = "t5"
objective = { kind = "span_corruption" }
"""
ON = ("run", "run.toml", "--output", "new", "--workers", "0", "--quiet")


class Mistake(NamedTuple):
    """What someone types, and what he must be told."""

    words: tuple[str, ...]
    code: int
    told: tuple[str, ...]


MISTAKES = {
    "no run file": Mistake(
        ("run", "nosuch.toml", "-o", "new"), 2, ("no such run file", "shardmill init FOLDER")
    ),
    "no output": Mistake(("run", "run.toml"), 2, ("Missing option '--output'",)),
    "a run file that is no TOML": Mistake(
        ("run", "a.jsonl", "-o", "new"), 2, ("a.jsonl", "not TOML", "line 1")
    ),
    "a key misspelt": Mistake(
        (*ON, "--set", "dedup.neer=true"), 2, ("dedup.neer", "did you mean 'near'?")
    ),
    "a key without its table": Mistake(
        (*ON, "--set", "seq_len=128"), 2, ("seq_len: no such key", "did you mean packing.seq_len?")
    ),
    "a word for a number": Mistake(
        (*ON, "--set", "packing.seq_len=long"), 2, ("packing.seq_len = 'long'", "must be a whole number")
    ),
    "a word for a flag": Mistake(
        (*ON, "--set", "dedup.near=no"), 2, ("dedup.near = 'no'", "must be true or false")
    ),
    "too little memory": Mistake(
        (*ON, "--set", "resources.memory=10MB"),
        2,
        ("resources.memory = '10MB'", "must be at least 1GiB"),
    ),
    "no list": Mistake(
        (*ON, "--set", 'sources.mixed.paths="a.jsonl"'),
        2,
        ("must be a list; write paths = ['a.jsonl']",),
    ),
    "an unknown objective": Mistake(
        (*ON, "--set", "datasets.clm.objective.kind=gpt"),
        2,
        ("'gpt'", "must be one of", "'clm'", "'mlm'"),
    ),
    "no such files": Mistake(
        (*ON, "--set", 'sources.mixed.paths=["*.csv"]'), 2, ("*.csv", "sources.mixed", "no file")
    ),
    "a field that no record has": Mistake(
        (*ON, "--set", "sources.mixed.text_column=body"), 2, ("body", "text_column", "mixed")
    ),
    "workers in words": Mistake(
        ("run", "run.toml", "-o", "new", "--workers", "two"),
        2,
        ("--workers", "two is not a whole number"),
    ),
    "fewer than no workers": Mistake(
        ("run", "run.toml", "-o", "new", "--workers", "-1"), 2, ("--workers", "must be at least 0")
    ),
    "a step that is none": Mistake(
        (*ON, "--until", "dedupe"), 2, ("--until dedupe", "no such step", "dedup")
    ),
    "a vocabulary too large for the text": Mistake(
        (*ON, "--output", "big", "--set", "tokenizer.train.vocab_size=400000"),
        2,
        ("tokenizer.train.vocab_size", "400,000"),
    ),
    "a URL as the output": Mistake(
        ("run", "run.toml", "-o", "hf://datasets/me/run"), 2, ("is a URL", "mount the bucket")
    ),
    "another run in the folder": Mistake(
        ("run", "run.toml", "-o", "done", "--workers", "0", "-q", "--set", "dedup.exact=false"),
        2,
        ("holds a run of another config", "dedup", "--replace"),
    ),
    "a folder that is no run": Mistake(
        ("status", "empty"), 2, ("empty: holds no run", "name the --output of one")
    ),
    "verify before the end": Mistake(
        ("verify", "half", "--workers", "0"), 2, ("is not done; finish the run first",)
    ),
    "no dataset named": Mistake(("inspect", "done"), 2, ("--dataset: done has clm, t5; name one",)),
    "a dataset that is not there": Mistake(
        ("inspect", "done", "--dataset", "gpt"), 2, ("no dataset 'gpt'", "clm, t5")
    ),
    "a row beyond the last": Mistake(
        ("inspect", "done", "--dataset", "clm", "--row", "999999"), 2, ("--row 999999", "has rows 0 to")
    ),
    "a document that is not there": Mistake(
        ("inspect", "done", "--document", "a b"), 2, ("--document a b: nothing here knows it",)
    ),
    "no format named": Mistake(
        ("export", "done", "--dataset", "clm", "--to", "out"), 2, ("--format", "megatron", "hf-parquet")
    ),
    "a format misspelt": Mistake(
        ("export", "done", "--dataset", "clm", "--format", "megatrn", "--to", "out"),
        2,
        ("no such format", "did you mean 'megatron'?"),
    ),
    "an export into the run": Mistake(
        ("export", "done", "--dataset", "clm", "--format", "hf", "--to", "done/out"), 2, ("done",)
    ),
    "a sample of nothing": Mistake(
        ("plan", "run.toml", "-o", "new", "--sample", "0"), 2, ("--sample", "reads nothing")
    ),
    "init without texts": Mistake(
        ("init", "empty", "-o", "x.toml"), 2, ("empty: nothing there can be read", "name the folder")
    ),
    "init of no folder": Mistake(("init", "nosuch", "-o", "x.toml"), 2, ("nosuch: no such folder",)),
    "init over a run file": Mistake(("init", ".", "-o", "run.toml", "-y"), 2, ("run.toml", "--replace")),
    "a CSV with semicolons": Mistake(
        (*ON, "--output", "csv-run", "--set", 'sources.mixed.paths=["csv/semicolons.csv"]'),
        2,
        ('semicolons.csv: its header has the columns delimited by ";"', 'set delimiter = ";"'),
    ),
    "init of a CSV without names of columns": Mistake(
        ("init", "csv/headless", "-o", "x.toml"),
        2,
        ("a.csv: its first row looks like data", "write the names above it, as in id,text"),
    ),
    "an option misspelt": Mistake(
        ("run", "run.toml", "-o", "new", "--worker", "2"), 2, ("No such option", "--workers")
    ),
    "a command misspelt": Mistake(("vrify", "done"), 2, ("No such command 'vrify'", "verify")),
}


def make(folder: Path) -> Path:
    """Make a run file with texts, a finished run and one that was stopped."""
    write_small_corpus(folder)
    (folder / "run.toml").write_text(RUN)
    (folder / "empty").mkdir()
    (folder / "csv" / "headless").mkdir(parents=True)
    (folder / "csv" / "semicolons.csv").write_text("id;lang;text\n1;en;It rained all day.\n")
    (folder / "csv" / "headless" / "a.csv").write_text("7,It rained all day.\n8,It snowed all night.\n")
    for output, words in (("done", ()), ("half", ("--until", "dedup"))):
        run = called("run", "run.toml", "-o", output, "--workers", "0", "-q", *words, cwd=folder)
        assert run.returncode == 0, run.stderr
    return folder


def told(mistake: Mistake, folder: Path) -> tuple[int, str]:
    """Make a mistake; return the exit code, and the message without the lines of usage."""
    result = called(*mistake.words, cwd=folder)
    lines = [
        line for line in result.stderr.splitlines() if line and not line.startswith(("Usage", "Try"))
    ]
    return result.returncode, "\n".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mistakes are made."""
    return make(tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_one_message(name: str, folder: Path) -> None:
    code, message = told(MISTAKES[name], folder)
    assert code == MISTAKES[name].code
    assert len(message.splitlines()) == 1, message
    for part in MISTAKES[name].told:
        assert part in message, message
    for leaked in ("Traceback", "pydantic", "Input should", "Errno", "NoneType"):
        assert leaked not in message


def main() -> None:
    """Print the message of each mistake."""
    with tempfile.TemporaryDirectory() as name:
        place = make(Path(name))
        for what, mistake in MISTAKES.items():
            code, message = told(mistake, place)
            said = f"## {what}\n$ shardmill {' '.join(mistake.words)}\n{message}  [{code}]\n"
            sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()
