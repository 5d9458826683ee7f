"""What the audit of a mix promises.

A mix that holds what was asked passes. Copies that are missing, sources that are exchanged, a share that
packing changes, and an order that is not mixed are each found, by name and with the way out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stages.loading.order import shuffled
from stages.mixing.amounts import missed_total
from stages.mixing.audit import CountedMix, add_classes, audit_mix
from stages.mixing.audited import PackedClass
from stages.mixing.classes import BINS, NO_WEIGHT, MixClass
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.later_generations import LaterShare
from stages.mixing.pools import DrawnSource
from stages.mixing.windows import row_entries, sum_rows, sum_windows, window_positions

ROWS = 4_000
NAMES = ("web", "wiki", "old")
SHARES = (0.6, 0.25, 0.15)
MIX = {"sources": {"web": SourceMix(), "wiki": SourceMix(epochs=2.0), "old": SourceMix(share=0.15)}}


def planned(**changes: Any) -> list[MixClass]:
    """Return the classes of a mix of ROWS rows of 100 tokens, a document each."""
    found = []
    for name, share in zip(NAMES, SHARES, strict=True):
        documents, passes = int(ROWS * share), 2 if name == "wiki" else 1
        one = MixClass(
            source=name,
            language="en",
            end=passes * BINS,
            available_documents=documents // passes,
            available_tokens=documents * 100 // passes,
            documents=documents,
            tokens=documents * 100,
        )
        found.append(one.model_copy(update=changes.get(name, {})))
    return found


def packed(numbers: Sequence[int], *, cut: int = 0, longest: int = 100) -> tuple[PackedClass, ...]:
    """Return what was counted, by documents of 100 tokens; `cut` of the last source's are in no row."""
    return tuple(
        PackedClass(
            source=name,
            language="en",
            documents=documents,
            tokens=documents * 100 - (cut if name == NAMES[-1] else 0),
            tokens_cut=cut if name == NAMES[-1] else 0,
            longest=longest,
        )
        for name, documents in zip(NAMES, numbers, strict=True)
    )


SOUND = packed([2400, 1000, 600])


def counted(
    found: tuple[PackedClass, ...] = SOUND,
    classes: Sequence[MixClass] = (),
    *,
    shuffle: bool = True,
    **settings: Any,
) -> CountedMix:
    """Return a mix whose rows lie source by source, read in a drawn order or as they lie."""
    source = np.repeat(np.arange(3), [2400, 1000, 600])
    entries = row_entries(ROWS, np.arange(ROWS), source, np.full(ROWS, 100))
    order = window_positions(ROWS)
    if shuffle:
        order = shuffled(order, ROWS, seed=7, epoch=0)
    windows = sum_windows(entries, NAMES, order=order, first=0, size=1000)
    mix = DatasetMix.model_validate({**MIX, **settings})
    rows = sum_rows(entries, NAMES)
    return CountedMix(mix, {"old": 0.15}, classes or planned(), found, rows, windows)


def test_a_sound_mix_passes_with_every_number() -> None:
    audit, found = audit_mix(counted())
    assert found == []
    assert all(gate.passed for gate in audit.gates)
    assert [(one.source, one.share, one.epochs, one.difference) for one in audit.sources] == [
        ("web", 0.6, 1.0, None),
        ("wiki", 0.25, 2.0, None),
        ("old", 0.15, 1.0, 0.0),
    ]
    (language,) = audit.languages
    assert (language.available_tokens, language.tokens, language.documents) == (350_000, 400_000, 4_000)
    assert audit.windows is not None
    assert audit.windows.starts == (0, 1000, 2000, 3000)
    assert [one.beyond_sigmas for one in audit.windows.sources] == [0, 0, 0]


