"""The books of a run kept by hand: what became of every record and every token, from the files alone.

Nothing that checks runs in the program is asked. The filters' own judges are, one by one, since other
tests hold them to other libraries.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from stages.cleaning.text import clean_text
from stages.filtering.filter import Change, Document, FilterConfig, Judge, Removal
from stages.filtering.table import filter_of
from stages.identity import document_id
from stages.ledger import id_sum
from tests.laws.combinations import Combination
from tests.laws.given_records import Written
from tests.laws.run_contents import filters_of

Chain = list[tuple[str, Judge, tuple[str, ...]]]
"""Labels, filters and the columns that they read."""
_AMOUNTS = ("documents", "bytes", "tokens", "rows")


@dataclass(frozen=True)
class Outcome:
    """What becomes of a record."""

    written: Written
    reason: str | None
    """Why it goes; None if it is a document."""
    texts: tuple[str, ...] = ()
    """Its sections, cleaned."""
    language: str = ""

    @property
    def id(self) -> bytes:
        """The id of the record."""
        return document_id(self.written.source, self.written.path, self.written.position)

    @property
    def text(self) -> str:
        """All of its sections."""
        return "".join(self.texts)


def chain_of(chosen: Combination, source: str, base: Path) -> Chain:
    """Return the filters of a source, opened one by one."""
    found: Chain = []
    for label, config in filters_of(chosen, source):
        known = filter_of(config)
        resolved: FilterConfig = known.resolve(config, base, label)
        found.append((label, known.open(resolved), known.columns(config)))
    return found


def outcome_of(written: Written, chain: Chain, *, min_chars: int) -> Outcome:
    """Return what must become of a record."""
    if written.reason is not None:
        return Outcome(written, written.reason)
    texts = tuple(map(clean_text, written.texts))
    visible = sum(len(part) for text in texts for part in text.split())
    if visible < min_chars or not (written.flags or all(text.split() for text in texts)):
        return Outcome(written, "empty" if visible == 0 or visible >= min_chars else "too_short")
    found = Outcome(written, None, texts, written.language)
    for label, judge, columns in chain:
        language = None if found.language == "und" else found.language
        values = {name: (written.values or {})[name] for name in columns}
        text = found.text
        verdict = judge(Document(text.encode(), len(text), language, values))
        if isinstance(verdict, Removal):
            return Outcome(written, f"{label}.{verdict.rule}")
        found = _changed(found, verdict)
        if not found.text.split():
            return Outcome(written, f"{label}.empty")
    return found


def _changed(found: Outcome, verdict: Change | None) -> Outcome:
    if verdict is not None and verdict.language is not None:
        found = replace(found, language=verdict.language)
    if verdict is not None and verdict.text is not None:
        assert len(found.texts) == 1, "the ends of sections would move"
        found = replace(found, texts=(clean_text(verdict.text.decode()),))
    return found


def rows_below(run: Path, pattern: str) -> list[dict[str, Any]]:
    """Return the rows of all tables of a run that match, in the order of their names."""
    return [row for path in sorted(run.glob(pattern)) for row in pq.read_table(path).to_pylist()]


def check_records(run: Path, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Hold documents and drops to the records that were written; return the documents."""
    dropped = Counter(
        (row["source"], row["path"], row["position"], row["reason"])
        for row in rows_below(run, "ingest/*/*/drops.parquet")
    )
    kept = Counter(
        (row["id"], row["path"], row["position"], row["own_id"], row["language"], row["text"])
        for row in rows_below(run, "ingest/*/*/documents.parquet")
    )
    gone = [(one.written, one.reason) for one in outcomes if one.reason is not None]
    documents = [one for one in outcomes if one.reason is None]
    assert dropped == Counter((w.source, w.path, w.position, reason) for w, reason in gone)
    assert kept == Counter(
        (one.id, w.path, w.position, w.own_id, one.language, one.text)
        for one, w in ((one, one.written) for one in documents)
    )
    rows = {row["id"]: row for row in rows_below(run, "ingest/*/*/documents.parquet")}
    for one in documents:
        row = rows[one.id]
        assert row.get("section_ends", [len(one.text)]) == list(accumulate(map(len, one.texts)))
        assert row.get("section_flags", []) == list(one.written.flags)
    return documents


