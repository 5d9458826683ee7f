"""The tokens of a run counted by hand: in the token store, in the rows of datasets, in their books.

What each document must be there follows from its texts and the library of the tokenizer's file alone.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.loading.dataset import open_dataset
from tests.laws.combinations import FORMS, FRAMINGS, KEEPS, Combination, of_rows
from tests.laws.counted_by_hand import Outcome, books_of
from tests.laws.mixed_by_hand import Copies
from tests.laws.shapes import SHAPES
from tests.laws.small_tokenizers import TOKENIZERS, Library

_NO_LOSS = -100
_LEARNED, _MARKUP, _ALONE = 1, 2, 8


@dataclass(frozen=True)
class Expected:
    """What a run must hold of a document."""

    sections: tuple[tuple[int, ...], ...]
    """Ids of each section, with what frames the document."""
    has_loss: tuple[bool, ...]
    """Of each section, where a loss is on targets alone."""
    is_dialogue: bool
    kept: dict[str, str | None]
    """What goes along with it: "record.url" and its value."""

    @property
    def ids(self) -> list[int]:
        """All of its ids."""
        return [number for part in self.sections for number in part]

    @property
    def targets(self) -> list[bool]:
        """Of each id whether it has a loss, where that is on targets alone."""
        pairs = zip(self.sections, self.has_loss, strict=True)
        return [said for part, said in pairs for _ in part]


@dataclass(frozen=True)
class Frame:
    """The ids around rows, one or none on a side; none at all if documents have them."""

    begin: Sequence[int] = ()
    end: Sequence[int] = ()

    @property
    def manifested(self) -> dict[str, int] | None:
        """What a manifest says of it."""
        sides = (("begin", self.begin), ("end", self.end))
        return {side: number for side, ids in sides for number in ids} or None


Wanted = Mapping[str, Expected]
"""Documents by their ids in hex."""


class Encoding:
    """The ids of a combination's documents, from the library of the tokenizer's file.

    Args:
        chosen: the combination.
        path: of its tokenizer.
    """

    def __init__(self, chosen: Combination, path: Path) -> None:
        templates = [SHAPES[source.shape].template for source in chosen.sources]
        markup = {piece for one in templates if one is not None for piece in one.pieces}
        known, self._library = TOKENIZERS[chosen.tokenizer], Library(path, markup=markup)
        library = self._library
        roles = known.framing(FRAMINGS[chosen.framing])
        assert roles is not None
        begins = [library.number(known.pieces[role]) for role in roles[:1] if role is not None]
        self._end, rows = [library.number(known.pieces[roles[1]])], of_rows(chosen.framing)
        self.frame = Frame(begins, self._end) if rows else Frame()
        self._begin = [] if rows else begins
        self._kept = {name: KEEPS[source.keep] for name, source in chosen.named}

    def expected(self, one: Outcome) -> Expected:
        """Return what a run must hold of a document."""
        flags = one.written.flags
        parts = self._sections(one.texts, flags or (0,) * len(one.texts))
        parts[0] = [*self._begin, *parts[0]]
        parts[-1] = [*parts[-1], *self._end]
        last = len(parts) - 1
        names, values = self._kept[one.written.source], one.written.kept or {}
        return Expected(
            tuple(map(tuple, parts)),
            tuple(bool(flag & _LEARNED) for flag in flags) or tuple(n == last for n in range(last + 1)),
            bool(flags),
            {f"record.{name}": values[name] for name in names},
        )

    def _sections(self, texts: Sequence[str], flags: Sequence[int]) -> list[list[int]]:
        """Return the ids of the sections of a document; a piece of markup that is set apart is its id.

        What continues a text has no space that a tokenizer puts before texts.
        """
        found, begins = [], True
        for text, flag in zip(texts, flags, strict=True):
            begins = begins or bool(flag & _ALONE)
            ids: list[int] = []
            for atom in self._library.atoms(text) if flag & _MARKUP else [text]:
                is_id = isinstance(atom, int)
                ids += [atom] if isinstance(atom, int) else self._library.encode(atom, begins=begins)
                begins = is_id
            found.append(ids)
        return found


def _kept_in(row: Mapping[str, Any], kept: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return what goes along with a document in a table; what its source does not keep is null there."""
    names = [name for name in row if name.startswith("record.")]
    assert all(row[name] is None for name in names if name not in kept)
    return {name: row[name] for name in names if name in kept}


