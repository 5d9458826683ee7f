"""Faults of what describes rows: lists, tables, manifests, and the token store that rows are made of."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.tokenizer.load import load_tokenizer
from stages.identity import content_digest
from tests.material.beside_faults import sentence_moved
from tests.material.fault_copies import NUMBER, Array, Copy, NoPlaceError, change_array, put
from tests.material.stored_faults import OTHER, Plant, add_numbers


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
    """Return the objective with another parameter.

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


def _change_store(folder: Path, name: str, number: int, value: object) -> None:
    path = folder / "documents.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index(name)
    values = table.column(name).to_pylist()
    assert values[number] != value, "nothing would change"
    values[number] = value
    field = table.schema.field(place)
    path.unlink()
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)


def _store_document(change: Callable[[Copy, Array], Array]) -> Plant:
    """Replace the ids of a document in the token store, and make all anew from it."""

    def plant(copy: Copy) -> None:
        if copy.traits.sentences:
            raise NoPlaceError
        unit = copy.material.units[0]
        folder = copy.root / unit.tokens
        ids, offsets = np.load(folder / "ids.npy"), np.load(folder / "offsets.npy")
        number = int(np.load(folder / "group_ptr.npy")[0])
        begin, end = int(offsets[number]), int(offsets[number + 1])
        new = change(copy, ids[begin:end])
        put(folder / "ids.npy", np.concatenate([ids[:begin], new, ids[end:]]).astype(ids.dtype))
        put(folder / "offsets.npy", offsets + (len(new) - end + begin) * (offsets > begin))
        _change_store(folder, "tokens", number, len(new))
        copy.units.add(unit.name)
        copy.remake()

    return plant


def _control_inside(copy: Copy, ids: Array) -> Array:
    """Put an id that decodes to nothing among those of a text."""
    return np.insert(ids, len(ids) // 2, copy.manifest.special_ids["bos"])


def _other_pieces(copy: Copy, ids: Array) -> Array:
    """Write a text by single bytes."""
    tokenizer = load_tokenizer(copy.workspace)
    pieces = tokenizer.codec.piece_bytes()
    assert tokenizer.exact, "trained by the run"
    byte_ids = {pieces[number]: number for number in np.flatnonzero(tokenizer.codec.byte_ids()).tolist()}
    text = b"".join(pieces[number] for number in ids[:-1].tolist())
    return np.array([*(byte_ids[bytes([byte])] for byte in text), ids[-1]], ids.dtype)


def _ids_exchanged_everywhere(copy: Copy) -> None:
    """Exchange two sentinels in the manifest and in the tokenizer's own file of special ids."""
    folder = copy.root / "tokenizer"
    real = folder.resolve()
    folder.unlink()
    shutil.copytree(real, folder)
    path = folder / "special_ids.json"
    ids = json.loads(path.read_text())
    ids["sentinel_0"], ids["sentinel_1"] = ids["sentinel_1"], ids["sentinel_0"]
    path.write_text(json.dumps(ids))
    _ids_exchanged("sentinel_0", "sentinel_1")(copy)


def _fortran(copy: Copy) -> None:
    """Write rows column by column: what opens them as .npy sees no difference, what maps bytes does."""
    path = copy.shard / "input_ids.npy"
    rows = np.load(path)
    path.unlink()
    np.save(path, np.asfortranarray(rows))


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


def put_again(path: Path, array: Array) -> None:
    """Put an array in the place of another one, which may be the same."""
    old = np.load(path)
    path.unlink()
    np.save(path, np.ascontiguousarray(array, old.dtype))


def _store_sentences(copy: Copy) -> None:
    """Move the end of a sentence in the store, and make all anew from it."""
    if not copy.traits.sentences:
        raise NoPlaceError
    unit = copy.material.units[0]
    change_array(copy.root / unit.sentences / "ends.npy", sentence_moved)
    copy.units.add(unit.name)
    copy.remake()


def _store_array(name: str, change: Callable[[Array], Array | None]) -> Plant:
    """Change an array of the store, and nothing that is made of it."""

    def plant(copy: Copy) -> None:
        unit = copy.material.units[0]
        path = copy.root / unit.tokens / name
        array = np.load(path)
        changed = change(array)
        put(path, array if changed is None else changed.astype(array.dtype))
        copy.units.add(unit.name)

    return plant


def _past_the_vocabulary(ids: Array) -> None:
    ids[0] = 60_000


def _store_column(name: str, give: Callable[[Any], object]) -> Plant:
    """Say in the store what a column holds by values of another type."""

    def plant(copy: Copy) -> None:
        unit = copy.material.units[0]
        path = copy.root / unit.tokens / "documents.parquet"
        table = pq.read_table(path)
        values = pa.array([give(value) for value in table.column(name).to_pylist()])
        path.unlink()
        pq.write_table(table.set_column(table.schema.get_field_index(name), name, values), path)
        copy.units.add(unit.name)

    return plant


def _sentences_cut(copy: Copy) -> None:
    """Leave half the ends of sentences in the store."""
    unit = copy.material.units[0]
    path = copy.root / unit.sentences / "ends.npy"
    if not path.exists():
        raise NoPlaceError
    put(path, np.load(path)[:2])
    copy.units.add(unit.name)


def _dtypes_nonsense(copy: Copy) -> None:
    copy.change_manifest(lambda content: content["columns"]["input_ids"].update(dtype="nope"))


def _no_file_named(copy: Copy) -> None:
    copy.change_manifest(lambda content: content["shards"][NUMBER].update(files={}))


DESCRIBED: dict[str, Plant] = {
    "documents listed in another order": lambda copy: copy.change_documents(_reordered),
    "languages of documents exchanged": _list_column("language"),
    "sources of documents exchanged": _list_column("source"),
    "own ids of documents exchanged": _list_column("own_id"),
    "positions of documents exchanged": _list_column("position"),
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
    "no file of a shard named": _no_file_named,
    "documents counted wrong, totals with them": lambda copy: copy.change_manifest(
        lambda content: add_numbers(content, documents=5)
    ),
    "no columns declared": _declared(columns={}),
    "no special ids declared": _declared(special_ids={}),
    "rows of no token declared": _declared(seq_len=0),
    "rows of one token declared": _declared(seq_len=1),
    "a seed below 0 declared": _declared(seed=-1),
    "a seed past 64 bits declared": _declared(seed=1 << 70),
    "a dtype that there is not": _dtypes_nonsense,
    "an id of the store past the vocabulary": _store_array("ids.npy", _past_the_vocabulary),
    "all of the store in one group": _store_array("group_ptr.npy", lambda ptr: ptr[[0, -1]]),
    "languages in the store that are numbers": _store_column("language", lambda _: 7),
    "languages in the store that are lists": _store_column("language", lambda name: [name]),
    "ids in the store that are lists": _store_column("id", lambda name: [name]),
    "the ends of sentences cut in the store": _sentences_cut,
    "a token replaced in the store and the rows": _store_text(digest=False),
    "the same, its digest in the store with it": _store_text(digest=True),
    "a control id within a document, in the store too": _store_document(_control_inside),
    "a text in other pieces, in the store too": _store_document(_other_pieces),
    "two sentinels exchanged, in the tokenizer's file too": _ids_exchanged_everywhere,
    "rows in Fortran order": _fortran,
    "a language replaced in the store and the list": _store_language,
    "a document of validation in training": _leak,
    "the end of a sentence moved in the store too": _store_sentences,
}
"""What is planted beside the rows of a dataset, or under them."""
