"""Reporting: what DIR/report says while a run is at work, when it stops and when it ends.

A report speaks of what is committed. So the old one goes before anything is made anew, and a run that
stops leaves one that says why.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline.report.content import RunReport
from pipeline.report.summary import remove_report
from pipeline.system.stopping import reason_of, tidying


@contextmanager
def reported(output: Path, write: Callable[[str | None], RunReport]) -> Iterator[None]:
    """Remove the old report; if the work inside stops, leave one that says why.

    Args:
        output: folder of the run.
        write: writes the report of all that is done, given the reason of a stop.
    """
    remove_report(output)
    try:
        yield
    except BaseException as error:
        with tidying():
            try:
                write(reason_of(error))
            except Exception:  # noqa: BLE001  # what stopped the run matters more: it is raised below
                remove_report(output)
        raise


def with_generations(report: RunReport, later: Mapping[str, RunReport]) -> RunReport:
    """Return the report of a folder: one verdict over all its generations."""
    if not later:
        return report
    verdicts = [one["passed"] for one in (report, *later.values())]
    passed = None if None in verdicts else all(verdicts)
    return {**report, "passed": passed, "generations": dict(later)}


def outcome_of(report: RunReport) -> str:
    """Say in one word how a session ended."""
    return {True: "done", False: "failed verification", None: "stopped as asked"}[report["passed"]]