def check_kept(run: Path, wanted: Wanted, replayed: Wanted) -> None:
    """Hold what goes along with documents to their records, from table to table."""
    every = {**wanted, **replayed}
    for pattern, number in (
        ("ingest/*/*", "hex"),
        ("tokens/*/*", "hex"),
        ("datasets/*/*/epoch-0000/*", ""),
    ):
        seen = 0
        for path in sorted(run.glob(f"{pattern}/documents.parquet")):
            for row in pq.read_table(path).to_pylist():
                name = row["id"].hex() if number else row["id"]
                if name in every:
                    assert _kept_in(row, every[name].kept) == every[name].kept
                    seen += 1
        assert seen >= len(wanted) or not number, "a mix leaves out documents of the store"


def check_store(run: Path, wanted: Wanted) -> None:
    """Hold the token store to the ids of the library."""
    seen: Counter[str] = Counter()
    for folder in sorted(path.parent for path in run.glob("tokens/*/*/ids.npy")):
        ids, offsets = np.load(folder / "ids.npy"), np.load(folder / "offsets.npy")
        rows = pq.read_table(folder / "documents.parquet").column("id").to_pylist()
        found = {path.stem: np.load(path).tolist() for path in folder.glob("sections/*.npy")}
        for number, (name, (first, last)) in enumerate(
            zip(rows, pairwise(offsets.tolist()), strict=True)
        ):
            one = wanted[name.hex()]
            assert ids[first:last].tolist() == one.ids
            inside = slice(*found["ptr"][number : number + 2]) if found else slice(0)
            own = found["ends"][inside] if found else [last - first]
            assert own == list(accumulate(map(len, one.sections)))
            assert ("learned" in found) == one.is_dialogue
            assert not one.is_dialogue or found["learned"][inside] == list(one.has_loss)
            seen[name.hex()] += 1
    assert seen == Counter(wanted.keys())


@dataclass
class Tokens:
    """What is counted in the rows of a dataset."""

    held: int = 0
    """Of documents."""
    cut: int = 0
    framing: int = 0
    """That stand around rows."""


@dataclass(frozen=True)
class Piece:
    """What a row holds of a document, with what stands around the row there."""

    row: int
    start: int
    stop: int
    doc: int
    offset: int
    is_first: bool
    is_last: bool
    """Of its row."""


def check_rows(dataset: Path, wanted: Wanted, frame: Frame, *, form: str, copies: Copies) -> Tokens:
    """Hold the rows of a dataset to the ids of its documents; return what is counted in them.

    Args:
        dataset: its folder.
        wanted: the documents.
        frame: of its rows.
        form: of its objective.
        copies: that it must have of each.
    """
    seen: Copies = Counter()
    total = Tokens()
    for path in sorted(dataset.glob("*/dataset.json")):
        manifest = json.loads(path.read_text())
        before, labels = replace(total), []
        for shard in sorted(one.parent for one in path.parent.glob("epoch-0000/*/input_ids.npy")):
            listed = pq.read_table(shard / "documents.parquet")
            names = listed.column("id").to_pylist()
            seen.update(zip(names, listed.column("copy").to_pylist(), strict=True))
            marked = _check_shard(shard, [wanted[name] for name in names], frame, manifest, total)
            labels.append(_labels(shard, marked, FORMS[form]))
        counted = manifest["totals"]
        framing = total.framing - before.framing
        assert manifest.get("row_frame") == frame.manifested
        assert counted.get("frame_tokens", 0) == framing
        assert counted["tokens"] == total.held - before.held + framing
        assert counted["tokens_cut"] == total.cut - before.cut
        if FORMS[form]["kind"] == "clm" and counted["rows"]:
            opened = open_dataset(dataset, split=path.parent.name, shuffle=False)
            found = opened.batch(np.arange(len(opened)))["labels"]
            assert np.array_equal(found, np.concatenate(labels))
    assert seen == copies
    return total


@dataclass(frozen=True)
class Marked:
    """What is known of each position of the rows of a shard, (R, L) each."""

    ids: NDArray[np.integer]
    own: NDArray[np.bool_]
    """Holds a token of a document."""
    target: NDArray[np.bool_]
    """Holds a target's token."""
    added: NDArray[np.bool_]
    """Holds an end that no document has there."""
    first: NDArray[np.bool_]
    """Begins a piece."""
    filled: NDArray[np.bool_]


