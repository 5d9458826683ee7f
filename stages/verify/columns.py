"""Columns: what is wrong with the columns of a shard's rows, counted part by part.

A kind's own laws say what must hold of every row (stages/objectives/laws/). Each row of a mixture is
held to its component's laws. What was drawn by lot is counted of rows that break none, and must lie
within 5 sigmas.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from stages.findings import Finding
from stages.objectives.laws.draws import Draws, LawResult
from stages.objectives.laws.rows import LAWS
from stages.objectives.laws.shown import ShownRows
from stages.objectives.mixture.kind import count_documents
from stages.objectives.rows import Columns, StoredRows
from stages.objectives.table import components_of, kind_of, weighted_components
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary

IDS = ("input_ids", "decoder_input_ids", "original_ids")
"""Columns of ids; a trainer looks each of them up."""


def count_outside(columns: Columns, vocabulary: Vocabulary) -> int:
    """Count ids that are none of a vocabulary's."""
    ids = [columns[name] for name in IDS if name in columns]
    return sum(int(np.count_nonzero((part < 0) | (part >= vocabulary.size))) for part in ids)


def count_draws(draws: Draws, objective: Objective, rows: ShownRows) -> None:
    """Count what was drawn of some rows, those of a composite by the laws of their components."""
    parts = weighted_components(objective)
    if not parts:
        kind_of(objective).draws(draws, objective, rows)
        return
    ids = [columns["objective_id"] for columns in rows.epochs]
    for found in ids:
        draws.exact("objective_id is as laid out", found != rows.stored.components)
    for number, (name, _, part) in enumerate(parts):
        chosen = np.flatnonzero(ids[0] == number)
        if len(chosen):
            count_draws(draws.within(f"{name}: "), part, rows.take(chosen))


class DrawCounter:
    """What was drawn of the rows of one objective, shard by shard.

    Args:
        objective: as the manifest has it.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._counted = Draws()
        self._shard: object = None

    def add(self, rows: ShownRows) -> None:
        """Count the next rows."""
        if rows.shard is not self._shard:
            self._shard = rows.shard
            self._counted.close_shard()
            parts = weighted_components(self._objective)
            if parts:
                count_documents(self._counted, parts, rows.shard)
        count_draws(self._counted, self._objective, rows)

    def lines(self) -> list[LawResult]:
        """Return all laws of which anything was counted."""
        self._counted.close_shard()
        return self._counted.lines()


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
        self._draws = DrawCounter(objective)

    def add(self, stored: StoredRows, columns: Columns) -> bool:
        """Look at the next rows, as stored and as the loader gives them; say whether they are sound."""
        before = self._wrong.total()
        parts = components_of(self._objective)
        for number, part in enumerate(parts):
            chosen = np.flatnonzero(columns["objective_id"] == number)
            some = {name: column[chosen] for name, column in columns.items()}
            self._add(stored.take(chosen), some, part)
        if not parts:
            self._add(stored, columns, self._objective)
        return self._wrong.total() == before

    def _add(self, stored: StoredRows, columns: Columns, objective: Objective) -> None:
        for law, rows in kind_of(objective).laws(stored, columns, objective, self._vocabulary):
            self._wrong[law] += int(np.count_nonzero(rows))

    def watch(self, parts: Iterable[ShownRows]) -> Iterator[ShownRows]:
        """Return rows as they come, each looked at."""
        for rows in parts:
            sound = [self.add(rows.stored, columns) for columns in rows.epochs]
            outside = sum(count_outside(columns, self._vocabulary) for columns in rows.epochs)
            if all(sound) and not outside:
                self._draws.add(rows)
            yield rows

    def findings(self) -> list[Finding]:
        """Return what was found."""
        found = [
            Finding(law, f"{count:,} {LAWS.get(law, f'rows that break the law {law}')}")
            for law, count in self._wrong.items()
            if count
        ]
        return found + [Finding("draws", str(line)) for line in self._draws.lines() if not line.passed]