def check_duplicates(
    run: Path, documents: Sequence[Outcome], before: "Sequence[Known]", *, exact: bool, near: bool
) -> list[Outcome]:
    """Hold removals to documents that stay, here or in an earlier run; return those that stay here.

    Args:
        run: its folder.
        documents: that it reads.
        before: what runs have that it is compared with.
        exact: whether equal texts are removed.
        near: whether similar ones are.
    """
    own = {one.id.hex(): one for one in documents}
    old = {one.id.hex(): one for known in before for one in known.left}
    removed = rows_below(run, "dedup/removed.parquet")
    names = Counter(row["id"] for row in removed)
    assert not names or max(names.values()) == 1
    left = [one for one in documents if one.id.hex() not in names]
    assert len(left) == len(documents) - len(removed)
    for row in removed:
        gone, stays = own[row["id"]], {**old, **own}[row["kept_id"]]
        assert row["kept_id"] not in names
        assert (row["own_id"], row["source"]) == (gone.written.own_id, gone.written.source)
        assert near or gone.text == stays.text
        assert (row.get("kept_run") is not None) == (row["kept_id"] in old)
    if exact:
        assert len({one.text for one in left}) == len(left)
        read = {one.text for known in before for one in known.documents}
        assert read.isdisjoint(one.text for one in left), "an earlier run has the text"
    else:
        assert not removed
    return left


@dataclass(frozen=True)
class Known:
    """What is known of a run that was checked."""

    run: Path
    documents: Sequence[Outcome]
    """That it read."""
    left: Sequence[Outcome]
    held_out: Collection[str]
    """Those left that no dataset trains on, by their ids in hex."""

    @property
    def trained(self) -> list[Outcome]:
        """Those that datasets train on, if their mixes take them."""
        return [one for one in self.left if one.id.hex() not in self.held_out]


@dataclass(frozen=True)
class Books:
    """The flows of a step, in total."""

    input: Counter[str]
    output: Counter[str]
    gone: dict[str, Counter[str]]
    added: dict[str, Counter[str]]


def books_of(run: Path, step: str) -> Books:
    """Return the flows of a step; in each of its units, what comes in must come out or be gone.

    What is added comes in.
    """
    units: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in pq.read_table(run / "ledger" / f"{step}.parquet").to_pylist():
        units[row["unit"]].append({**row, "ids": int(row["ids"], 16)})
    sides: dict[str, Counter[str]] = {"input": Counter(), "output": Counter()}
    reasons: dict[str, dict[str, Counter[str]]] = {
        "gone": defaultdict(Counter),
        "added": defaultdict(Counter),
    }
    for unit, rows in units.items():
        sizes: dict[str, int] = {}
        counted = [row for row in rows if row["side"] not in reasons]
        assert sorted(row["side"] for row in counted) == ["input", "output"]
        for name in (*_AMOUNTS, "ids"):
            if all(row[name] is not None for row in counted):
                sizes[name] = sum(
                    (row[name] or 0) * (1 if row["side"] in ("input", "added") else -1) for row in rows
                )
        sizes["ids"] %= 1 << 128
        assert not any(sizes.values()), f"step {step}, unit {unit}: {sizes}"
        for row in rows:
            amounts = Counter({name: row[name] or 0 for name in (*_AMOUNTS, "ids")})
            kind = row["side"]
            side = reasons[kind][row["reason"]] if kind in reasons else sides[kind]
            side.update(amounts)
    return Books(sides["input"], sides["output"], dict(reasons["gone"]), dict(reasons["added"]))


def ids_of(outcomes: Iterable[Outcome]) -> int:
    """Return the sum of what names records in the ledger."""
    ids = b"".join(one.id for one in outcomes)
    return id_sum(np.frombuffer(ids, np.uint8).reshape(-1, 16))


def check_ledger(
    run: Path, outcomes: Sequence[Outcome], documents: Sequence[Outcome], left: Sequence[Outcome]
) -> None:
    """Hold the ledger, up to the texts that are left, to records counted by hand."""
    ingest, dedup, tokenize = (books_of(run, step) for step in ("ingest", "dedup", "tokenize"))
    for side, wanted in (
        (ingest.input, outcomes),
        (ingest.output, documents),
        (dedup.input, documents),
        (dedup.output, left),
        (tokenize.input, left),
        (tokenize.output, left),
    ):
        assert side["documents"] == len(wanted)
        assert side["ids"] % (1 << 128) == ids_of(wanted)
    reasons = Counter(one.reason for one in outcomes if one.reason is not None)
    assert {reason: books["documents"] for reason, books in ingest.gone.items()} == reasons
    for reason, books in ingest.gone.items():
        assert books["ids"] % (1 << 128) == ids_of(one for one in outcomes if one.reason == reason)
    size = sum(len(one.text.encode()) for one in left)
    assert dedup.output["bytes"] == tokenize.input["bytes"] == size
    assert ingest.output["bytes"] == sum(len(one.text.encode()) for one in documents)
