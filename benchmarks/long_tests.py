"""The tests in their long forms, of which `make test` runs a slice: a line for each file of tests.

    python benchmarks/long_tests.py --jobs 8 --json tests.jsonl
    python benchmarks/long_tests.py tests/laws --json tests.jsonl --continue

A trial is one file of tests: `--continue` leaves out the files that have a line, if they are the same
and nothing else in the tree has changed. All others run in one call of pytest, and a file has its line
when its last test has ended. Exits with 1 if a test failed, or if a file has no line at the end.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trial_lines import Trials, add_trial_options, conduct
from trial_stamps import PRODUCT, ROOT, digest_of, files_in

_FOLDERS = (*PRODUCT, "tests", "benchmarks", "examples", "clients", "docs", "docker", "release")
"""What tests read, beside the files at the root."""
_BEFORE = ("setup", "call")
"""Parts of a test that another follows."""


@dataclass
class FinishedFiles:
    """A plugin of pytest: keeps a line for each file whose tests have all ended.

    Args:
        trials: get the lines.
        digests: of each file.
    """

    trials: Trials
    digests: dict[str, str]
    expected: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Of each file its tests."""
    ended: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    failed: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """See the tests of this process."""
        self.pytest_xdist_node_collection_finished([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """See the tests of a process of xdist, which are the same in each."""
        for name in ids:
            self.expected[_file_of(name)].add(name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See a part of a test end; after the last of a file keep its line."""
        file = _file_of(report.nodeid)
        self.seconds[file] += report.duration
        if report.failed:
            self.failed[file].append(report.nodeid)
        if report.when not in _BEFORE:  # of a process that died, no part is told
            self.ended[file].add(report.nodeid)
            if self.ended[file] >= self.expected[file]:
                self.keep(file)

    def keep(self, file: str) -> None:
        """Keep the line of a file."""
        failed = sorted(set(self.failed[file]))
        result = {"digest": self.digests[file], "tests": len(self.ended[file]), "failed": failed}
        self.trials.add(file, result, failed=bool(failed), seconds=self.seconds[file])


def _file_of(name: str) -> str:
    return name.partition("::")[0]


def files_of_tests(paths: Sequence[str]) -> list[str]:
    """Return the files of tests at some paths, relative to the tree."""
    wholes = [ROOT / path for path in paths or ["tests"]]
    found = [sorted(whole.rglob("test_*.py")) if whole.is_dir() else [whole] for whole in wholes]
    return [path.relative_to(ROOT).as_posix() for files in found for path in files]


def other_files() -> Iterator[Path]:
    """Yield what the tests may read, but for files of tests."""
    yield from (path for path in files_in(_FOLDERS) if not path.match("test_*.py"))
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != ".coverage")


def campaign(trials: Trials, files: Sequence[str], *, jobs: int) -> int:
    """Run the files that have no line, and return the exit code."""
    digests = {file: digest_of([ROOT / file]) for file in files}

    def is_done(file: str) -> bool:
        return file in trials.lines and trials.lines[file].result["digest"] == digests[file]

    waiting = [file for file in files if not is_done(file)]
    if waiting:
        os.environ["SHARDMILL_CAMPAIGN"] = "full"
        plugin = FinishedFiles(trials, digests)
        xdist = ["--numprocesses", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder"]
        words = ["-o", "faulthandler_timeout=0", *(xdist if jobs > 1 else ()), *waiting]
        code = pytest.main(words, plugins=[plugin])
        trials.stop_after_a_signal()
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            for file in waiting:
                if not plugin.expected[file]:
                    plugin.keep(file)
    results: dict[str, Any] = {f: trials.lines[f].result for f in files if is_done(f)}
    failed = [name for result in results.values() for name in result["failed"]]
    missing = [file for file in files if file not in results]
    print(*(f"failed: {name}" for name in failed), *(f"no line: {f}" for f in missing), sep="\n")
    tests = sum(result["tests"] for result in results.values())
    print(f"{len(results)} of {len(files)} files, {tests:,} tests, {len(failed)} failed")
    return int(bool(failed or missing))


def main() -> int:
    """Run the tests that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders [default: tests]")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes [default: 1]")
    add_trial_options(parser)
    given = parser.parse_args()
    os.chdir(ROOT)
    files = files_of_tests(given.paths)
    code = digest_of(other_files())
    return conduct(
        lambda trials: campaign(trials, files, jobs=given.jobs), given, {"files": given.paths}, code=code
    )


if __name__ == "__main__":
    sys.exit(main())