@pytest.mark.parametrize("numbers", [[2400, 999, 600], [2400, 600, 1000], [2399, 1001, 600]])
def test_dropped_and_exchanged_copies_are_found(numbers: list[int]) -> None:
    audit, (first, *_) = audit_mix(counted(packed(numbers)))
    assert first.check == "mix_copies"
    assert "'wiki'" in first.message
    assert "the mix takes 1,000 with 100,000" in first.message
    assert "--replace" in first.message
    assert not audit.gates[0].passed


def test_documents_of_a_source_that_the_mix_does_not_take_are_found() -> None:
    extra = PackedClass(source="web", language="de", documents=1, tokens=1, tokens_cut=0, longest=1)
    _, found = audit_mix(counted((*SOUND, extra)))
    assert [one.check for one in found] == ["mix_copies"]
    assert "language 'de'" in found[0].message


def test_a_share_that_packing_cuts_is_found_with_the_way_out() -> None:
    audit, (only,) = audit_mix(counted(packed([2400, 1000, 600], cut=6_000)))
    assert only.check == "mix_share"
    said = only.message
    for part in ("'old'", "share = 0.15", "13.7056%", "1.294 points off", "6,000 of its 60,000 tokens"):
        assert part in said
    assert "packing.strategy" in said
    assert "set mix.tolerance to 0.013 or more" in said
    assert not audit.gates[1].passed
    loose = counted(packed([2400, 1000, 600], cut=6_000), tolerance=0.013)
    assert audit_mix(loose)[1] == []


def test_rows_that_lie_source_by_source_fail_their_windows() -> None:
    audit, found = audit_mix(counted(shuffle=False))
    assert {one.check for one in found} == {"mix_windows"}
    assert len(found) == len(NAMES)
    assert "of rows 2,000 to 2,999" in found[0].message or "of rows 3,000" in found[0].message
    assert [gate.passed for gate in audit.gates] == [True, True, False, False, False]


def test_a_drawn_order_is_not_exact() -> None:
    _, found = audit_mix(counted(interleave="exact"))
    assert {one.check for one in found} == {"mix_windows"}
    assert "at most 0.500 pass" in found[0].message
    assert "mix.tolerance" in found[0].message


def test_classes_at_their_most_are_named_unless_that_was_asked_for() -> None:
    assert audit_mix(counted())[0].capped == ()
    bounded = {**MIX["sources"], "old": SourceMix(share=0.15, max_epochs=1.0)}
    assert audit_mix(counted(sources=bounded))[0].capped == ("old/en",)
    asked = {**MIX["sources"], "wiki": SourceMix(epochs=2.0, max_epochs=2.0)}
    assert audit_mix(counted(sources=asked))[0].capped == ()


def test_documents_without_weight_are_counted() -> None:
    nothing = planned()[0].model_copy(
        update={"level": NO_WEIGHT, "end": 0, "documents": 0, "tokens": 0, "available_documents": 12}
    )
    audit, found = audit_mix(counted(classes=[*planned(), nothing]))
    assert (audit.without_weight, found) == (12, [])


def test_parts_add_up_to_the_whole() -> None:
    one, other = packed([1, 2, 3], longest=7), packed([10, 20, 30], cut=5)
    added = add_classes([one, other, ()])
    assert [(own.source, own.documents, own.tokens, own.tokens_cut, own.longest) for own in added] == [
        ("old", 33, 3295, 5, 100),
        ("web", 11, 1100, 0, 100),
        ("wiki", 22, 2200, 0, 100),
    ]


def test_an_empty_mix_has_no_windows_and_no_shares() -> None:
    mix = DatasetMix.model_validate(MIX)
    rows = sum_rows(row_entries(0, *(np.zeros(0, np.int64),) * 3), NAMES)
    audit, found = audit_mix(CountedMix(mix, {}, (), (), rows, {}))
    assert (audit.windows, audit.tokens, found) == (None, 0, [])


def drawn(name: str, tokens: float, *, sigma: float = 0.0, largest: int = 100) -> DrawnSource:
    """Return what is asked of a source with epochs."""
    return DrawnSource(source=name, available=100, tokens=tokens, sigma=sigma, largest=largest)


