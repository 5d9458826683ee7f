"""Faults of what is written out: the columns of an epoch on disk, as a trainer would read them."""

import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stages.objectives.fim.config import fim_ids
from stages.objectives.rows import IGNORED
from stages.store.drawn import DRAWN_NAME
from tests.material.described_faults import other_objective
from tests.material.fault_copies import EPOCH, NUMBER, Array, Copy, NoPlaceError, zip_columns
from tests.material.stored_faults import OTHER, Plant
from tests.material.written_changes import (
    Columns,
    change_columns,
    change_entry,
    first_place,
    only_of,
    unlabelled,
)


def _dtype_nonsense(copy: Copy) -> None:
    def change(content: dict[str, Any]) -> None:
        for column in content["columns"].values():
            column.update(dtype="nope")

    copy.change_manifest(change, DRAWN_NAME)


def _shifted(by: int) -> Plant:
    def change(columns: Columns, _: Copy) -> Mapping[str, Array]:
        labels = np.full_like(columns["labels"], IGNORED)
        if by > 0:
            labels[:, by:] = columns["labels"][:, :-by]
        else:
            labels[:, :by] = columns["labels"][:, -by:]
        return {"labels": labels}

    return change_columns(change, "labels")


@only_of("masked")
def _kept(columns: Columns, _: Copy) -> Mapping[str, Array]:
    labels, shown = columns["labels"], columns["input_ids"]
    return {"input_ids": np.where(labels != IGNORED, labels, shown)}


