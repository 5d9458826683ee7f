r"""A campaign of inputs that change while a run reads them: nothing may be lost in silence.

    python benchmarks/changing_inputs.py WORK [--moments 60] [--megabytes 9] [--seed 1] [--json FILE]

Each case is one file of a corpus, in one format, local or behind a web server on the loopback, to which
something happens at one moment of a run up to ingest: it is truncated, emptied, shrunk to fewer records,
replaced by another of its size, rewritten with one bit flipped, appended to, or deleted; or its server
drops connections, sends half of what it says, or is unavailable. The moment is right after a commit: of
the scan, or of the first units of ingest, so it is the same whenever the case is run again. Some cases
change a file from outside while the command line runs.

A case is *silent* if the run ended as if nothing had happened, with documents that an undisturbed run
does not have or without some that it has. Otherwise it is *refused* (2), *stopped* (75) or *unharmed*:
what changed was read before, or is not read at all. Then the file is put back, and the same command must
finish with the files of a run that nobody disturbed. Of every local case that was refused, the change is
made once more and meant: a run must name what is stale and, with `--replace`, give what a new run over
the changed corpus gives, or refuse the file as that one does. A trial is one case.
"""

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import cycle, product
from pathlib import Path
from typing import Any

from commit_hook import CommitHook
from trial_lines import Trials, add_trial_options, conduct

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.errors import ShardmillError, Stopped
from tests.material.changing_files import CHANGES, FORMATS, make_texts
from tests.material.changing_server import FAULTS, FolderServer, serving

UNIT_BYTES = 1 << 20
POLL = 0.005
PATIENCE = 120.0
"""Longest run of the command line, in seconds."""
AFTER_UNITS = (0, 1, 3)
"""Units of ingest committed before the change; 0 is right after the scan."""


@dataclass(frozen=True)
class Case:
    """One change at one moment."""

    format: str
    change: str
    after: int
    """Units of ingest committed before."""
    server: bool = False
    stamps: bool = True
    outside: bool = False
    """Whether the command line runs, and the change comes from outside."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    case: Case
    kind: str
    """silent, refused, stopped, unharmed, traceback, or late: the run was over before the change."""
    message: str
    finished: bool
    """Whether the same command finished with the files of an undisturbed run, once the file was back."""
    meant: str
    """What came of the change made on purpose: same, refused, other, or not tried."""


class Corpus:
    """Two files of one format, and what they are when nobody disturbs them.

    Args:
        folder: for the files.
        kind: their format.
        texts: what stands in both.
    """

    def __init__(self, folder: Path, kind: str, texts: Sequence[str]) -> None:
        self.folder = folder
        self.kind = kind
        half = len(texts) // 4
        self.texts = {f"a.{kind}": texts[:half], f"b.{kind}": texts[half:]}
        self.data = {name: FORMATS[kind](own) for name, own in self.texts.items()}
        self.restore()

    @property
    def victim(self) -> Path:
        """Return the file that changes: the second, so that the first is read before it."""
        return self.folder / f"b.{self.kind}"

    def restore(self) -> None:
        """Put every file back."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.data.items():
            path = self.folder / name
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)

    def change(self, name: str) -> None:
        """Let something happen to the victim, in place, as `cp` would do it."""
        victim = self.victim
        changed = CHANGES[name](self.kind, self.texts[victim.name], self.data[victim.name])
        if changed is None:
            victim.unlink()
        else:
            victim.write_bytes(changed)


def run_file(paths: str, kind: str) -> RunFile:
    """Return a run over one source, as cheap as reading allows."""
    source: dict[str, Any] = {"name": "s", "paths": [paths]}
    if kind.startswith("txt"):
        source["text_split"] = "blank_line"
    return RunFile.model_validate(
        {
            "sources": [source],
            "ingest": {"unit_size": UNIT_BYTES},
            "dedup": {"near": False},
            "datasets": [{"name": "clm"}],
        }
    )


def attempt(run: RunFile, output: Path, *, replace: bool = False) -> tuple[str, str]:
    """Run up to ingest in this process; return how it ended, and the message."""
    request = RunRequest(run, output.parent, output, 0, until="ingest", replace=replace)
    try:
        run_session(request, stream=None)
    except Stopped as error:
        return "stopped", str(error)
    except ShardmillError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001  # that there is none is what is shown
        return "traceback", f"{type(error).__name__}: {error}"
    return "done", ""


def documents(output: Path) -> dict[str, str]:
    """Return the digests of ingest's files."""
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((output / "ingest").rglob("*"))
        if path.is_file()
    }


