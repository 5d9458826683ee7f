"""Evidence in a report: how much of it was made again, and what earlier generations hold out.

Joined: what validation holds because an earlier generation or run holds out its clusters.

record of the split -> a line for status and for the report, and a warning if it is much
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.report.report import Report, SeenEvidence
from pipeline.steps.decode.step import DECODE
from pipeline.steps.records import AuditReport, sum_looked
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Records
from pipeline.steps.verify.step import VERIFY

_NAMED = 5
"""Keys without data that are named."""


def evidence_of(records: Records, audited: AuditReport | None) -> SeenEvidence | None:
    """Return how much of the evidence was looked at; None before a check did."""
    decoded = records.get(DECODE)
    verdicts = records.datasets(VERIFY).values()
    looked = [one for verdict in verdicts for one in verdict.looked]
    lacking = {key for verdict in verdicts for key in verdict.lacking}
    if decoded is not None:
        looked[:0] = decoded.looked
        lacking.update(decoded.lacking)
    if audited is not None:
        looked += audited.looked
    return SeenEvidence(looked=sum_looked(looked), lacking=tuple(sorted(lacking))) if looked else None


def evidence_lines(evidence: SeenEvidence | None) -> Iterator[str]:
    """Yield for people how many of how many were looked at."""
    if evidence is None:
        return
    tasks = [one for one in evidence.looked if one.unit == "tasks"]
    looked, of = sum(one.looked for one in tasks), sum(one.of for one in tasks)
    yield f"evidence: {looked:,} of {of:,} tasks of finished steps were done again and compared"
    for one in evidence.looked:
        if one.unit != "tasks" and one.of:
            yield f"  {one.what}: {one.looked:,} of {one.of:,} {one.unit}"
    if evidence.lacking:
        named, more = evidence.lacking[:_NAMED], len(evidence.lacking) - _NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"  not checked, since an earlier version did not write it: {', '.join(named)}{rest}"


_MUCH = 0.01
"""Share of the tokens of a generation above which it is warned of."""

AmountsBySource = Mapping[str, Mapping[str, int]]
"""Documents and tokens, by source."""


def line_of(joined: AmountsBySource) -> str:
    """Say how many documents and tokens joined validation, in all and by source."""
    sources = ", ".join(
        f"{name}: {_amounts(one['documents'], one['tokens'])}" for name, one in sorted(joined.items())
    )
    return (
        f"validation: {_total(joined)} are held out because an earlier generation or run holds out their"
        f" clusters ({sources})"
    )


def joined_in(report: Report) -> str | None:
    """Say it of a report; None if no document joined."""
    joined = {} if report.split is None else by_source(report.split)
    return line_of(joined) if joined else None


def joined_in_folder(folder: Path) -> AmountsBySource:
    """Return what the commit of the split of a run says; nothing if it is not made, or damaged."""
    commits = RunFolder(folder).commits
    commit = commits.whole(SPLIT.name) if commits.is_whole(SPLIT.name) else None
    return {} if commit is None else by_source(commit.read(SplitRecord))


def by_source(split: SplitRecord) -> AmountsBySource:
    """Return documents and tokens that joined, by source."""
    return {
        name: {"documents": one.documents, "tokens": one.tokens} for name, one in split.joined.items()
    }


def joined_warning(split: SplitRecord | None, tokens: int) -> str | None:
    """Warn of much that joined validation, and name the largest cluster.

    Args:
        split: the record of the split, if it is made.
        tokens: of all documents of the generation, those of validation too; 0 if it is not known.
    """
    if split is None or not tokens:
        return None
    joined, largest = sum(one.tokens for one in split.joined.values()), split.largest_joined
    if joined <= _MUCH * tokens or largest is None:
        return None
    return (
        f"validation: {_total(by_source(split))} ({joined / tokens:.2%} of this generation, more than"
        f" {_MUCH:.0%}) are held out because an earlier generation or run holds out their clusters. They"
        f" do not count to validation.max_tokens. The largest cluster is {largest.cluster} with"
        f" {_amounts(largest.documents, largest.tokens)}; `shardmill inspect DIR --document"
        f" {largest.document}` shows one of them. If its texts are not alike, raise"
        " dedup.minhash.threshold, or cut the text that they share with dedup.lines"
    )


def _total(joined: AmountsBySource) -> str:
    documents, tokens = (sum(one[key] for one in joined.values()) for key in ("documents", "tokens"))
    return _amounts(documents, tokens)


def _amounts(documents: int, tokens: int) -> str:
    return f"{documents:,} document{'' if documents == 1 else 's'}, {tokens:,} tokens"