@only_of("masked")
def _labels_everywhere(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    labels, shown = columns["labels"], columns["input_ids"]
    return {"labels": np.where((labels == IGNORED) & ~copy.vocabulary.special(shown), shown, labels)}


@only_of("masked")
def _all_masked(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    mask = copy.vocabulary.named("mask")
    return {"input_ids": np.where(columns["labels"] != IGNORED, mask, columns["input_ids"])}


@only_of("masked", "replaced")
def _special_shown(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    chosen = columns["selected"] != 0 if "selected" in columns else columns["labels"] != IGNORED
    if "original_ids" in columns:
        chosen &= columns["labels"] == 1
    columns["input_ids"][first_place(chosen)] = copy.vocabulary.named("cls")
    return {"input_ids": columns["input_ids"]}


@only_of("targets")
def _targets_without_eos(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    eos = copy.vocabulary.named("eos")
    changed = {"labels": columns["labels"], "decoder_input_ids": columns["decoder_input_ids"]}
    return {name: np.where(column == eos, OTHER, column) for name, column in changed.items()}


def _inputs_without_eos(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    ids = columns["input_ids"]
    return {"input_ids": np.where(ids == copy.vocabulary.named("eos"), OTHER, ids)}


@only_of("targets")
def _targets_cut(columns: Columns, _: Copy) -> Mapping[str, Array]:
    row = first_place(columns["label_length"] > 2)[0]  # a token, its EOS and one more
    length = int(columns["label_length"][row])
    columns["labels"][row, length - 2 : length] = columns["labels"][row, length - 1], IGNORED
    columns["decoder_input_ids"][row, 1:] = np.where(
        columns["labels"][row, :-1] == IGNORED,
        columns["decoder_input_ids"][row, -1],
        columns["labels"][row, :-1],
    )
    columns["label_length"][row] -= 1
    return columns


def _sentinels(change: Callable[[Array, Array], Array], *names: str) -> Plant:
    """Change which sentinel stands where one stands."""

    def plant(columns: Columns, copy: Copy) -> Mapping[str, Array]:
        sentinels = copy.vocabulary.sentinels
        columns_ = {name: columns[name] for name in names}
        found = {}
        for name, column in columns_.items():
            number = np.searchsorted(sentinels, column)
            here = np.isin(column, sentinels)
            others = sentinels[change(np.where(here, number, 0), here) % len(sentinels)]
            found[name] = np.where(here, others, column)
        return found

    return change_columns(plant, *names)


def _permuted(number: Array, here: Array) -> Array:
    """Let the first two sentinels of each row change places."""
    two = here & (number < 2) & (here & (number == 1)).any(axis=1)[:, None]  # 0 and 1
    return np.where(two, 1 - number, number)


TARGETS = ("labels", "decoder_input_ids")
BOTH = ("input_ids", *TARGETS)


def _marks_exchanged(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    _, suffix, middle, _ = fim_ids(copy.vocabulary).tolist()
    found = {}
    for name in ("input_ids", "labels"):
        column = columns[name].astype(np.int64)
        found[name] = np.select([column == suffix, column == middle], [middle, suffix], column)
    return found


def _parts_exchanged(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    """Let the text behind <MID> and the one before it change places, in one segment."""
    ids, segment = columns["input_ids"], columns["segment_ids"]
    _, suffix, middle, _ = fim_ids(copy.vocabulary).tolist()
    for row, place in np.argwhere(ids == middle).tolist():
        inside = np.flatnonzero(segment[row] == segment[row, place])
        begin = next(p for p in inside.tolist() if ids[row, p] == suffix)
        end = int(inside[-1])  # the last token, or the EOS, stays
        after, between = ids[row, begin + 1 : place].copy(), ids[row, place + 1 : end].copy()
        if len(after) and len(between) and not np.array_equal(after, between):
            ids[row, begin + 1 : end] = [*between, middle, *after]
            if (columns["labels"][row, inside] != IGNORED).all():
                columns["labels"][row, inside] = ids[row, inside]
            else:
                columns["labels"][row, begin + 1 : end] = [*between, IGNORED, *after]
            return columns
    raise NoPlaceError


def _prefix(*, follow: bool) -> Plant:
    def change(columns: Columns, _: Copy) -> Mapping[str, Array]:
        columns["prefix_length"] += 1
        if follow:
            rows = np.arange(len(columns["labels"]))
            last = np.minimum(columns["prefix_length"], columns["labels"].shape[1]) - 1
            columns["labels"][rows, last] = IGNORED
        return columns

    return change_columns(change, "prefix_length")


def _longer_prefixes(*, follow: bool) -> Plant:
    """Every prefix is a token longer, into the next document where it was all of one."""

    def change(columns: Columns, _: Copy) -> Mapping[str, Array]:
        shown = columns["in_prefix"]
        shown[:, 1:] |= shown[:, :-1].copy()
        if follow:
            columns["labels"][shown] = IGNORED
        return columns

    return change_columns(change, "in_prefix")


def _pair_name(columns: Columns) -> str:
    name = next((name for name in columns if name.endswith("_label")), None)
    if name is None:
        raise NoPlaceError
    return name


def _pairs_inverted(columns: Columns, _: Copy) -> Mapping[str, Array]:
    name = _pair_name(columns)
    label = columns[name]
    return {name: np.where(label < 0, label, 1 - label)}


def _pair_inverted(columns: Columns, _: Copy) -> Mapping[str, Array]:
    name = _pair_name(columns)
    place = first_place(columns[name] >= 0)
    columns[name][place] = 1 - columns[name][place]
    return {name: columns[name]}


def _types_moved(columns: Columns, _: Copy) -> Mapping[str, Array]:
    types = columns["token_type_ids"]
    row, place = first_place((types[:, 1:] == 1) & (types[:, :-1] == 0))
    types[row, place + 1] = 0
    return {"token_type_ids": types}


def _stranger(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    """Replace a token of a borrowed half."""
    if "borrowed_doc" not in columns:
        raise NoPlaceError
    lent = (columns["borrowed_doc"] >= 0)[:, None] & (columns["token_type_ids"] == 1)
    columns["input_ids"][first_place(lent & unlabelled(columns, copy))] = OTHER
    return {"input_ids": columns["input_ids"]}


def _positions_run_on(columns: Columns, _: Copy) -> Mapping[str, Array]:
    segment = columns["segment_ids"]
    return {"position_ids": np.where(segment >= 0, np.arange(segment.shape[1]), 0)}


def _segments_moved(columns: Columns, _: Copy) -> Mapping[str, Array]:
    segment = columns["segment_ids"]
    row, place = first_place((segment[:, 1:] != segment[:, :-1]) & (segment[:, :-1] >= 0))
    segment[row, place + 1] = segment[row, place]
    return {"segment_ids": segment}


def _views_mixed(columns: Columns, copy: Copy) -> Mapping[str, Array]:
    """Return each row the second view of the next."""
    if copy.traits.label_convention != "pairs":
        raise NoPlaceError
    for column in columns.values():
        column[:, 1] = np.roll(column[:, 1], 1, axis=0)
    return columns


def _rows_mixed(columns: Columns, _: Copy) -> Mapping[str, Array]:
    for column in columns.values():
        column[[0, 1]] = column[[1, 0]]
    return columns


def _epochs_alike(copy: Copy) -> None:
    first = copy.split / "drawn" / "epoch-0000" / f"{NUMBER:05d}"
    before, after = copy.columns(), {path.stem: np.load(path) for path in first.glob("*.npy")}
    if all(np.array_equal(a, b) for a, b in zip_columns(before, after)):
        raise NoPlaceError
    for path in sorted(first.glob("*.npy")):
        target = copy.drawn / path.name
        target.unlink()
        shutil.copy(path, target)

    def change(content: dict[str, Any]) -> None:
        content["shards"][EPOCH][NUMBER]["counts"] = content["shards"][0][NUMBER]["counts"]

    try:
        copy.change_manifest(change, "drawn.json")
    except NoPlaceError:
        return  # both count the same


def _folders_exchanged(copy: Copy) -> None:
    def change(content: dict[str, Any]) -> None:
        shards = content["shards"][EPOCH]
        shards[NUMBER], shards[NUMBER + 1] = shards[NUMBER + 1], shards[NUMBER]

    copy.change_manifest(change, "drawn.json")


def _epoch_unnamed(copy: Copy) -> None:
    def change(content: dict[str, Any]) -> None:
        content["shards"].pop()
        content["epochs"] -= 1

    copy.change_manifest(change, "drawn.json")


def _column_unnamed(copy: Copy) -> None:
    copy.change_manifest(lambda content: content["columns"].popitem(), "drawn.json")


def _counts(copy: Copy) -> None:
    def change(content: dict[str, Any]) -> None:
        counts = content["shards"][EPOCH][NUMBER]["counts"]
        for name in counts:
            counts[name] += 1

    copy.change_manifest(change, "drawn.json")


def _drawn_otherwise(copy: Copy) -> None:
    copy.redraw(objective=other_objective(copy))


WRITTEN: dict[str, Plant] = {
    "labels shifted by 1": _shifted(1),
    "labels shifted by -1": _shifted(-1),
    "labels shifted by 2": _shifted(2),
    "inputs keep the masked tokens": change_columns(_kept, "labels"),
    "labels on all tokens": change_columns(_labels_everywhere, "labels"),
    "every selected token masked": change_columns(_all_masked, "labels"),
    "a special id as a replacement": change_columns(_special_shown, "labels"),
    "a token of the inputs is another": change_entry("input_ids", unlabelled, lambda *_: OTHER),
    "inputs without EOS": change_columns(_inputs_without_eos),
    "targets without EOS": change_columns(_targets_without_eos, "labels"),
    "targets one token short": change_columns(_targets_cut, "labels", "label_length"),
    "the pad id as a label": change_entry(
        "labels", lambda c, _: c["labels"] > 1, lambda _, copy: copy.vocabulary.named("pad")
    ),
    "a label on padding": change_entry(
        "labels",
        lambda c, copy: (
            (c["labels"] == IGNORED)[:, : c["input_ids"].shape[-1]]
            & (c["input_ids"] == copy.vocabulary.named("pad"))[:, : c["labels"].shape[-1]]
            if copy.traits.label_convention != "targets"
            else c["labels"] == IGNORED
        ),
        lambda *_: OTHER,
    ),
    "a label missing": change_entry("labels", lambda c, _: c["labels"] >= 0, lambda *_: IGNORED),
    "sentinels of the targets permuted": _sentinels(_permuted, *TARGETS),
    "sentinels of inputs and targets permuted": _sentinels(_permuted, *BOTH),
    "sentinels constant": _sentinels(lambda number, _: 0 * number, *BOTH),
    "sentinels of the targets off by 1": _sentinels(lambda number, _: number + 1, *TARGETS),
    "sentinels off by 1 everywhere": _sentinels(lambda number, _: number + 1, *BOTH),
    "decoder inputs not shifted": change_columns(
        lambda c, _: {"decoder_input_ids": np.where(c["labels"] < 0, 0, c["labels"])},
        "decoder_input_ids",
    ),
    "decoder inputs begin with bos": change_columns(
        lambda c, copy: {
            "decoder_input_ids": np.hstack(
                [
                    np.full((len(c["labels"]), 1), copy.vocabulary.named("bos")),
                    c["decoder_input_ids"][:, 1:],
                ]
            )
        },
        "decoder_input_ids",
    ),
    "an input length off by 1": change_entry(
        "input_length", lambda c, _: c["input_length"] > 1, lambda n, _: int(n) - 1
    ),
    "a label length off by 1": change_entry(
        "label_length", lambda c, _: c["label_length"] > 1, lambda n, _: int(n) - 1
    ),
    "a component written as another": change_entry(
        "objective_id", lambda c, _: c["objective_id"] >= 0, lambda n, _: 1 - min(int(n), 1)
    ),
    "prefix lengths off by 1": _prefix(follow=False),
    "prefix lengths off by 1, labels with them": _prefix(follow=True),
    "prefixes of packed documents longer by 1": _longer_prefixes(follow=False),
    "the same, labels with them": _longer_prefixes(follow=True),
    "the ids of middle and suffix exchanged": change_columns(
        lambda c, copy: _marks_exchanged(c, copy) if copy.manifest.objective["kind"] == "fim" else {}
    ),
    "middle and suffix exchanged": change_columns(
        lambda c, copy: _parts_exchanged(c, copy) if copy.manifest.objective["kind"] == "fim" else {}
    ),
    "pair labels inverted": change_columns(_pairs_inverted),
    "one pair label inverted": change_columns(_pair_inverted),
    "the border of token types off by 1": change_columns(_types_moved, "token_type_ids"),
    "a borrowed text of another document": change_entry(
        "borrowed_doc", lambda c, _: c["borrowed_doc"] > 0, lambda n, _: int(n) - 1
    ),
    "a borrowed text from elsewhere in it": change_entry(
        "borrowed_offset", lambda c, _: c["borrowed_offset"] >= 0, lambda n, _: int(n) + 1
    ),
    "a token of a borrowed text is another": change_columns(_stranger, "input_ids"),
    "positions run on over documents": change_columns(_positions_run_on, "position_ids"),
    "a border of segment_ids moved by 1": change_columns(_segments_moved, "segment_ids"),
    "one replaced label inverted": change_entry(
        "labels",
        lambda c, _: (c["labels"] >= 0) if "selected" in c else np.zeros(0),
        lambda n, _: 1 - int(n),
    ),
    "an original id is another": change_entry(
        "original_ids", lambda c, _: c["original_ids"] > OTHER, lambda *_: OTHER
    ),
    "a selected place is none": change_entry("selected", lambda c, _: c["selected"] != 0, lambda *_: 0),
    "second views of other rows": change_columns(_views_mixed),
    "two rows exchanged": change_columns(_rows_mixed),
    "two epochs alike": _epochs_alike,
    "the epoch of another shard": _folders_exchanged,
    "no epoch on disk": lambda copy: (copy.split / DRAWN_NAME).unlink(),
    "an epoch left out of drawn.json": _epoch_unnamed,
    "a column left out of drawn.json": _column_unnamed,
    "no file of an epoch named": lambda copy: copy.change_manifest(
        lambda content: content["shards"][EPOCH][NUMBER].update(files={}), DRAWN_NAME
    ),
    "a dtype in drawn.json that there is not": _dtype_nonsense,
    "counts wrong": _counts,
    "drawn with another seed": lambda copy: copy.redraw(seed=copy.manifest.seed + 1),
    "drawn with another parameter": _drawn_otherwise,
}
"""What is planted into an epoch that is written out."""
