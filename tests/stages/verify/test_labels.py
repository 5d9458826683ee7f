"""What the checks of labels promise.

Columns as the loader makes them give no finding; each fault that a masking loader can have gives one
under its own name; no law of chance is so tight that it fails where little was drawn.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.objectives.clm.config import CausalLM
from stages.objectives.laws.shown import ShownRows
from stages.objectives.mlm.config import MaskedLM, Selection, mask_tokens
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.table import resolve
from stages.objectives.vocabulary import vocabulary_of
from stages.verify.drawn import label_findings, num_epochs
from tests.stages.objectives.built_rows import shown

SPECIAL = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "cls": 4, "mask": 5}
VOCABULARY = vocabulary_of(300, SPECIAL, np.arange(300) % 3 != 0)
EOS, PAD, MASK = SPECIAL["eos"], SPECIAL["pad"], SPECIAL["mask"]
ROWS, LENGTH = 400, 64
CONFIG = MaskedLM()
WIDTHS = resolve(CONFIG, LENGTH).widths
ALONE = [Selection.BERNOULLI, Selection.EXACT]
"""Selections of positions, which the binomial law is about."""


def stored_rows(num_rows: int = ROWS, *, length: int = LENGTH) -> StoredRows:
    """Rows of two documents and some padding."""
    ids = np.random.default_rng(1).integers(len(SPECIAL), VOCABULARY.size, (num_rows, length))
    ids[:, length // 2] = EOS
    ids[:, length - length // 8 :] = PAD
    first, padding = length // 2 + 1, length // 8
    documents = [part for part in (first, length - padding - first) if part]
    lengths = np.tile(documents, num_rows)
    ptr = np.arange(num_rows + 1) * len(documents)
    return StoredRows(ids, ptr, lengths, np.arange(num_rows), seed=3, epoch=0, shard=0)


def columns_of(rows: StoredRows, config: MaskedLM) -> Columns:
    drawn = mask_tokens(rows, config, VOCABULARY, resolve(config, rows.input_ids.shape[1]).widths)
    return {name: column.astype(np.int64) for name, column in drawn.items()}


def items_of(rows: StoredRows, config: MaskedLM = CONFIG) -> ShownRows:
    epochs = tuple(columns_of(replace(rows, epoch=epoch), config) for epoch in range(2))
    return shown(rows, *epochs, vocabulary=VOCABULARY)


def broken(
    items: ShownRows | list[ShownRows], config: MaskedLM = CONFIG, convention: str = "masked"
) -> set[str]:
    parts = items if isinstance(items, list) else [items]
    found = label_findings(config, parts, convention=convention, vocabulary=VOCABULARY, widths=WIDTHS)
    return {each.message.split(":")[0] if each.check == "draws" else each.check for each in found}


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("probability", [0.01, 0.15, 0.5, 1.0])
@pytest.mark.parametrize(("num_rows", "length"), [(ROWS, LENGTH), (7, 5), (1, 2), (0, 8)])
def test_sound_masks_give_no_finding_however_few(
    selection: Selection, probability: float, num_rows: int, length: int
) -> None:
    config = MaskedLM(mask_probability=probability, selection=selection)
    assert broken(items_of(stored_rows(num_rows, length=length), config), config) == set()


def test_no_share_of_mask_and_random_ids_is_taken_for_a_fault() -> None:
    for mask_share, random_share in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.9, 0.1)):
        config = MaskedLM(mask_share=mask_share, random_share=random_share)
        assert broken(items_of(stored_rows(), config), config) == set()


def test_sound_masks_pass_in_every_one_of_many_shards() -> None:
    rows = stored_rows(60)
    found = [broken(items_of(replace(rows, shard=shard))) for shard in range(300)]
    assert found == [set()] * 300


def test_rows_may_come_in_parts() -> None:
    whole = items_of(stored_rows())
    parts = [whole.take(np.arange(start, start + 100)) for start in range(0, ROWS, 100)]
    assert broken(parts) == set()
    clean = {**parts[3].epochs[0], "input_ids": parts[3].stored.input_ids}
    epochs = (clean, *parts[3].epochs[1:])
    assert "mask shown of selected" in broken([*parts[:3], replace(parts[3], epochs=epochs)])


def in_both(items: ShownRows, change: Callable[[ShownRows, Columns], Columns]) -> ShownRows:
    """Plant a fault into both epochs."""
    return replace(items, epochs=tuple(change(items, epoch) for epoch in items.epochs))


def restored(columns: Columns) -> NDArray[np.int64]:
    return np.where(columns["labels"] == IGNORED, columns["input_ids"], columns["labels"])


def labels_everywhere(items: ShownRows, columns: Columns) -> Columns:
    return {**columns, "labels": np.where(items.stored.covered, restored(columns), IGNORED)}


def labels_off_by_one(_: ShownRows, columns: Columns) -> Columns:
    return {**columns, "labels": np.roll(columns["labels"], -1, axis=1)}


def inputs_clean(_: ShownRows, columns: Columns) -> Columns:
    return {**columns, "input_ids": restored(columns)}


def unselected_changed(_: ShownRows, columns: Columns) -> Columns:
    input_ids = columns["input_ids"].copy()
    input_ids[3, int(np.argmax(columns["labels"][3] == IGNORED))] = 299
    return {**columns, "input_ids": input_ids}


def eos_selected(items: ShownRows, columns: Columns) -> Columns:
    labels = np.where(items.stored.input_ids == EOS, EOS, columns["labels"])
    return {**columns, "labels": labels}


def padding_selected(items: ShownRows, columns: Columns) -> Columns:
    return {**columns, "labels": np.where(items.stored.covered, columns["labels"], PAD)}


def show(id_: int) -> Callable[[ShownRows, Columns], Columns]:
    """Return a fault: random replacements are all this id."""

    def plant(items: ShownRows, columns: Columns) -> Columns:
        changed = (columns["input_ids"] != items.stored.input_ids) & (columns["input_ids"] != MASK)
        return {**columns, "input_ids": np.where(changed, id_, columns["input_ids"])}

    return plant


def always_masked(_: ShownRows, columns: Columns) -> Columns:
    return {**columns, "input_ids": np.where(columns["labels"] == IGNORED, columns["input_ids"], MASK)}


def never_kept(items: ShownRows, columns: Columns) -> Columns:
    kept = (columns["labels"] != IGNORED) & (columns["input_ids"] == items.stored.input_ids)
    return {
        **columns,
        "input_ids": np.where(kept, (items.stored.input_ids + 1) % 200 + 50, columns["input_ids"]),
    }


def half_selected(_: ShownRows, columns: Columns) -> Columns:
    drop = (columns["labels"] != IGNORED) & (np.arange(LENGTH) % 2 == 0)
    return {
        "input_ids": np.where(drop, restored(columns), columns["input_ids"]),
        "labels": np.where(drop, IGNORED, columns["labels"]),
    }


SHOWN, OTHER = "mask shown of selected", "another id shown of selected"
FAULTS: dict[str, tuple[Callable[[ShownRows, Columns], Columns], set[str]]] = {
    "labels everywhere": (labels_everywhere, {"special_shown"}),
    "labels off by one": (labels_off_by_one, {"not_restored", "special_shown", "label_on_padding"}),
    "inputs show the labels": (inputs_clean, {SHOWN, OTHER}),
    "a position changed without a label": (unselected_changed, {"not_restored"}),
    "EOS selected": (eos_selected, {"special_shown"}),
    "padding selected": (padding_selected, {"label_on_padding"}),
    "random ids special": (show(SPECIAL["cls"]), {"special_shown"}),
    "random ids outside the vocabulary": (show(300), {"ids_in_range"}),
    "random ids negative": (show(-1), {"special_shown"}),
    "always the mask": (always_masked, {SHOWN, OTHER}),
    "never kept": (never_kept, {OTHER}),
    "half as many": (half_selected, {"selected of eligible tokens"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_planted_fault_is_found_under_its_name(name: str) -> None:
    change, expected = FAULTS[name]
    assert expected <= broken(in_both(items_of(stored_rows()), change))


@pytest.mark.parametrize("selection", ALONE)
def test_the_same_mask_in_every_epoch_is_found(selection: Selection) -> None:
    config = MaskedLM(selection=selection)
    items = items_of(stored_rows(), config)
    assert broken(replace(items, epochs=items.epochs[:1] * 2), config) == {
        "selected in both epochs",
        "redrawn",
    }


@pytest.mark.parametrize("selection", Selection)
def test_masks_that_another_seed_drew_are_found(selection: Selection) -> None:
    """They follow every law of masks, so nothing but drawing them again can tell."""
    config, rows = MaskedLM(selection=selection), stored_rows()
    others = items_of(replace(rows, seed=rows.seed + 1), config)
    assert broken(replace(others, stored=rows), config) == {"redrawn"}


@pytest.mark.parametrize("selection", [Selection.WHOLE_WORD, Selection.NGRAM])
def test_what_is_selected_together_is_drawn_anew_and_compared(selection: Selection) -> None:
    config = MaskedLM(selection=selection)
    items = items_of(stored_rows(), config)
    alike = replace(items, epochs=items.epochs[:1] * 2)
    both = {"selected in both epochs"} if selection is Selection.WHOLE_WORD else set()
    assert broken(alike, config) == {"redrawn"} | both
    assert "not_restored" in broken(in_both(items, unselected_changed), config)
    assert broken(in_both(items, show(300)), config) == {"ids_in_range", "redrawn"}


@pytest.mark.parametrize("selection", ALONE)
def test_the_same_mask_in_every_row_is_found(selection: Selection) -> None:
    config = MaskedLM(selection=selection)
    rows = stored_rows()
    rows = replace(rows, numbers=np.zeros_like(rows.numbers))
    assert "selected in two neighbouring rows" in broken(items_of(rows, config), config)


def test_a_moved_mask_in_the_other_epoch_is_found_when_it_avoids_the_first() -> None:
    """Epochs that share no position are no more independent than epochs that share all.

    The masks of the positions that they shared are left without a label, which is found too.
    """
    items = items_of(stored_rows())
    first, second = items.epochs
    shared = (first["labels"] != IGNORED) & (second["labels"] != IGNORED)
    apart = {**second, "labels": np.where(shared, IGNORED, second["labels"])}
    found = broken(replace(items, epochs=(first, apart)))
    assert found == {"label_missing", "not_restored", "redrawn"}


def test_another_number_than_the_exact_one_is_found() -> None:
    config = MaskedLM(selection=Selection.EXACT)
    assert "tokens selected in a row" in broken(items_of(stored_rows(), CONFIG), config)


@pytest.mark.parametrize("convention", ["unshifted", "shifted", "no such convention"])
def test_another_label_convention_is_found(convention: str) -> None:
    assert broken(items_of(stored_rows()), convention=convention) == {"label_convention"}


def test_causal_inputs_that_are_not_the_stored_ids_are_found() -> None:
    rows = stored_rows(4)
    labels = np.where(rows.covered, rows.input_ids, IGNORED)
    items = shown(rows, {"input_ids": rows.input_ids, "labels": labels}, vocabulary=VOCABULARY)
    wrong = rows.input_ids.copy()
    wrong[2, 5] += 1
    other = replace(items, stored=replace(rows, input_ids=wrong))
    for changed, expected in ((items, set()), (other, {"inputs"})):
        found = label_findings(
            CausalLM(), [changed], convention="unshifted", vocabulary=VOCABULARY, widths=WIDTHS
        )
        assert {finding.check for finding in found} == expected


def of_targets(rows: StoredRows, labels: NDArray[np.int64], *, first: bool = True) -> set[str]:
    """Return what is found of labels, of rows that say which tokens have a loss."""
    config = CausalLM(loss="targets", mask_first_token=not first)
    items = shown(rows, {"input_ids": rows.input_ids, "labels": labels}, vocabulary=VOCABULARY)
    found = label_findings(config, [items], convention="unshifted", vocabulary=VOCABULARY, widths=WIDTHS)
    return {finding.check for finding in found}


def test_causal_labels_are_held_to_the_loss_mask_token_by_token() -> None:
    rows = stored_rows(6)
    mask = rows.covered & (np.random.default_rng(2).random(rows.input_ids.shape) < 0.3)
    rows = replace(rows, loss_mask=mask.astype(np.uint8))
    labels = np.where(mask, rows.input_ids, IGNORED)
    assert of_targets(rows, labels) == set()
    for marked in (mask, ~mask & rows.covered):
        wrong, (row, place) = labels.copy(), np.argwhere(marked)[7]
        wrong[row, place] = IGNORED if mask[row, place] else rows.input_ids[row, place]
        assert of_targets(rows, wrong) == {"label_missing"}
    assert of_targets(rows, np.where(rows.covered, rows.input_ids, IGNORED)) == {"label_missing"}
    starts = labels.copy()
    starts[:, [0, LENGTH // 2 + 1]] = IGNORED
    assert of_targets(rows, starts, first=False) == set()


def test_rows_of_prompts_alone_have_no_label_and_no_finding() -> None:
    rows = stored_rows(3)
    rows = replace(rows, loss_mask=np.zeros(rows.input_ids.shape, np.uint8))
    assert of_targets(rows, np.full(rows.input_ids.shape, IGNORED)) == set()


def test_two_epochs_are_seen_where_epochs_differ() -> None:
    assert (num_epochs(CausalLM()), num_epochs(MaskedLM())) == (1, 2)


def test_a_finding_says_how_many_and_what_the_law_is() -> None:
    items = in_both(items_of(stored_rows()), inputs_clean)
    found = label_findings(CONFIG, [items], convention="masked", vocabulary=VOCABULARY, widths=WIDTHS)
    (message,) = (each.message for each in found if each.message.startswith("mask shown"))
    assert re.fullmatch(
        r"mask shown of selected: 0 of \d,\d{3}; the law says 0\.8, which is"
        r" [\d.]+ sigmas off, of at most 5",
        message,
    )
