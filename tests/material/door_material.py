"""What the campaigns on the command line share: a small run, calls in this process, ways out taken."""

import contextlib
import io
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from digests import differences, file_digests

from pipeline.cli import app
from pipeline.commands.boundary import exit_code_of
from pipeline.system.stopping import Signals
from tests.material.words import WORDS

SIZES = """
[tokenizer.train]
vocab_size = 620

[validation]
fraction = 0.1

[packing]
seq_len = 64
shards = 1
"""
"""Of a run over few documents: its ids, rows and shards."""
RUN_FILE = f"""
[[sources]]
name = "s"
paths = ["corpus/*.jsonl"]
language = {{ column = "lang" }}

[ingest]
unit_size = "4KiB"
min_chars = 1

[dedup.minhash]
num_perm = 16

{SIZES}
[[datasets]]
name = "clm"
materialized_epochs = 1

[verify]
learning = false
"""
DOCUMENTS = 60
SPOKEN = (0, 2, 3, 75)
"""Exit codes of a command that says what is wrong; 1 is for what it did not foresee."""


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The error in one line, or nothing."""
        lines = [line for line in self.err.splitlines() if line.startswith("shardmill: ")]
        return lines[-1].removeprefix("shardmill: ") if lines else ""

    @property
    def has_traceback(self) -> bool:
        """Whether a traceback was shown, or left in a file."""
        return "Traceback" in self.err + self.out or "unexpected error" in self.err


def write_material(folder: Path) -> Path:
    """Write a corpus of 60 documents and a run file over it; return the run file."""
    (folder / "corpus").mkdir(parents=True)
    for part in range(2):
        with (folder / "corpus" / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(part, DOCUMENTS, 2):
                words = [WORDS[(number * 7 + k * (number + 3)) % len(WORDS)] for k in range(40)]
                record = {"text": f"{number}: {' '.join(words)}.", "lang": ("en", "de")[number % 2]}
                file.write(json.dumps(record) + "\n")
    run_file = folder / "run.toml"
    run_file.write_text(RUN_FILE, encoding="utf-8")
    return run_file


def shardmill(*arguments: str | Path) -> Answer:
    """Call a command in this process, through the boundary of the command line."""
    out, err = io.StringIO(), io.StringIO()
    words = [str(argument) for argument in arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = exit_code_of(lambda: app(words, prog_name="shardmill"), Signals())
    return Answer(code, out.getvalue(), err.getvalue())


def run_command(run_file: Path, output: Path, *options: str) -> list[str | Path]:
    """Return the words of a run in this process."""
    return ["run", run_file, "-o", output, "--workers", "0", *options]


def export_command(output: Path, to: Path) -> list[str | Path]:
    """Return the words of an export."""
    return ["export", output, "--dataset", "clm", "--format", "nanogpt", "--to", to]


def take_way_out(line: str) -> bool:
    """Do what a message tells a user to do before the next call; say whether it told any."""
    for pattern in (
        r"delete the folder (\S+) and run again",
        r"delete (/\S+), or choose another --to",
        r"^(/[^:]+): .*; delete it and run the run file again",
        r"^(/[^:]+): .*; move it away and run again",
    ):
        found = re.search(pattern, line)
        if found:
            _remove(Path(found[1]))
            return True
    return any(told in line for told in ("run again", "run the run file again", "run `shardmill"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def wrong_bytes(output: Path, reference: Path) -> list[str]:
    """Return the artifacts of a run that are not those of the reference."""
    return differences(file_digests(output), file_digests(reference))


def shown(line: str, folders: Sequence[Path]) -> str:
    """Return a message without the folders of this campaign."""
    for folder in folders:
        line = line.replace(str(folder), "DIR")
    return line
