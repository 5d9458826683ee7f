"""Faults of rows as they are stored: their tokens, their segments, whole rows and shards."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stages.store.manifest import SENTENCES
from tests.material.fault_copies import SPLIT, Array, Copy, NoPlaceError, put

Plant = Callable[[Copy], None]
OTHER = 700
"""An ordinary id of every vocabulary here."""


def ids(change: Callable[[Copy, Array], Array | None]) -> Plant:
    """Return a fault that changes ids of rows, but no segment."""
    return lambda copy: copy.change("input_ids", lambda array: change(copy, array))


def _rolled(by: int) -> Plant:
    return ids(lambda _, array: np.roll(array, by, axis=1))


def _place(copy: Copy, array: Array, wanted: Array) -> tuple[int, int]:
    """Return the first place of a document that is no EOS, or is one."""
    inside = np.argwhere(wanted & (array != copy.vocabulary.named("pad")))
    if not len(inside):
        raise NoPlaceError
    row, place = inside[len(inside) // 2]
    return int(row), int(place)


def _one(give: Callable[[Copy], int], *, eos: bool = False) -> Plant:
    """Put an id in the place of one token, or of one EOS."""

    def change(copy: Copy, array: Array) -> None:
        closing = array == copy.vocabulary.named("eos")
        array[_place(copy, array, closing if eos else ~closing)] = give(copy)

    return ids(change)


def _neighbours(copy: Copy, array: Array) -> None:
    special = copy.vocabulary.special(array)
    good = ~special[:, :-1] & ~special[:, 1:] & (array[:, :-1] != array[:, 1:])
    row, place = np.argwhere(good)[len(array)]
    array[row, [place, place + 1]] = array[row, [place + 1, place]]


def _shuffled(copy: Copy, array: Array) -> None:
    parts, rows = copy.segments(), _rows_of(copy)
    number = int(np.argmax(parts["length"]))
    first, length = int(parts["start"][number]), int(parts["length"][number]) - 1
    part = array[rows[number], first : first + length]
    part[:] = np.random.default_rng(0).permutation(part)


def _rows_of(copy: Copy) -> Array:
    row_ptr = copy.segments()["row_ptr"]
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))


def _two_alike(copy: Copy, wanted: Callable[[int, int], bool]) -> tuple[int, int]:
    """Return two segments of one length, of different documents."""
    parts = copy.segments()
    order = np.argsort(parts["length"], kind="stable")
    for a, b in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        alike = parts["length"][a] == parts["length"][b] and parts["doc"][a] != parts["doc"][b]
        if alike and parts["length"][a] > 1 and wanted(a, b):
            return a, b
    raise NoPlaceError


def _exchanged(copy: Copy, array: Array) -> None:
    parts, rows = copy.segments(), _rows_of(copy)
    a, b = _two_alike(copy, lambda a, b: rows[a] != rows[b])
    length = int(parts["length"][a])
    here, there = (
        (rows[n], slice(int(parts["start"][n]), int(parts["start"][n]) + length)) for n in (a, b)
    )
    array[here], array[there] = array[there].copy(), array[here].copy()


def _filled(copy: Copy, array: Array) -> None:
    array[array == copy.vocabulary.named("pad")] = OTHER


def _border(*, offsets: bool) -> Plant:
    """Move the border between two segments of a row by one token."""

    def plant(copy: Copy) -> None:
        parts = copy.segments()
        rows = np.flatnonzero(np.diff(parts["row_ptr"]) > 1)
        first = parts["row_ptr"][rows]
        good = rows[parts["length"][first + 1] > 1] if len(rows) else rows
        if not len(good):
            raise NoPlaceError
        number = int(parts["row_ptr"][good[0]])
        parts["length"][[number, number + 1]] += [1, -1]
        parts["start"][number + 1] += 1
        parts["doc_offset"][number + 1] += int(offsets)
        put_quietly(copy, parts)

    return plant


def _merged(copy: Copy) -> None:
    """Make one segment of the first two of a row."""
    parts = copy.segments()
    rows = np.flatnonzero(np.diff(parts["row_ptr"]) > 1)
    if not len(rows):
        raise NoPlaceError
    row = int(rows[0])
    number = int(parts["row_ptr"][row])
    parts["length"][number] += parts["length"][number + 1]
    for name in ("start", "length", "doc", "doc_offset"):
        parts[name] = np.delete(parts[name], number + 1)
    parts["row_ptr"][row + 1 :] -= 1
    put_quietly(copy, parts)
    copy.change_manifest(lambda content: add_numbers(content, segments=-1))


def add_numbers(content: dict[str, Any], **numbers: int) -> None:
    """Change what a manifest counts, of the shard and of the split."""
    for name, number in numbers.items():
        content["shards"][0][name] += number
        content["totals"][name] += number


def _segment(name: str, change: Callable[[Copy, Array], None]) -> Plant:
    def plant(copy: Copy) -> None:
        column = copy.segments()[name]
        change(copy, column)
        copy.put_segments(**{name: column})

    return plant


def _renumbered(copy: Copy, doc: Array) -> None:
    a, b = _two_alike(copy, lambda _, __: True)
    doc[[a, b]] = doc[[b, a]]


def _offset(_: Copy, offset: Array) -> None:
    offset[len(offset) // 2] += 1


def _moved_pointer(_: Copy, row_ptr: Array) -> None:
    rows = np.flatnonzero(np.diff(row_ptr) > 1)
    if not len(rows) or rows[0] + 2 >= len(row_ptr):
        raise NoPlaceError
    row_ptr[rows[0] + 1] -= 1


def _rows_taken(copy: Copy, order: Array) -> None:
    """Put whole rows in another order, their segments and columns with them."""
    parts = copy.segments()
    first, counts = parts["row_ptr"][order], np.diff(parts["row_ptr"])[order]
    taken = np.concatenate([np.arange(f, f + c) for f, c in zip(first, counts, strict=True)])
    changed = {name: parts[name][taken] for name in ("start", "length", "doc", "doc_offset")}
    put_quietly(copy, {**changed, "row_ptr": np.concatenate([[0], np.cumsum(counts)])})
    for name in copy.by_row():
        path = copy.shard / f"{name}.npy"
        column = np.load(path)
        path.unlink()
        np.save(path, column[order])


def put_quietly(copy: Copy, parts: dict[str, Array]) -> None:
    """Put segments of which some may be the same."""
    for name, column in parts.items():
        path = copy.shard / "segments" / f"{name}.npy"
        old = np.load(path)
        path.unlink()
        np.save(path, np.ascontiguousarray(column, old.dtype))


def _two_rows_exchanged(copy: Copy) -> None:
    order = np.arange(copy.manifest.shards[0].rows)
    order[[0, 1]] = [1, 0]
    _rows_taken(copy, order)


def _rows_sorted(copy: Copy) -> None:
    parts = copy.segments()
    _rows_taken(copy, np.argsort(parts["doc"][parts["row_ptr"][:-1]], kind="stable"))


def _row_repeated(copy: Copy) -> None:
    rows = copy.manifest.shards[0].rows
    parts = copy.segments()
    chosen = slice(*parts["row_ptr"][:2])
    _rows_taken(copy, np.append(np.arange(rows), 0))
    number, tokens = int(chosen.stop - chosen.start), int(parts["length"][chosen].sum())
    copy.change_manifest(lambda content: add_numbers(content, rows=1, segments=number, tokens=tokens))
    _written_rows(copy, np.append(np.arange(rows), 0))


def _written_rows(copy: Copy, order: Array) -> None:
    """Take rows of what is written out too, in all epochs."""
    for path in sorted(copy.split.glob("drawn/*/00000/*.npy")):
        column = np.load(path)
        path.unlink()
        np.save(path, column[order])


def _document_gone(copy: Copy, *, listed: bool) -> None:
    """Take the rows of a document that stands alone in its rows; keep it listed, or not."""
    parts = copy.segments()
    rows, last = _rows_of(copy), copy.manifest.shards[0].documents - 1
    gone = np.unique(rows[parts["doc"] == last])
    others = np.isin(rows, gone) & (parts["doc"] != last)
    if others.any():
        gone = gone[~np.isin(gone, rows[others])]
    if not len(gone):
        raise NoPlaceError
    lost = np.isin(rows, gone)
    kept = np.delete(np.arange(copy.manifest.shards[0].rows), gone)
    _rows_taken(copy, kept)
    _written_rows(copy, kept)
    tokens = int(parts["length"][lost].sum())
    change = {"rows": -len(gone), "segments": -int(lost.sum()), "tokens": -tokens}
    if listed:
        change["tokens_cut"] = tokens
    else:
        change["documents"] = -1
        copy.change_documents(lambda table: table.slice(0, table.num_rows - 1))
        if copy.traits.sentences:
            _last_sentences_gone(copy)
    copy.change_manifest(lambda content: add_numbers(content, **change))


def _last_sentences_gone(copy: Copy) -> None:
    ptr, ends = (np.load(copy.shard / SENTENCES / f"{name}.npy") for name in ("ptr", "ends"))
    put(copy.shard / SENTENCES / "ptr.npy", ptr[:-1])
    put(copy.shard / SENTENCES / "ends.npy", ends[: ptr[-2]])


def _other_shard(copy: Copy) -> None:
    """Name the first two shards in the place of each other."""

    def exchange(shards: list[Any]) -> None:
        shards[0], shards[1] = shards[1], shards[0]

    copy.change_manifest(lambda content: exchange(content["shards"]))
    if copy.written:
        copy.change_manifest(lambda content: list(map(exchange, content["shards"])), "drawn.json")


STORED: dict[str, Plant] = {
    "rows rolled by 1 against their segments": _rolled(1),
    "rows rolled by 2 against their segments": _rolled(2),
    "two neighbouring tokens exchanged": ids(_neighbours),
    "tokens shuffled within a document": ids(_shuffled),
    "the tokens of two documents exchanged": ids(_exchanged),
    "one token is another": _one(lambda _: OTHER),
    "an EOS replaced by a token": _one(lambda _: OTHER, eos=True),
    "an EOS replaced by the pad id": _one(lambda copy: copy.vocabulary.named("pad"), eos=True),
    "an EOS within a document": _one(lambda copy: copy.vocabulary.named("eos")),
    "the pad id within a document": _one(lambda copy: copy.vocabulary.named("pad")),
    "a mask in the rows": _one(lambda copy: copy.vocabulary.named("mask")),
    "an id past the vocabulary": _one(lambda copy: copy.vocabulary.size),
    "tokens in the padding": ids(_filled),
    "a border between documents moved by 1": _border(offsets=False),
    "the same, its offset with it": _border(offsets=True),
    "two documents in one segment": _merged,
    "the numbers of two documents exchanged": _segment("doc", _renumbered),
    "an offset in its document off by 1": _segment("doc_offset", _offset),
    "a segment given to the next row": _segment("row_ptr", _moved_pointer),
    "two rows exchanged, segments with them": _two_rows_exchanged,
    "rows sorted by document": _rows_sorted,
    "a row twice": _row_repeated,
    "a document cut, and out of the list": lambda copy: _document_gone(copy, listed=False),
    "a document cut, and counted as cut": lambda copy: _document_gone(copy, listed=True),
    "another shard in the place of this one": _other_shard,
}
"""What is planted into a dataset whose rows are drawn when they are read, where that can be."""
assert SPLIT == "train", "the faults are about the first shard of training"
