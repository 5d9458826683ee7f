r"""Readers that go: whoever reads a stream of a command stops at many moments; codes and bytes stay.

    python benchmarks/gone_readers.py WORK --cases 200 --json readers.jsonl

WORK must not be there; a small run is made in it. Each case calls a command with one of its streams in
a pipe, reads a share of what the undisturbed call says there, and closes its end: `2>&1 | head`, a log
shipper that died. The commands are a run, one that is resumed, verify, export, quick and a forecast.

Passes if each call ended with the code of the undisturbed one, made the same bytes, and said nothing of
the stream. A trial is one case.
"""

import os
import shutil
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from damaged_state import Material
from digests import differences, file_digests
from run_processes import ended_with_block
from trial_lines import Record, Trials, campaign_main, has_faults

from pipeline.cli import app
from pipeline.commands.boundary import exit_code_of
from pipeline.system.standard_streams import prepare_standard_streams
from pipeline.system.stopping import Signals
from tests.material.door_material import export_command, run_command

STREAMS = {"stdout": 1, "stderr": 2}
COMMANDS = ("run", "resume", "verify", "export", "quick", "plan")


@dataclass
class Case:
    """One stream of a command, closed at a moment."""

    command: str
    stream: str
    share: float
    """Of what the undisturbed call says there, how much is read."""
    code: int = 0
    read: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Undisturbed:
    """What a call gives if all that it says is read."""

    code: int
    said: int
    """Bytes on the stream."""
    digests: dict[str, str]


def prepare(command: str, material: Material, folder: Path) -> list[str | Path]:
    """Lay out what a command finds, and return its words."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    output = folder / "run"
    if command not in ("run", "quick"):
        shutil.copytree(material.run, output)
    if command == "resume":
        for step in ("shard-clm", "draw-clm", "decode", "verify-clm"):
            shutil.rmtree(output / "commits" / step)
    tokenizer = material.run / "tokenizer" / "tokenizer.model"
    corpus = material.run_file.parent / "corpus" / "0.jsonl"
    quick: list[str | Path] = ["quick", corpus, "--tokenizer", tokenizer, "--format", "nanogpt"]
    words: dict[str, list[str | Path]] = {
        "run": run_command(material.run_file, output),
        "resume": run_command(material.run_file, output),
        "verify": ["verify", output, "--workers", "0"],
        "export": export_command(output, folder / "export"),
        "quick": [*quick, "--to", folder / "export", "--work", folder / "work", "--workers", "0"],
        "plan": ["plan", material.run_file, "-o", output, "--sample", "1"],
    }
    return words[command]


def called(words: list[str | Path], stream: str, most: int | None) -> tuple[int, int]:
    """Call a command in a fork of this process; return its code, and how many bytes were read.

    Args:
        words: of the command.
        stream: the one that is read; the other leads nowhere.
        most: bytes after which the reader goes; None is all.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        for name, number in STREAMS.items():
            os.dup2(writing if name == stream else null, number)
        os.close(writing)
        os._exit(_code_of(words))
    os.close(writing)
    read = 0
    with ended_with_block(child):
        while most is None or read < most:
            part = os.read(reading, min(1 << 16, (1 << 16) if most is None else most - read))
            if not part:
                break
            read += len(part)
        os.close(reading)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), read


def _code_of(words: list[str | Path]) -> int:
    """Do in this process what the program's main module does, with streams of its own."""
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)
    prepare_standard_streams()
    return exit_code_of(lambda: app(list(map(str, words)), prog_name="shardmill"), Signals())


def made_in(folder: Path) -> dict[str, str]:
    """Return the digests of what a command made: of a run, and of an export."""
    export = sorted(path for path in (folder / "export").rglob("*.bin") if path.is_file())
    made = {path.name: sha256(path.read_bytes()).hexdigest() for path in export}
    return file_digests(folder / "run") | made


def undisturbed(command: str, stream: str, material: Material) -> Undisturbed:
    """Call a command and read all that it says on a stream."""
    folder = _folder_beside(material)
    code, said = called(prepare(command, material, folder), stream, None)
    assert code == 0, f"{command} fails undisturbed"
    return Undisturbed(code, said, made_in(folder))


def tried(case: Case, whole: Undisturbed, material: Material) -> dict[str, Any]:
    """Do a case, and return what came of it."""
    folder = _folder_beside(material)
    words = prepare(case.command, material, folder)
    case.code, case.read = called(words, case.stream, int(case.share * whole.said))
    if case.code != whole.code:
        case.faults.append(f"exit code {case.code}, not {whole.code}")
    if wrong := differences(made_in(folder), whole.digests):
        case.faults.append(f"other bytes: {wrong[0]}")
    if case.faults:
        print(f"{case.command}, {case.stream} after {case.read} bytes: {case.faults}", flush=True)
    shutil.rmtree(folder)
    return asdict(case)


def _folder_beside(material: Material) -> Path:
    return material.run.parent.with_name("case")


def campaign(trials: Trials, *, number: int, seed: int) -> dict[str, Any]:
    """Do a campaign, and return what came of it; moments are spread evenly: `seed` decides nothing."""
    del seed
    material = cache(lambda: Material.make(trials.new_folder() / "material"))
    moments = max(1, number // (len(COMMANDS) * len(STREAMS)))

    @cache
    def whole(command: str, stream: str) -> Undisturbed:
        name = f"undisturbed: {command}, {stream}"
        return Undisturbed(**trials.fact(name, lambda: asdict(undisturbed(command, stream, material()))))

    cases = []
    for command, stream, moment in product(COMMANDS, STREAMS, range(moments)):

        def do(command: str = command, stream: str = stream, share: float = moment / moments) -> Record:
            return tried(Case(command, stream, share), whole(command, stream), material())

        name = f"{command}, {stream}, {moment} of {moments}"
        cases.append(trials.trial(name, do, failed=has_faults))
    return {
        "cases": len(cases),
        "moments": moments,
        "codes": dict(sorted(Counter(case["code"] for case in cases).items())),
        "faulty": [case for case in cases if case["faults"]],
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=240)


if __name__ == "__main__":
    sys.exit(main())
