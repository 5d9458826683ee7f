"""Recount: keep masks and evidence against the ledger, the texts and the items."""

import numpy as np
import pyarrow as pa

from pipeline.engine.tasks import Workspace
from pipeline.steps.decontaminate.decide import REASON, GroupTexts, shown
from pipeline.steps.decontaminate.gather import EVIDENCE
from pipeline.steps.decontaminate.index import open_index, open_items
from pipeline.steps.evidence import rows_of_unit
from pipeline.steps.records import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, recounted
from pipeline.steps.selection import DEDUP_NAME, as_kept_by, recount_kept
from pipeline.steps.units import kept_mask, row_groups, tally_of_texts
from stages.decontamination.tables import Verdict
from stages.decontamination.words import words_of
from stages.findings import Finding
from stages.ledger import Tally


def recount_unit(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count the documents that a unit's mask lets through, and hold its evidence to the texts."""
    kept = recount_kept(workspace, work)
    found = recounted((EVIDENCE, lambda: _evidence(workspace, work)))
    return CheckRecord(findings=(*kept.findings, *found.findings))


def _evidence(workspace: Workspace, work: UnitRecount) -> Found:
    """Compare dropped documents with the evidence, and each row of it with the document and the item."""
    unit = work.unit
    rows = rows_of_unit(workspace, EVIDENCE, unit)
    verdicts = np.array(rows.column("verdict").to_pylist(), object)
    dropped = np.unique(rows.column("number").to_numpy()[verdicts == Verdict.DROPPED]) - unit.first
    before = kept_mask(workspace, as_kept_by(unit, DEDUP_NAME))
    gone = np.flatnonzero(before & ~kept_mask(workspace, unit))
    if not np.array_equal(dropped, gone):
        message = (
            f"names {len(dropped):,} documents of unit {unit.name} as dropped, and {len(gone):,} are"
            " gone by its keep mask, or they are others"
        )
        yield EVIDENCE, Finding("ledger", message)
    sums = Tally(bytes=0)
    items = _items(workspace) if rows.num_rows else None
    for group, (first, table) in enumerate(row_groups(workspace, unit, ["id", "text_bytes"])):
        own = dropped[(dropped >= first - unit.first) & (dropped < first - unit.first + table.num_rows)]
        sums += tally_of_texts(table.take(pa.array(own - (first - unit.first))))
        texts = GroupTexts(workspace, unit, group)
        numbers = rows.column("number").to_numpy()
        here = rows.filter(pa.array((numbers >= first) & (numbers < first + table.num_rows)))
        for row in here.to_pylist():
            text = texts[row["number"] - first][row["begin"] : row["end"]]
            id_found = table.column("id")[row["number"] - first].as_py().hex()
            assert items is not None, "there is evidence"
            place = items.numbers.get((row["set"], row["item"]))
            if id_found != row["id"] or shown(text) != row["matched"] or place is None:
                message = f"document {row['id']} does not hold the words that it names"
                yield EVIDENCE, Finding("contaminated", message)
            elif not items.hold(place, text.decode(errors="replace")):
                message = f"item {row['item']:,} of {row['set']} does not hold {row['matched'][:80]!r}"
                yield EVIDENCE, Finding("contaminated", message)
    yield from differs(EVIDENCE, sums, work.flow.gone.get(REASON, Tally()), what=f"unit {unit.name}")


def _items(workspace: Workspace) -> "_Items":
    """Return the words of the items; a worker opens them once."""
    return workspace.cached(_Items.__name__, lambda: _Items(workspace))


class _Items:
    """The words of the items, from the index.

    Args:
        workspace: where the index is.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._index = open_index(workspace).index
        table = open_items(workspace)
        names = zip(table.column("set").to_pylist(), table.column("item").to_pylist(), strict=True)
        self.numbers = {name: number for number, name in enumerate(names)}
        """Of each item, by set and place in it."""

    def hold(self, item: int, text: str) -> bool:
        """Say whether the words of a text stand in a passage of an item, one after the other.

        A character at an end may be several words, such as a fraction, of which only some need to.
        """
        words = words_of(text)
        before, after = (max(len(words_of(end)) - 1, 0) for end in (text[:1], text[-1:]))
        return any(
            self._hold(item, words[start : len(words) - less])
            for start in range(before + 1)
            for less in range(after + 1)
        )

    def _hold(self, item: int, words: list[str]) -> bool:
        first, last = np.searchsorted(self._index.passages.item, (item, item + 1))
        wanted = f" {' '.join(words)} "
        return bool(words) and any(
            wanted in f" {' '.join(self._passage(n))} " for n in range(first, last)
        )

    def _passage(self, number: int) -> list[str]:
        known, begin, end = self._index.vocabulary, *self._index.passages.ptr[number : number + 2]
        return [
            "".join(map(chr, known.codes[known.ptr[word] : known.ptr[word + 1]].tolist()))
            for word in self._index.grams.stream[begin:end].tolist()
        ]
