"""Faults of what is stored: rows, segments, documents, tables, manifests, the token store under them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fault_copies import SPLIT, Array, Copy, NoPlaceError, change_array, put

from stages.identity import content_digest
from stages.store.manifest import OBJECTIVE_ID, PROMPT, ROOM, SENTENCES, UNIGRAM, WORD_STARTS

Plant = Callable[[Copy], None]
OTHER = 700
"""An ordinary id of every vocabulary here."""


def ids(change: Callable[[Copy, Array], Array | None]) -> Plant:
    """Give a fault that changes ids of rows, but no segment."""
    return lambda copy: copy.change("input_ids", lambda array: change(copy, array))


def _rolled(by: int) -> Plant:
    return ids(lambda _, array: np.roll(array, by, axis=1))


def _place(copy: Copy, array: Array, wanted: Array) -> tuple[int, int]:
    """Give the first place of a document that is no EOS, or is one."""
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
    """Give two segments of one length, of different documents."""
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
        copy.put_segments(**parts)

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
    copy.put_segments(**parts)
    copy.change_manifest(lambda content: _add(content, segments=-1))


def _add(content: dict[str, Any], **numbers: int) -> None:
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
        np.save(path, column.astype(old.dtype))


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
    copy.change_manifest(lambda content: _add(content, rows=1, segments=number, tokens=tokens))
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
    copy.change_manifest(lambda content: _add(content, **change))


def _last_sentences_gone(copy: Copy) -> None:
    ptr, ends = (np.load(copy.shard / SENTENCES / f"{name}.npy") for name in ("ptr", "ends"))
    put(copy.shard / SENTENCES / "ptr.npy", ptr[:-1])
    put(copy.shard / SENTENCES / "ends.npy", ends[: ptr[-2]])


def _other_shard(copy: Copy) -> None:
    """Name another shard's folder in the place of this one's."""

    def change(content: dict[str, Any]) -> None:
        content["shards"][0] = content["shards"][1]
        for name in content["totals"]:
            content["totals"][name] = sum(shard[name] for shard in content["shards"])

    copy.change_manifest(change)
    if copy.written:
        copy.change_manifest(
            lambda content: content.update(shards=[[two, two] for _, two in content["shards"]]),
            "drawn.json",
        )


def _list_column(name: str) -> Plant:
    """Say of each document what is right of the next one."""

    def change(table: pa.Table) -> pa.Table:
        values = table.column(name).to_pylist()
        place = table.schema.get_field_index(name)
        shifted = pa.array([*values[1:], values[0]], table.schema.field(place).type)
        return table.set_column(place, table.schema.field(place), shifted)

    return lambda copy: copy.change_documents(change)


def _reordered(table: pa.Table) -> pa.Table:
    return table.take(pa.array([1, 0, *range(2, table.num_rows)]))


def _beside(name: str, change: Callable[[Array], Array | None], *, split: bool = False) -> Plant:
    """Change a file that only some objectives have."""

    def plant(copy: Copy) -> None:
        path = (copy.split if split else copy.shard) / name
        if not path.exists():
            raise NoPlaceError
        change_array(path, change)

    return plant


def _first_up(column: Array) -> Array:
    """Change one entry, one that is not 0 if there is one."""
    number = int(np.argmax(column > 0))
    column[number] += 1
    return column


def _component(column: Array) -> Array:
    column[0] = 1 - min(int(column[0]), 1)
    return column


def _sentence_moved(ends: Array) -> None:
    number = int(np.argmax(np.diff(ends) > 1))
    ends[number] += 1


def _declared(**changed: Any) -> Plant:
    return lambda copy: copy.change_manifest(lambda content: content.update(changed))


def _ids_exchanged(a: str, b: str) -> Plant:
    def change(content: dict[str, Any]) -> None:
        named = content["special_ids"]
        named[a], named[b] = named[b], named[a]

    return lambda copy: copy.change_manifest(change)


PARAMETERS: dict[str, Any] = {
    "mask_probability": 0.16,
    "fim_rate": 0.35,
    "noise_density": 0.16,
    "target_density": 0.45,
    "mask_ratio": 0.31,
    "s_density": 0.24,
    "crop_ratio": 0.8,
    "swap_rate": 0.4,
    "random_rate": 0.4,
    "mask_first_token": True,
}
"""By kind the first of these that it has, and another value than any dataset's."""