def _check_shard(
    shard: Path, documents: Sequence[Expected], frame: Frame, manifest: Mapping[str, Any], total: Tokens
) -> Marked:
    """Hold the rows of a shard to its documents, and add what they hold to what is counted."""
    ids = np.load(shard / "input_ids.npy")
    own, target, added, first, filled = (np.zeros(ids.shape, np.bool_) for _ in range(5))
    places: Counter[int] = Counter()
    pieces = sorted(_pieces(shard, len(ids)), key=lambda piece: (piece.doc, piece.offset))
    for piece in pieces:
        row, whole = piece.row, documents[piece.doc].ids
        assert not filled[row, piece.start : piece.stop].any(), "no token stands in two pieces"
        filled[row, piece.start : piece.stop] = first[row, piece.start] = True
        start, stop = piece.start, piece.stop
        if piece.is_first and frame.begin:
            assert [ids[row, start]] == frame.begin
            start += 1
        if piece.is_last and frame.end:
            assert [ids[row, stop - 1]] == frame.end
            goes_on = piece.offset + stop - start - 1 < len(whole) - 1
            added[row, stop - 1] = goes_on
            stop -= goes_on
        assert start < stop, "no piece is empty"
        assert piece.offset == places[piece.doc], "every token once, in order"
        assert ids[row, start:stop].tolist() == whole[piece.offset : piece.offset + stop - start]
        own[row, start:stop] = True
        said = documents[piece.doc].targets[piece.offset : piece.offset + stop - start]
        target[row, start:stop] = said
        places[piece.doc] += stop - start
    assert (ids[~filled] == manifest["special_ids"]["pad"]).all()
    if frame.end:
        assert np.load(shard / "added_end.npy").tolist() == added.any(axis=1).tolist()
    assert (shard / "added_end.npy").exists() == bool(frame.end)
    total.held += int(own.sum())
    total.framing += int(filled.sum() - own.sum())
    total.cut += sum(len(one.ids) for one in documents) - int(own.sum())
    return Marked(ids, own, target, added, first, filled)


def _pieces(shard: Path, rows: int) -> Iterator[Piece]:
    row_ptr, start, length, doc, offset = (
        np.load(shard / "segments" / f"{name}.npy").tolist()
        for name in ("row_ptr", "start", "length", "doc", "doc_offset")
    )
    assert len(row_ptr) == rows + 1
    for row, (first, last) in enumerate(pairwise(row_ptr)):
        for number in range(first, last):
            stop = start[number] + length[number]
            ends = (number == first, number == last - 1)
            yield Piece(row, start[number], stop, doc[number], offset[number], *ends)


def _labels(shard: Path, marked: Marked, objective: Mapping[str, Any]) -> NDArray[np.int32]:
    """Return the labels that rows must have, if their objective is clm; hold its mask to the targets."""
    has_loss = marked.filled & ~marked.added
    if objective.get("loss") == "targets":
        assert np.array_equal(np.load(shard / "loss_mask.npy"), marked.target)
        has_loss = marked.target
    else:
        assert not (shard / "loss_mask.npy").exists()
    if objective.get("mask_first_token"):
        has_loss = has_loss & ~marked.first
    return np.where(has_loss, marked.ids.astype(np.int32), np.int32(_NO_LOSS))


def check_books_of_rows(run: Path, name: str, wanted: Wanted, tokens: Tokens, copies: Copies) -> None:
    """Hold the ledger of a dataset to copies and tokens counted by hand."""
    books = books_of(run, f"shard-{name}")
    count = sum(len(one.ids) for one in wanted.values())
    stores = [step for step in ("tokenize", "replay") if (run / "ledger" / f"{step}.parquet").exists()]
    assert sum(books_of(run, step).output["tokens"] for step in stores) == count
    assert books.input["tokens"] == count
    further = [document for document, copy in copies.elements() if copy]
    out = [document for document in wanted if (document, 0) not in copies]
    added, gone = books.added.get("copies", Counter()), books.gone.get("mix", Counter())
    assert added["tokens"] == sum(len(wanted[one].ids) for one in further)
    assert gone["tokens"] == sum(len(wanted[one].ids) for one in out)
    assert (added["documents"], gone["documents"]) == (len(further), len(out))
    assert count + added["tokens"] - gone["tokens"] == tokens.held + tokens.cut
    assert books.output["tokens"] == tokens.held
    assert books.gone["cut"]["tokens"] == tokens.cut
    assert books.input["documents"] == len(wanted)
    assert books.output["documents"] == copies.total()
