"""Standings of contestants that took turns: what each turn cost, medians, ratios and tables.

A ratio is taken within each turn, theirs divided by ours, so what disturbed the machine in a turn
disturbed both; above 1 ours cost less.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contestants import Counts, Side
from contests import digits, min_max
from process_cost import Cost

MEGA = 1e6


@dataclass(frozen=True)
class TurnCost:
    """What one turn of a contestant cost, all of its commands together."""

    turn: int
    cpu_seconds: float
    wall_seconds: float
    peak_mib: float
    commands: tuple[Cost, ...] = ()
    """What each command cost by itself."""


@dataclass
class Standing:
    """All turns of a contestant."""

    name: str
    side: Side
    versions: dict[str, str]
    text_bytes: int
    """Of the texts that it is given."""
    counts: Counts | None = None
    """What it wrote."""
    turns: list[TurnCost] = field(default_factory=list)
    error: str | None = None
    """Why it takes no further turn."""

    def figures(self) -> dict[str, Any]:
        """Return all of it for a report."""
        counts = self.counts or Counts(0, None)
        return {
            "name": self.name,
            "side": str(self.side),
            "versions": self.versions,
            "text_bytes": self.text_bytes,
            "documents": counts.documents,
            "tokens": counts.tokens,
            "error": self.error,
            "turns": [asdict(turn) for turn in self.turns],
        }


@dataclass(frozen=True)
class Spread:
    """A median, and the least and the greatest."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        """Return all three in three digits."""
        return f"{digits(self.median)} ({digits(self.least)} to {digits(self.greatest)})"


@dataclass(frozen=True)
class CostRatio:
    """What another costs, as a multiple of one of ours."""

    ours: str
    against: str
    cpu: Spread
    wall: Spread


def spread(values: Iterable[float]) -> Spread:
    """Return the median, the least and the greatest of some values, at least one."""
    held = list(values)
    return Spread(statistics.median(held), *min_max(held))


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """Return the order of a turn: each begins with the next one.

    a b c -> a b c, b c a, c a b, a b c
    """
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def cost_ratios(standings: Sequence[Standing]) -> list[CostRatio]:
    """Return the ratios of each of ours to each peer and limit, over turns that both took."""
    ours = [standing for standing in standings if standing.side == Side.OURS]
    others = [standing for standing in standings if standing.side in (Side.PEER, Side.LIMIT)]
    found = []
    for one in ours:
        for other in others:
            costs = {turn.turn: turn for turn in one.turns}
            pairs = [(turn, costs[turn.turn]) for turn in other.turns if turn.turn in costs]
            if pairs and not (one.error or other.error):
                cpu = spread(a.cpu_seconds / max(b.cpu_seconds, 1e-9) for a, b in pairs)
                wall = spread(a.wall_seconds / max(b.wall_seconds, 1e-9) for a, b in pairs)
                found.append(CostRatio(one.name, other.name, cpu, wall))
    return found


def costs_table(standings: Iterable[Standing]) -> str:
    """Return the costs of all contestants as a table in Markdown; the failed ones say why."""
    lines = ["| contestant | versions | documents | tokens | CPU s | MB/CPU s | wall s | peak MiB |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for standing in standings:
        versions = ", ".join(f"{name} {number}" for name, number in standing.versions.items())
        lines.append(f"| {standing.name} | {versions} | {' | '.join(_cells(standing))} |")
    return "\n".join(lines)


def _cells(standing: Standing) -> list[str]:
    """Return what a standing's row shows behind its name and versions."""
    if standing.error is not None or not standing.turns or standing.counts is None:
        reason = (standing.error or "no turn").replace("|", "/")
        return [f"failed: {reason}", *[""] * 5]
    cpu = spread(turn.cpu_seconds for turn in standing.turns)
    peak = spread(turn.peak_mib for turn in standing.turns)
    tokens = standing.counts.tokens
    return [
        f"{standing.counts.documents:,}",
        "-" if tokens is None else f"{tokens:,}",
        str(cpu),
        digits(standing.text_bytes / MEGA / max(cpu.median, 1e-9)),
        str(spread(turn.wall_seconds for turn in standing.turns)),
        f"{peak.greatest:,.0f}" if peak.greatest else "-",
    ]


def ratios_table(ratios: Iterable[CostRatio]) -> str:
    """Return the ratios as a table in Markdown."""
    lines = ["| against | of | its CPU : ours | its wall : ours |", "|---|---|---:|---:|"]
    lines += [f"| {row.against} | {row.ours} | {row.cpu} | {row.wall} |" for row in ratios]
    return "\n".join(lines)
