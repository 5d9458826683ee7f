"""Evidence in a report: how much of it was made again, and what an old run has no data for."""

from collections.abc import Iterator

from pipeline.report.content import EvidenceContent, LookedContent, RunReport
from pipeline.steps.decode.step import DECODE
from pipeline.steps.findings import AuditReport, sum_looked
from pipeline.steps.step import Records
from pipeline.steps.verify.step import VERIFY

_NAMED = 5
"""Keys without data that are named."""


def add_evidence(report: RunReport, records: Records, audited: AuditReport | None) -> None:
    """Add to a report how much of the evidence was looked at; nothing before a check did."""
    decoded = records.get(DECODE)
    verdicts = records.datasets(VERIFY).values()
    looked = [one for verdict in verdicts for one in verdict.looked]
    lacking = {key for verdict in verdicts for key in verdict.lacking}
    if decoded is not None:
        looked[:0] = decoded.looked
        lacking.update(decoded.lacking)
    if audited is not None:
        looked += audited.looked
    if not looked:
        return
    report["evidence"] = EvidenceContent(
        looked=[
            LookedContent(what=one.what, unit=one.unit, looked=one.looked, of=one.of)
            for one in sum_looked(looked)
        ],
        lacking=sorted(lacking),
    )


def evidence_lines(report: RunReport) -> Iterator[str]:
    """Yield for people how many of how many were looked at."""
    evidence = report.get("evidence")
    if evidence is None:
        return
    tasks = [one for one in evidence["looked"] if one["unit"] == "tasks"]
    looked, of = (sum(one[key] for one in tasks) for key in ("looked", "of"))
    yield f"evidence: {looked:,} of {of:,} tasks of finished steps were done again and compared"
    for one in evidence["looked"]:
        if one["unit"] != "tasks" and one["of"]:
            yield f"  {one['what']}: {one['looked']:,} of {one['of']:,} {one['unit']}"
    if evidence["lacking"]:
        named, more = evidence["lacking"][:_NAMED], len(evidence["lacking"]) - _NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"  not checked, since an earlier version did not write it: {', '.join(named)}{rest}"
