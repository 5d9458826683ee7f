"""Columns: what is wrong with the columns of a shard's rows, counted part by part.

A kind's own laws say what must hold of every row (stages/objectives/laws/). Each row of a mixture is
held to its component's laws. What is drawn by lot follows the binomial law, within 5 sigma.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from stages.findings import Finding
from stages.objectives.laws.chance import Lot, binomial, deviation
from stages.objectives.laws.rows import LAWS
from stages.objectives.objective import Objective
from stages.objectives.rows import Columns, StoredRows
from stages.objectives.table import components_of, kind_of
from stages.objectives.vocabulary import Vocabulary
from stages.verify.drawn import Items


@dataclass
class _Drawn:
    """How often something happened that is drawn by lot."""

    probability: float
    number: int = 0
    of: int = 0

    def add(self, lot: Lot) -> None:
        self.number += int(np.count_nonzero(lot.happened))
        self.of += int(np.count_nonzero(lot.could))


class ColumnTally:
    """What is wrong with columns, counted part by part; `findings` says it at the end.

    Args:
        objective: as the manifest has it.
        vocabulary: of the tokenizer.
    """

    def __init__(self, objective: Objective, vocabulary: Vocabulary) -> None:
        self._objective = objective
        self._vocabulary = vocabulary
        self._wrong: Counter[str] = Counter()
        self._drawn: dict[tuple[int, str], _Drawn] = {}

    def add(self, stored: StoredRows, columns: Columns) -> None:
        """Look at the next rows, as stored and as the loader gives them."""
        parts = components_of(self._objective)
        if not parts:
            self._add(0, stored, columns, self._objective)
            return
        for number, part in enumerate(parts):
            chosen = np.flatnonzero(columns["objective_id"] == number)
            some = {name: column[chosen] for name, column in columns.items()}
            self._add(number, stored.take(chosen), some, part)

    def _add(self, component: int, stored: StoredRows, columns: Columns, objective: Objective) -> None:
        kind = kind_of(objective)
        for law, rows in kind.laws(stored, columns, objective, self._vocabulary):
            self._wrong[law] += int(np.count_nonzero(rows))
        for lot in kind.lots(columns, objective, self._vocabulary):
            found = self._drawn.setdefault((component, lot.what), _Drawn(lot.probability))
            found.add(lot)

    def watch(self, items: Iterable[Items]) -> Iterator[Items]:
        """Return items as they come, each looked at."""
        for part in items:
            for columns in part.epochs:
                self.add(part.rows, columns)
            yield part

    def findings(self) -> list[Finding]:
        """Return what was found."""
        found = [Finding(law, f"{count:,} {LAWS[law]}") for law, count in self._wrong.items() if count]
        for (_, what), drawn in self._drawn.items():
            mean, variance = binomial(drawn.of, drawn.probability)
            if abs(drawn.number - mean) > deviation(variance):
                law = f"the law says {mean:,.1f} +- {deviation(variance):,.1f}"
                found.append(Finding("rate", f"{drawn.number:,} of {drawn.of:,} {what}; {law}"))
        return found
