"""What the checks of labels promise.

Columns as the loader makes them give no finding; each fault that a masking loader can have gives one
under its own name; no law of chance is so tight that it fails where little was drawn.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.objectives.clm import CausalLM
from stages.objectives.laws.chance import deviation
from stages.objectives.laws.masks import MaskCounts
from stages.objectives.mlm import MaskedLM, Selection, mask_tokens
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.table import widths_of
from stages.objectives.vocabulary import vocabulary_of
from stages.verify.drawn import Items
from stages.verify.labels import label_findings, num_epochs

SPECIAL = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "cls": 4, "mask": 5}
VOCABULARY = vocabulary_of(300, SPECIAL, np.arange(300) % 3 != 0)
EOS, PAD, MASK = SPECIAL["eos"], SPECIAL["pad"], SPECIAL["mask"]
ROWS, LENGTH = 400, 64
CONFIG = MaskedLM()
WIDTHS = widths_of(CONFIG, LENGTH)
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
    drawn = mask_tokens(rows, config, VOCABULARY, widths_of(config, rows.input_ids.shape[1]))
    return {name: column.astype(np.int64) for name, column in drawn.items()}


def items_of(rows: StoredRows, config: MaskedLM = CONFIG) -> Items:
    epochs = tuple(columns_of(replace(rows, epoch=epoch), config) for epoch in range(2))
    return Items(rows, epochs)


def broken(
    items: Items | list[Items], config: MaskedLM = CONFIG, convention: str = "masked"
) -> set[str]:
    parts = items if isinstance(items, list) else [items]
    found = label_findings(config, parts, convention=convention, vocabulary=VOCABULARY, widths=WIDTHS)
    return {finding.check for finding in found}


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
    parts = [
        Items(
            whole.rows.take(np.arange(start, start + 100)),
            tuple(
                {name: column[start : start + 100] for name, column in epoch.items()}
                for epoch in whole.epochs
            ),
        )
        for start in range(0, ROWS, 100)
    ]
    assert broken(parts) == set()
    clean = {**parts[3].epochs[0], "input_ids": parts[3].rows.input_ids}
    epochs = (clean, *parts[3].epochs[1:])
    assert "mask_share" in broken([*parts[:3], replace(parts[3], epochs=epochs)])


def in_both(items: Items, change: Callable[[Items, Columns], Columns]) -> Items:
    """Plant a fault into both epochs."""
    return replace(items, epochs=tuple(change(items, epoch) for epoch in items.epochs))


def restored(columns: Columns) -> NDArray[np.int64]:
    return np.where(columns["labels"] == IGNORED, columns["input_ids"], columns["labels"])


def labels_everywhere(items: Items, columns: Columns) -> Columns:
    return {**columns, "labels": np.where(items.rows.covered, restored(columns), IGNORED)}


def labels_off_by_one(_: Items, columns: Columns) -> Columns:
    return {**columns, "labels": np.roll(columns["labels"], -1, axis=1)}


def inputs_clean(_: Items, columns: Columns) -> Columns:
    return {**columns, "input_ids": restored(columns)}


def unselected_changed(_: Items, columns: Columns) -> Columns:
    input_ids = columns["input_ids"].copy()
    input_ids[3, int(np.argmax(columns["labels"][3] == IGNORED))] = 299
    return {**columns, "input_ids": input_ids}


def eos_selected(items: Items, columns: Columns) -> Columns:
    labels = np.where(items.rows.input_ids == EOS, EOS, columns["labels"])
    return {**columns, "labels": labels}


def padding_selected(items: Items, columns: Columns) -> Columns:
    return {**columns, "labels": np.where(items.rows.covered, columns["labels"], PAD)}


def show(id_: int) -> Callable[[Items, Columns], Columns]:
    """Return a fault: random replacements are all this id."""

    def plant(items: Items, columns: Columns) -> Columns:
        changed = (columns["input_ids"] != items.rows.input_ids) & (columns["input_ids"] != MASK)
        return {**columns, "input_ids": np.where(changed, id_, columns["input_ids"])}

    return plant


def always_masked(_: Items, columns: Columns) -> Columns:
    return {**columns, "input_ids": np.where(columns["labels"] == IGNORED, columns["input_ids"], MASK)}


def never_kept(items: Items, columns: Columns) -> Columns:
    kept = (columns["labels"] != IGNORED) & (columns["input_ids"] == items.rows.input_ids)
    return {
        **columns,
        "input_ids": np.where(kept, (items.rows.input_ids + 1) % 200 + 50, columns["input_ids"]),
    }


def half_selected(_: Items, columns: Columns) -> Columns:
    drop = (columns["labels"] != IGNORED) & (np.arange(LENGTH) % 2 == 0)
    return {
        "input_ids": np.where(drop, restored(columns), columns["input_ids"]),
        "labels": np.where(drop, IGNORED, columns["labels"]),
    }


FAULTS: dict[str, tuple[Callable[[Items, Columns], Columns], set[str]]] = {
    "labels everywhere": (labels_everywhere, {"label_on_special", "mask_rate", "kept_share"}),
    "labels off by one": (labels_off_by_one, {"not_restored", "label_on_special", "label_on_padding"}),
    "inputs show the labels": (inputs_clean, {"mask_share", "random_share", "kept_share"}),
    "a position changed without a label": (unselected_changed, {"not_restored"}),
    "EOS selected": (eos_selected, {"label_on_special"}),
    "padding selected": (padding_selected, {"label_on_padding"}),
    "random ids special": (show(SPECIAL["cls"]), {"special_shown"}),
    "random ids outside the vocabulary": (show(300), {"special_shown"}),
    "random ids negative": (show(-1), {"special_shown"}),
    "always the mask": (always_masked, {"mask_share", "random_share", "kept_share"}),
    "never kept": (never_kept, {"random_share", "kept_share"}),
    "half as many": (half_selected, {"mask_rate"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_planted_fault_is_found_under_its_name(name: str) -> None:
    change, expected = FAULTS[name]
    assert expected <= broken(in_both(items_of(stored_rows()), change))


@pytest.mark.parametrize("selection", ALONE)
def test_the_same_mask_in_every_epoch_is_found(selection: Selection) -> None:
    config = MaskedLM(selection=selection)
    items = items_of(stored_rows(), config)
    assert broken(replace(items, epochs=items.epochs[:1] * 2), config) == {"epoch_overlap", "redrawn"}


@pytest.mark.parametrize("selection", Selection)
def test_masks_that_another_seed_drew_are_found(selection: Selection) -> None:
    """They follow every law of masks, so nothing but drawing them again can tell."""
    config, rows = MaskedLM(selection=selection), stored_rows()
    others = items_of(replace(rows, seed=rows.seed + 1), config)
    assert broken(replace(others, rows=rows), config) == {"redrawn"}


@pytest.mark.parametrize("selection", [Selection.WHOLE_WORD, Selection.NGRAM])
def test_what_is_selected_together_is_drawn_anew_and_compared(selection: Selection) -> None:
    config = MaskedLM(selection=selection)
    items = items_of(stored_rows(), config)
    alike = replace(items, epochs=items.epochs[:1] * 2)
    assert broken(alike, config) == {"redrawn"}
    assert "not_restored" in broken(in_both(items, unselected_changed), config)
    assert broken(in_both(items, show(300)), config) == {"ids_in_range", "redrawn"}


@pytest.mark.parametrize("selection", ALONE)
def test_the_same_mask_in_every_row_is_found(selection: Selection) -> None:
    config = MaskedLM(selection=selection)
    rows = stored_rows()
    rows = replace(rows, numbers=np.zeros_like(rows.numbers))
    assert "row_overlap" in broken(items_of(rows, config), config)


def test_a_moved_mask_in_the_other_epoch_is_found_when_it_avoids_the_first() -> None:
    """Epochs that share no position are no more independent than epochs that share all.

    The masks of the positions that they shared are left without a label, which is found too.
    """
    items = items_of(stored_rows())
    first, second = items.epochs
    shared = (first["labels"] != IGNORED) & (second["labels"] != IGNORED)
    apart = {**second, "labels": np.where(shared, IGNORED, second["labels"])}
    found = broken(replace(items, epochs=(first, apart)))
    assert found == {"epoch_overlap", "label_missing", "redrawn"}


def test_another_number_than_the_exact_one_is_found() -> None:
    config = MaskedLM(selection=Selection.EXACT)
    assert "mask_count" in broken(items_of(stored_rows(), CONFIG), config)


@pytest.mark.parametrize("convention", ["unshifted", "shifted", "no such convention"])
def test_another_label_convention_is_found(convention: str) -> None:
    assert broken(items_of(stored_rows()), convention=convention) == {"label_convention"}


def test_causal_inputs_that_are_not_the_stored_ids_are_found() -> None:
    rows = stored_rows(4)
    labels = np.where(rows.covered, rows.input_ids, IGNORED)
    items = Items(rows, ({"input_ids": rows.input_ids, "labels": labels},))
    wrong = rows.input_ids.copy()
    wrong[2, 5] += 1
    other = replace(items, rows=replace(rows, input_ids=wrong))
    for changed, expected in ((items, set()), (other, {"inputs"})):
        found = label_findings(
            CausalLM(), [changed], convention="unshifted", vocabulary=VOCABULARY, widths=WIDTHS
        )
        assert {finding.check for finding in found} == expected


def test_two_epochs_are_seen_where_epochs_differ() -> None:
    assert (num_epochs(CausalLM()), num_epochs(MaskedLM())) == (1, 2)


def test_the_sums_over_parts_are_those_over_all() -> None:
    both = MaskCounts(maskable=3, rows_mean=0.5) + MaskCounts(maskable=4, selected=1, rows_mean=0.25)
    assert both == MaskCounts(maskable=7, selected=1, rows_mean=0.75)


def test_a_count_may_lie_five_sigma_off_and_more_where_counts_are_few() -> None:
    assert [round(deviation(variance), 1) for variance in (0, 100, 10_000)] == [8.3, 54.3, 504.2]


def test_a_finding_says_how_many_and_what_the_law_is() -> None:
    items = in_both(items_of(stored_rows()), inputs_clean)
    found = label_findings(CONFIG, [items], convention="masked", vocabulary=VOCABULARY, widths=WIDTHS)
    (message,) = (finding.message for finding in found if finding.check == "mask_share")
    assert message.startswith("0 positions are masked; the law says ")