class Campaign:
    """Runs cases in a folder.

    Args:
        folder: for corpora and runs.
        size: bytes of text of a corpus.
        seed: of its texts.
    """

    def __init__(self, folder: Path, *, size: int, seed: int) -> None:
        self._folder = folder
        self._texts = make_texts(size, seed)
        self._hook = CommitHook()
        self._whole: dict[str, dict[str, str]] = {}
        self._corpora: dict[str, Corpus] = {}

    def run(self, case: Case) -> Outcome:
        """Run one case and look at what came of it."""
        corpus = self._corpus(case.format)
        output = self._folder / "run"
        shutil.rmtree(output, ignore_errors=True)
        with ExitStack() as stack:
            server = None
            paths = f"{corpus.folder}/*"
            if case.server:
                server = stack.enter_context(serving(corpus.folder, stamps=case.stamps))
                paths = f"{server.url}/"
            run = run_file(paths, case.format)
            if server is not None:
                run = self._by_names(run, server, corpus)
            kind, message = self._disturbed(case, run, corpus, output, server)
            if kind == "done":
                kind = "unharmed" if documents(output) == self._whole[case.format] else "silent"
            corpus.restore()
            if server is not None:
                server.fault = None
            again, _ = attempt(run, output)
            finished = again == "done" and documents(output) == self._whole[case.format]
            meant = "not tried"
            if kind == "refused" and not case.server:
                meant = self._meant(case, run, corpus, output)
        return Outcome(case, kind, message, finished, meant)

    def _by_names(self, run: RunFile, server: FolderServer, corpus: Corpus) -> RunFile:
        """Name a server's files one by one: it lists none."""
        paths = tuple(f"{server.url}/{name}" for name in corpus.data)
        source = run.sources[0].model_copy(update={"paths": paths})
        return run.model_copy(update={"sources": (source,)})

    def _corpus(self, kind: str) -> Corpus:
        if kind not in self._corpora:
            corpus = self._corpora[kind] = Corpus(self._folder / kind, kind, self._texts)
            output = self._folder / "whole" / kind
            ended = attempt(run_file(f"{corpus.folder}/*", kind), output)
            if ended[0] != "done":
                raise SystemExit(f"{kind}: an undisturbed run did not finish: {ended[1]}")
            self._whole[kind] = documents(output)
            shutil.rmtree(output)
        return self._corpora[kind]

    def _disturbed(
        self, case: Case, run: RunFile, corpus: Corpus, output: Path, server: FolderServer | None
    ) -> tuple[str, str]:
        def happen() -> None:
            if server is not None and case.change in FAULTS:
                server.fault = case.change
            else:
                corpus.change(case.change)

        if case.outside:
            return self._from_outside(case, run, output, happen)
        with self._hook.after(case.after, happen):
            ended = attempt(run, output)
            return ("late", "") if self._hook.waiting else ended

    def _from_outside(
        self, case: Case, run: RunFile, output: Path, happen: Callable[[], None]
    ) -> tuple[str, str]:
        """Run the command line, and change the file once enough units are committed."""
        toml = self._folder / "run.toml"
        source = run.sources[0]
        toml.write_text(
            f'[[sources]]\nname = "s"\npaths = {json.dumps(list(source.paths))}\n'
            f'text_split = "{source.text_split}"\n[ingest]\nunit_size = {UNIT_BYTES}\n'
            '[dedup]\nnear = false\n[[datasets]]\nname = "clm"\n'
        )
        command = [sys.executable, "-m", "pipeline.main", "run", str(toml), "--output", str(output)]
        command += ["--workers", "0", "--until", "ingest"]
        process = subprocess.Popen(  # noqa: S603  # our own command line
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        folder = output / "commits" / ("ingest" if case.after else "scan")
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            if folder.exists() and len(list(folder.glob("[!_]*.json"))) >= max(1, case.after):
                happen()
                break
            time.sleep(POLL)
        late = process.poll() is not None
        _, errors = process.communicate(timeout=PATIENCE)
        if late:
            return "late", ""
        lines = [line for line in errors.splitlines() if line.startswith("shardmill: ")]
        kinds = {0: "done", 2: "refused", 75: "stopped"}
        kind = "traceback" if "Traceback" in errors else kinds.get(process.returncode, "traceback")
        return kind, lines[0] if lines else ""

    def _meant(self, case: Case, run: RunFile, corpus: Corpus, output: Path) -> str:
        """Make the change on purpose in the finished run, as the message says, and compare."""
        corpus.change(case.change)
        ended = attempt(run, output, replace=True)
        fresh = self._folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        expected = attempt(run, fresh)
        corpus.restore()
        if ended[0] != expected[0]:
            return "other"
        if ended[0] == "done":
            return "same" if documents(output) == documents(fresh) else "other"
        return "refused" if ended[0] == "refused" else "other"


def all_cases() -> list[Case]:
    """Return every case, in a fixed order."""
    local = [Case(kind, change, after) for kind, change, after in product(FORMATS, CHANGES, AFTER_UNITS)]
    served = [
        Case(kind, change, after, server=True, stamps=stamps)
        for kind, change, after, stamps in product(
            FORMATS, (*CHANGES, *FAULTS), AFTER_UNITS, (True, False)
        )
    ]
    outside = [Case(kind, change, 2, outside=True) for kind, change in product(FORMATS, CHANGES)]
    return [*local, *served, *outside]


def choose_cases(count: int, seed: int) -> list[Case]:
    """Return some cases: of all formats, changes and ways in turn, six from outside of each sixty."""
    generator = random.Random(seed)  # noqa: S311  # a choice of cases, no secret
    cases = all_cases()
    generator.shuffle(cases)
    kinds = [
        [case for case in cases if not case.server and not case.outside],
        [case for case in cases if case.server],
        [case for case in cases if case.outside],
    ]
    turns = cycle([0, 1, 0, 1, 0, 1, 0, 1, 0, 2])
    chosen: list[Case] = []
    seen: Counter[str] = Counter()
    for turn in turns:
        if len(chosen) == count or not kinds[turn]:
            return chosen
        case = min(kinds[turn], key=lambda c: (seen[c.format] + seen[c.change], kinds[turn].index(c)))
        kinds[turn].remove(case)
        seen.update((case.format, case.change))
        chosen.append(case)
    return chosen


def problems(outcome: Outcome) -> list[str]:
    """Return what is wrong with an outcome."""
    found = []
    if outcome.kind in ("silent", "traceback"):
        found.append(f"{outcome.kind}: {outcome.message}")
    if not outcome.finished:
        found.append("the same command did not finish like an undisturbed run")
    if outcome.meant == "other":
        found.append("with --replace the run is not a new run over the changed corpus")
    if outcome.kind in ("refused", "stopped") and "sources.s: " not in outcome.message:
        found.append(f"the message names no file: {outcome.message}")
    return found


def told(outcome: Outcome) -> str:
    """Return an outcome in one line, and its problems below."""
    case = outcome.case
    where = "server" if case.server else "outside" if case.outside else "local"
    line = (
        f"{case.format:<10}{where:<8}{case.change:<12}after {case.after} units  {outcome.kind:<10}"
        f"{'finished' if outcome.finished else 'NOT FINISHED':<13}{outcome.meant}"
    )
    return "\n  ".join([line, *problems(outcome)])


def outcome_of(result: dict[str, Any]) -> Outcome:
    """Return the outcome of a trial."""
    return Outcome(**{**result, "case": Case(**result["case"])})


def body(trials: Trials, given: argparse.Namespace) -> int:
    """Run the campaign and print its table."""
    size = int(given.megabytes * 1e6)
    campaign = cache(lambda: Campaign(trials.new_folder(), size=size, seed=given.seed))
    outcomes = []

    def do(case: Case) -> dict[str, Any]:
        return asdict(campaign().run(case))

    for number, case in enumerate(choose_cases(given.moments, given.seed)):
        result = trials.trial(
            str(number),
            partial(do, case),
            failed=lambda one: bool(problems(outcome_of(one))),
        )
        outcomes.append(outcome_of(result))
        print(told(outcomes[-1]), flush=True)
    counts = Counter(outcome.kind for outcome in outcomes)
    print(f"\n{len(outcomes)} moments: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    print(
        f"silent losses {counts['silent']}, tracebacks {counts['traceback']}, not finished"
        f" {sum(not outcome.finished for outcome in outcomes)}"
    )
    return int(any(problems(outcome) for outcome in outcomes))


def main() -> int:
    """Do the campaign as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--moments", type=int, default=60)
    parser.add_argument("--megabytes", type=float, default=9.0)
    parser.add_argument("--seed", type=int, default=1)
    add_trial_options(parser)
    given = parser.parse_args()
    settings = {name: getattr(given, name) for name in ("moments", "megabytes", "seed")}
    return conduct(lambda trials: body(trials, given), given, settings, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