def other_objective(copy: Copy) -> dict[str, Any]:
    """Give the objective with another parameter.

    Raises:
        NoPlaceError: it has none of these.
    """
    content = dict(copy.manifest.objective)
    name = next((name for name in PARAMETERS if name in content), None)
    if name is None or content[name] == PARAMETERS[name]:
        raise NoPlaceError
    return {**content, name: PARAMETERS[name]}


def _other_parameter(copy: Copy) -> None:
    copy.change_manifest(lambda content: content.update(objective=other_objective(copy)))


def _other_seed(copy: Copy) -> None:
    _declared(seed=copy.manifest.seed + 1)(copy)


def _other_packing(copy: Copy) -> None:
    other = {"best_fit": "concat", "concat": "best_fit"}[copy.manifest.packing]
    _declared(packing=other)(copy)


def _shard_unnamed(copy: Copy) -> None:
    def change(content: dict[str, Any]) -> None:
        gone = content["shards"].pop()
        for name in content["totals"]:
            content["totals"][name] -= gone[name]

    copy.change_manifest(change)
    if copy.written:
        copy.change_manifest(
            lambda content: content.update(shards=[epoch[:1] for epoch in content["shards"]]),
            "drawn.json",
        )


def _no_epochs(copy: Copy) -> None:
    if not copy.written:
        raise NoPlaceError
    (copy.split / "drawn.json").unlink()


def _store_text(*, digest: bool) -> Plant:
    """Replace a token in the token store, and make all anew from it; its digest too, or not."""

    def plant(copy: Copy) -> None:
        unit = copy.material.units[0]
        folder = copy.root / unit.tokens
        group_ptr, offsets = np.load(folder / "group_ptr.npy"), np.load(folder / "offsets.npy")
        number = int(group_ptr[0])
        place = int(offsets[number])

        def change(array: Array) -> None:
            array[place] = OTHER if array[place] != OTHER else OTHER + 1

        change_array(folder / "ids.npy", change)
        if digest:
            _change_store(folder, "digest", number, content_digest("another text"))
        copy.units.add(unit.name)
        copy.remake()

    return plant


def _change_store(folder: Any, name: str, number: int, value: object) -> None:
    path = folder / "documents.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index(name)
    values = table.column(name).to_pylist()
    assert values[number] != value, "nothing would change"
    values[number] = value
    field = table.schema.field(place)
    path.unlink()
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)


def _store_language(copy: Copy) -> None:
    unit = copy.material.units[0]
    _change_store(copy.root / unit.tokens, "language", 0, "xx")
    copy.units.add(unit.name)
    copy.remake()


def _leak(copy: Copy) -> None:
    """Let the first document that is held out stand in training, in the store and in the rows."""
    train = copy.material.train
    for unit in copy.material.units:
        folder = copy.root / unit.tokens
        group_ptr = np.load(folder / "group_ptr.npy")
        if group_ptr[train + 1] > group_ptr[train] and unit.sections == 1:
            break
    else:
        raise NoPlaceError
    held, target = int(group_ptr[train]), int(group_ptr[1])
    order = [*range(target), held, *range(target, held), *range(held + 1, int(group_ptr[-1]))]
    _reorder_store(copy, unit.name, order, group_ptr + (np.arange(len(group_ptr)) % (train + 1) > 0))
    copy.units.add(unit.name)
    copy.remake()


