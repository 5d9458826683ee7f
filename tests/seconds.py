"""What each test costs, and the list of slow ones, which do not grow unseen.

A whole run (`make test`) notes the CPU seconds of every test, and compares those of slow ones with the
list. It fails if one takes more than twice what the list says and 1.5 s besides, or if one that is not
there takes more than 1.7 s. Machines differ: what the list says is multiplied by how much longer its
tests take here, in the median. What a fixture of the whole session takes is nobody's.
`benchmarks/tiers.py` shows what is noted, and writes the list.
"""

import json
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

GROWN = 9
"""Exit code where all tests passed, and one takes longer than the list says: none is run again."""
SLOW = Path(__file__).with_name("slow.json")
"""Seconds of the tests that take a tenth of a second or more."""
CACHED = "tiers/seconds"
"""Under which the cache of pytest keeps what was noted."""
LEAST, _GROWTH, _ROOM = 0.1, 2.0, 1.5
"""Seconds from which a test is slow; how many times those of the list it may take; seconds besides."""
_ENOUGH = 0.8
"""The part of the listed tests that must have run, or it was no whole run."""
_QUICK = ("tests/stages/", "tests/pipeline/", "tests/docs/")


def _cpu() -> float:
    return sum(os.times()[:4])


@dataclass(eq=False)
class Seconds:
    """A plugin that notes what each test costs, in the process that runs it and in the one that asks.

    Attributes:
        known: CPU seconds of each test, by its id.
        quick: those of the quick tier.
    """

    known: dict[str, float] = field(default_factory=dict)
    quick: set[str] = field(default_factory=set)
    grown: list[str] = field(default_factory=list)
    _shared: float = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: "pytest.FixtureDef[object]"
    ) -> Generator[None, object, object]:
        """Count apart what is made for the whole session."""
        if fixturedef.scope != "session":
            return (yield)
        begun, shared = _cpu(), self._shared
        try:
            return (yield)
        finally:
            self._shared = shared + _cpu() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count all of a test but what is made for the session."""
        slow = item.get_closest_marker("slow") or item.get_closest_marker("long")
        item.user_properties.append(("quick", not slow))
        self._begun, self._shared, self._cost = _cpu(), 0.0, 0.0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: "pytest.CallInfo[None]"
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send with the last report of a test what it cost up to the end of its call."""
        report = yield
        if call.when == "call":  # what is torn down after the last test of all is the session's
            self._cost = round(_cpu() - self._begun - self._shared, 2)
        if call.when == "teardown":
            report.user_properties = [*item.user_properties, ("cpu", self._cost)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a test cost."""
        if report.when == "teardown":
            told = dict(report.user_properties)
            self.known[report.nodeid] = float(str(told.get("cpu", 0)))
            if told.get("quick") and report.nodeid.startswith(_QUICK):
                self.quick.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep what the tests of a whole run cost, and fail if one has grown."""
        slow = listed()
        whole = len(slow.keys() & self.known) >= _ENOUGH * len(slow)
        traced = session.config.pluginmanager.has_plugin("_cov")  # some tests take four times as long
        if hasattr(session.config, "workerinput") or not whole or traced:
            return
        if cache := getattr(session.config, "cache", None):
            cache.set(CACHED, {"all": self.known, "quick": sorted(self.quick)})
        self.grown = list(grown(self.known, slow)) if slow else []
        if self.grown and session.exitstatus == 0:
            session.exitstatus = GROWN

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests have grown."""
        for line in self.grown:
            terminalreporter.write_line(line, red=True)


def listed() -> dict[str, float]:
    """Return the slow list: CPU seconds of each test that is on it, by its id."""
    found: dict[str, float] = json.loads(SLOW.read_text("utf-8"))
    return found


def grown(known: dict[str, float], slow: dict[str, float]) -> Iterator[str]:
    """Yield a line for each test that costs more than it may.

    Args:
        known: CPU seconds of each test of a whole run.
        slow: those of the slow list.
    """
    both = slow.keys() & known
    here = median(known[name] / slow[name] for name in both) if both else 1.0
    for name, seconds in sorted(known.items()):
        may = here * (_GROWTH * slow.get(name, LEAST) + _ROOM)
        if seconds > may:
            said = f"{slow[name]:.1f} s" if name in slow else "not there"
            yield (
                f"SLOW: {name} takes {seconds:.1f} CPU s, and may take {may:.1f} on this machine "
                f"(tests/slow.json: {said}). Make it cheaper, or a campaign; or accept it with "
                "`python benchmarks/tiers.py --write`, and say why"
            )