@pytest.mark.parametrize(
    ("sigma", "off", "passes"), [(0, 0, True), (0, 1, False), (500, 2_000, True), (500, 2_001, False)]
)
def test_epochs_are_held_within_four_standard_deviations(
    sigma: float, off: int, *, passes: bool
) -> None:
    asked = [drawn("web", 240_000 - off, sigma=sigma), drawn("wiki", 100_000)]
    audit, found = audit_mix(replace(counted(), asked=asked))
    assert [one.check for one in found] == ([] if passes else ["mix_epochs"])
    gates = {gate.name: gate for gate in audit.gates}
    assert gates["tokens off the asked epochs: web"].passed == passes
    assert gates["tokens off the asked epochs: web"].value == off
    assert gates["tokens off the asked epochs: wiki"].passed
    if not passes:
        assert "source 'web': epochs = 1 ask for" in found[0].message
        assert "240,000" in found[0].message


@pytest.mark.parametrize(("total", "passes"), [(398_000, True), (397_900, True), (397_800, False)])
def test_the_total_is_held_within_a_document_and_half_a_percent(total: int, *, passes: bool) -> None:
    audit, found = audit_mix(replace(counted(total_tokens=total), largest=150))
    assert audit.total_bound == 150 + total * 0.005
    assert [one.check for one in found] == ([] if passes else ["mix_total"])
    assert [gate.passed for gate in audit.gates if "total_tokens" in gate.name] == [passes]
    before, none = audit_mix(replace(counted(total_tokens=total), largest=150, asked=None))
    assert none == []
    assert len(list(missed_total(before, "d"))) == (not passes)
    assert list(missed_total(audit, "d")) == []


def test_tokens_that_packing_cuts_are_named_where_the_total_is_missed() -> None:
    _, found = audit_mix(
        counted(packed([2400, 1000, 600], cut=6_000), total_tokens=400_000, tolerance=0.1)
    )
    (only,) = found
    assert only.check == "mix_total"
    assert "the rows hold 394,000: 6,000 off, and at most 2,100 pass" in only.message
    assert "packing left 6,000 tokens in no row" in only.message


def test_rows_of_a_later_generation_are_held_to_the_planned_shares() -> None:
    shares = {"web": None, "wiki": None, "old": 0.4}
    later = [
        LaterShare(source=name, share_asked=share, share=own, share_all=0.3, left_out=0)
        for (name, share), own in zip(shares.items(), SHARES, strict=True)
    ]
    audit, found = audit_mix(replace(counted(), later=later))
    assert found == []
    old = audit.sources[2]
    assert (old.share_asked, old.share_planned, old.share_all, old.difference) == (0.4, 0.15, 0.3, 0.0)
    assert audit.gates[1].name == "points off the planned share"
    off = [one.model_copy(update={"share": 0.1}) for one in later]
    _, (only,) = audit_mix(replace(counted(), later=off))
    assert "10.0000% of this generation is planned" in only.message


def test_documents_without_a_copy_are_counted() -> None:
    half = planned(web={"end": BINS // 2, "documents": 1_000})
    audit, _ = audit_mix(counted(classes=half))
    assert [one.left_out for one in audit.sources] == [1_400, 0, 0]
    none = planned(web={"end": 0, "documents": 0, "level": NO_WEIGHT})
    assert audit_mix(counted(classes=none))[0].sources[0].left_out == 0


@pytest.mark.parametrize(("sigma", "bound"), [(0.0, 0.0), (1.0, 100.0), (25.0, 100.0), (30.0, 120.0)])
def test_a_draw_may_be_off_by_its_largest_bin_and_a_whole_number_of_epochs_by_nothing(
    sigma: float, bound: float
) -> None:
    assert drawn("web", 1_000, sigma=sigma, largest=100).bound == bound
