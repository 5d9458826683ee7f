r"""State files damaged in every way: no command ends in a traceback, and every way out works.

    python benchmarks/damaged_state.py WORK --cases 300 --seed 1 --json damaged.jsonl

A state file is what a run or an export keeps of itself: commits of units and of steps, run.json,
status.json, the log, the lock, verdicts, the report, an export's summary and journal. WORK must not be
there; a small run and its export are made in it. Each case copies them, damages one file, calls one
command, does what its message tells a user to do, and calls the run and the command again.

Passes if no command showed a traceback or ended with exit code 1, every second call of the
command gave 0, and the artifacts are those of the undamaged run. A trial is one case.
"""

import itertools
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from trial_lines import Trials, campaign_main, has_faults

from tests.material.door_material import (
    SPOKEN,
    Answer,
    export_command,
    run_command,
    shardmill,
    shown,
    take_way_out,
    write_material,
    wrong_bytes,
)

COMMANDS = ("run", "plan", "status", "verify", "inspect", "export")
MAX_STEPS_OUT = 4
"""Messages that a user follows, one after the other, before a way out counts as none."""
Damage = Callable[[Path], None]


def _rewrite(change: Callable[[bytes], bytes]) -> Damage:
    def damage(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return damage


def _twice(data: bytes) -> bytes:
    """Let the first key of the first object stand twice."""
    content = data.lstrip()
    if not content.startswith(b'{"') and not content.startswith(b"{\n"):
        return b'{"state": 1, "state": 2}'
    key = content[content.index(b'"') : content.index(b":")]
    return b"{" + key + b": 0, " + content[1:]


def _without_a_key(data: bytes) -> bytes:
    content = _json(data)
    if isinstance(content, dict) and content:
        content.pop(next(iter(content)))
    return json.dumps(content).encode()


def _of_another_type(data: bytes) -> bytes:
    content = _json(data)
    if not isinstance(content, dict):
        return b'{"state": []}'
    return json.dumps(dict.fromkeys(content, 7)).encode()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:  # of lines, or of none
        return {}


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x", encoding="utf-8")


DAMAGES: dict[str, Damage] = {
    "missing": Path.unlink,
    "empty": _rewrite(lambda _: b""),
    "cut": _rewrite(lambda data: data[: len(data) // 2]),
    "no JSON": _rewrite(lambda data: data + b"}"),
    "no UTF-8": _rewrite(lambda data: data[:2] + b"\xff\xfe" + data[2:]),
    "zeros": _rewrite(lambda data: bytes(len(data))),
    "a list": _rewrite(lambda _: b"[1, 2]"),
    "null": _rewrite(lambda _: b"null"),
    "an empty object": _rewrite(lambda _: b"{}"),
    "other types": _rewrite(_of_another_type),
    "a key less": _rewrite(_without_a_key),
    "a key twice": _rewrite(_twice),
    "nested deep": _rewrite(lambda _: b"[" * 200_000),
    "not a number": _rewrite(lambda _: b'{"state": NaN}'),
    "a folder": _folder,
}


@dataclass
class Material:
    """A finished run, its export, and one that was stopped."""

    run_file: Path
    run: Path
    export: Path

    @classmethod
    def make(cls, work: Path) -> "Material":
        """Make them in a folder."""
        run_file = write_material(work)
        made = cls(run_file, work / "run", work / "export")
        for command in (run_command(run_file, made.run), export_command(made.run, made.export)):
            answer = shardmill(*command)
            if answer.code:
                raise RuntimeError(f"{answer.line}: the material cannot be made")
        partial = work / "export.partial"
        partial.mkdir()
        summary = json.loads((made.export / "export.json").read_text(encoding="utf-8"))
        (partial / "parts.jsonl").write_text(json.dumps(summary["identity"]) + "\n", encoding="utf-8")
        return made

    def state_files(self) -> list[str]:
        """Return the state files, each relative to the folder of all; of a step's units one."""
        root = self.run.parent
        commits = sorted(self.run.glob("commits/*/*.json"))
        units = [path for path in commits if path.name != "_step.json"]
        one_each = {path.parent.name: path for path in reversed(units)}.values()
        others = ("run.json", "status.json", "log.jsonl", "lock", "report/report.json")
        paths = [
            *(path for path in commits if path.name == "_step.json"),
            *one_each,
            *(self.run / name for name in others),
            self.run / "verify" / "clm" / "verdict.json",
            self.export / "export.json",
            root / "export.partial" / "parts.jsonl",
        ]
        return [path.relative_to(root).as_posix() for path in paths]


@dataclass
class Case:
    """One damage and what came of it."""

    file: str
    damage: str
    command: str
    code: int = 0
    line: str = ""
    steps_out: int = 0
    faults: list[str] = field(default_factory=list)
    """What should not be; a case without any is good."""


def words_of(command: str, material: Material, folder: Path) -> list[str | Path]:
    """Return the words of a command over a copy of the material."""
    output = folder / "run"
    if command == "run":
        return run_command(material.run_file, output)
    if command == "export":
        return export_command(output, folder / "export")
    others: dict[str, list[str | Path]] = {
        "plan": ["plan", material.run_file, "-o", output],
        "status": ["status", output],
        "verify": ["verify", output, "--workers", "0"],
        "inspect": ["inspect", output, "--dataset", "clm"],
    }
    return others[command]


def do_case(case: Case, material: Material, folder: Path) -> None:
    """Damage a copy, call, follow the messages, call again, and compare."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(material.run.parent, folder, ignore=shutil.ignore_patterns("corpus", "case"))
    if case.file.startswith("export.partial"):
        shutil.rmtree(folder / "export")  # or there would be nothing to go on with
    DAMAGES[case.damage](folder / case.file)
    words = words_of(case.command, material, folder)
    first = shardmill(*words)
    case.code, case.line = first.code, shown(first.line, [folder])
    _judge(case, first, case.command)
    answer = first
    run = words_of("run", material, folder)
    while answer.code and case.steps_out < MAX_STEPS_OUT:
        case.steps_out += 1
        replace = ["--replace"] if "--replace" in answer.line else []
        if not replace and not take_way_out(answer.line):
            case.faults.append(f"no way out: {shown(answer.line, [folder])}")
            break
        again = shardmill(*run, *replace)
        _judge(case, again, "run")
        answer = again if again.code else shardmill(*words)
    if answer.code:
        case.faults.append(f"ends with {answer.code}: {shown(answer.line, [folder])}")
    for words_ in (run, words_of("verify", material, folder)):
        _judge(case, shardmill(*words_), str(words_[0]))
    if wrong := wrong_bytes(folder / "run", material.run):
        case.faults.append(f"other bytes: {wrong[0]}")


def _judge(case: Case, answer: Answer, command: str) -> None:
    if answer.has_traceback:
        case.faults.append(f"{command}: traceback: {answer.err[-2000:]}")
    elif answer.code not in SPOKEN:
        case.faults.append(f"{command}: exit code {answer.code}")
    elif answer.code and not answer.line:
        case.faults.append(f"{command}: exit code {answer.code} and nothing said")


def cases_of(files: Sequence[str], number: int, seed: int) -> Iterator[Case]:
    """Return cases, every file and every damage in turn, each with a command that falls to it."""
    chance = random.Random(seed)  # noqa: S311  # which command, no secret
    pairs = list(itertools.product(files, DAMAGES))
    chance.shuffle(pairs)
    for turn, (file, damage) in enumerate(itertools.islice(itertools.cycle(pairs), number)):
        yield Case(file, damage, COMMANDS[turn % len(COMMANDS)])


def tried(turn: int, case: Case, material: Callable[[], Material]) -> dict[str, Any]:
    """Do a case in a folder beside the material, and return what came of it."""
    folder = material().run.parent.with_name("case")
    do_case(case, material(), folder)
    shutil.rmtree(folder)
    if case.faults:
        print(f"{turn:>4} {case.command} after {case.file}: {case.damage}: {case.faults}", flush=True)
    return asdict(case)


def campaign(trials: Trials, *, number: int, seed: int) -> dict[str, Any]:
    """Do a campaign, and return what came of it."""
    material = cache(lambda: Material.make(trials.new_folder() / "material"))
    files = trials.fact("state files", lambda: material().state_files())
    cases = [
        trials.trial(
            str(turn),
            partial(tried, turn, case, material),
            failed=has_faults,
        )
        for turn, case in enumerate(cases_of(files, number, seed), 1)
    ]
    faults = [case["faults"] for case in cases]
    return {
        "cases": len(cases),
        "files": len({case["file"] for case in cases}),
        "damages": len({case["damage"] for case in cases}),
        "codes": dict(sorted(Counter(case["code"] for case in cases).items())),
        "tracebacks": sum(any("traceback" in fault for fault in found) for found in faults),
        "wrong_bytes": sum(any("other bytes" in fault for fault in found) for found in faults),
        "dead_ends": sum(any("no way out" in f or "ends with" in f for f in found) for found in faults),
        "faulty": [case for case in cases if case["faults"]],
        "messages": sorted({case["line"] for case in cases if case["line"]}),
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=300)


if __name__ == "__main__":
    sys.exit(main())