def _reorder_store(copy: Copy, name: str, order: list[int], group_ptr: Array) -> None:
    folder = copy.root / "tokens" / name
    offsets, ids_ = np.load(folder / "offsets.npy"), np.load(folder / "ids.npy")
    parts = [ids_[offsets[n] : offsets[n + 1]] for n in order]
    put(folder / "ids.npy", np.concatenate(parts))
    put(folder / "group_ptr.npy", group_ptr)
    put(folder / "offsets.npy", np.concatenate([[0], np.cumsum([len(part) for part in parts])]))
    path = folder / "documents.parquet"
    table = pq.read_table(path).take(pa.array(order))
    path.unlink()
    pq.write_table(table, path)
    beside = copy.root / "sentences" / name
    if beside.exists():
        ptr, ends = np.load(beside / "ptr.npy"), np.load(beside / "ends.npy")
        put_again(beside / "ends.npy", np.concatenate([ends[ptr[n] : ptr[n + 1]] for n in order]))
        counts = np.diff(ptr)[order]
        put_again(beside / "ptr.npy", np.concatenate([[0], np.cumsum(counts)]))


def put_again(path: Any, array: Array) -> None:
    """Put an array in the place of another one, which may be the same."""
    old = np.load(path)
    path.unlink()
    np.save(path, array.astype(old.dtype))


def _store_sentences(copy: Copy) -> None:
    """Move the end of a sentence in the store, and make all anew from it."""
    if not copy.traits.sentences:
        raise NoPlaceError
    unit = copy.material.units[0]
    change_array(copy.root / unit.sentences / "ends.npy", _sentence_moved)
    copy.units.add(unit.name)
    copy.remake()


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
    "documents listed in another order": lambda copy: copy.change_documents(_reordered),
    "languages of documents exchanged": _list_column("language"),
    "sources of documents exchanged": _list_column("source"),
    "own ids of documents exchanged": _list_column("own_id"),
    "positions of documents exchanged": _list_column("position"),
    "a component is another one": _beside(f"{OBJECTIVE_ID}.npy", _component),
    "room to borrow off by 1": _beside(f"{ROOM}.npy", _first_up),
    "a prompt off by 1": _beside(f"{PROMPT}.npy", _first_up),
    "the end of a sentence moved": _beside(f"{SENTENCES}/ends.npy", _sentence_moved),
    "a frequency wrong": _beside(UNIGRAM, _first_up),
    "the beginnings of words wrong": _beside(WORD_STARTS, np.logical_not, split=True),
    "another seed declared": _other_seed,
    "another parameter declared": _other_parameter,
    "another packing declared": _other_packing,
    "another tokenizer declared": _declared(tokenizer={"file": "x", "sha256": "0" * 64}),
    "fewer ids declared": lambda copy: _declared(vocab_size=copy.vocabulary.size - 1)(copy),
    "longer rows declared": lambda copy: _declared(seq_len=copy.manifest.seq_len + 1)(copy),
    "another attention declared": _declared(attention="causal"),
    "another label convention declared": _declared(label_convention="shifted"),
    "special ids exchanged: fim_middle, fim_suffix": _ids_exchanged("fim_middle", "fim_suffix"),
    "special ids exchanged: two sentinels": _ids_exchanged("sentinel_0", "sentinel_1"),
    "another split declared": _declared(split="validation"),
    "totals wrong": lambda copy: copy.change_manifest(
        lambda content: content["totals"].update(tokens=content["totals"]["tokens"] + 1)
    ),
    "a shard left out of the manifest": _shard_unnamed,
    "no epoch written out": _no_epochs,
    "a token replaced in the store and the rows": _store_text(digest=False),
    "the same, its digest in the store with it": _store_text(digest=True),
    "a language replaced in the store and the list": _store_language,
    "a document of validation in training": _leak,
    "the end of a sentence moved in the store too": _store_sentences,
}
"""What is planted into a dataset whose rows are drawn when they are read, where that can be."""
assert SPLIT == "train", "the faults are about the first shard of training"
