"""What verify promises of wrong datasets: each of some hundred faults, signed again, is found and named.

A slice of benchmarks/planted_faults.py: a dataset of each way of laying rows out and labelling them.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from planted_faults import CODE_FORM, OF_STORED, STORED_FORM, WRITTEN_FORM, alarms, plant

from pipeline.engine.tasks import Workspace
from pipeline.steps.verify.step import LearningCheck, learn
from stages.objectives.learning import LearningConfig
from stages.objectives.table import KINDS
from tests.campaign import FULL
from tests.material.code_faults import CODE
from tests.material.fault_material import OBJECTIVES, Material, make_material
from tests.material.written_faults import WRITTEN

NAMES = (
    "clm",
    "clm-first",
    "clm-targets",
    "unigram",
    "model",
    "fim",
    "fim-middle",
    "prompts",
    "prompts-packed",
    "ul2",
    "nsp",
    "sop",
    "crops",
    "whole-word",
)
"""A dataset of each way of laying rows out and labelling them."""
SOUND = ("clm-first", "clm-targets", "ul2", "nsp")
"""Those that are looked at as they are; `test_every_objective` looks at every kind."""
PLACES = len(NAMES) if FULL else 1
"""Of those that have a place for a fault, into how many it is planted."""


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """A run with a dataset of each."""
    size = "30KiB" if FULL else "100KiB"
    return make_material(tmp_path_factory.mktemp("faults"), seed=1, names=NAMES, unit_size=size)


@pytest.fixture(scope="module")
def cache() -> dict[str, Any]:
    """What checks keep from copy to copy."""
    return {}


def test_the_campaign_has_datasets_of_every_kind() -> None:
    assert {objective["kind"] for objective in OBJECTIVES.values()} == KINDS.keys()


def test_nothing_is_found_of_sound_datasets(material: Material, tmp_path: Path) -> None:
    assert alarms(material, NAMES if FULL else SOUND, root=tmp_path / "copy") == []


OF_LOSSES = {
    "the loss mask shifted by 1": "loss_mask",
    "a loss on one token of a prompt": "loss_mask",
    "a token of a target without a loss": "loss_mask",
    "a loss on padding": "loss_mask",
    "a border between documents moved by 1": "tokens",
    "another parameter declared": "settings",
}
"""Of rows of which only some tokens have a loss, and the checks that name them."""
CASES = [
    *(("clm", STORED_FORM, fault) for fault in OF_STORED),
    ("nsp", STORED_FORM, "room to borrow off by 1"),
    ("nsp", STORED_FORM, "an id of the store past the vocabulary"),
    ("nsp", STORED_FORM, "languages in the store that are numbers"),
    ("nsp", STORED_FORM, "the ends of sentences cut in the store"),
    ("nsp", STORED_FORM, "the end of a sentence moved"),
    ("nsp", STORED_FORM, "the end of a sentence moved in the store too"),
    *(("clm-targets", STORED_FORM, fault) for fault in OF_LOSSES),
    ("prompts", STORED_FORM, "a prompt off by 1"),
    ("prompts-packed", STORED_FORM, "a prompt of a segment off by 1"),
    ("ul2", STORED_FORM, "a component is another one"),
    ("unigram", STORED_FORM, "a frequency wrong"),
    ("whole-word", STORED_FORM, "the beginnings of words wrong"),
]


@pytest.fixture(scope="module")
def campaign(
    material: Material, cache: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str, str], Any]:
    """What became of each fault; nothing of those that a dataset has no place for."""
    root = tmp_path_factory.mktemp("copies") / "copy"
    laws = [(name, WRITTEN_FORM, fault) for name, fault in LAWS]
    found = {
        (name, form, fault): plant(material, name, form, fault, root=root, cache=cache)
        for name, form, fault in [*CASES, *laws]
    }
    faults = [*((WRITTEN_FORM, fault) for fault in WRITTEN), *((CODE_FORM, fault) for fault in CODE)]
    for number, (form, fault) in enumerate(faults):
        planted = 0
        turned = (*NAMES[number % len(NAMES) :], *NAMES[: number % len(NAMES)])
        for name in sorted(turned, key=lambda name: (name, form, fault) not in found):
            key = (name, form, fault)
            if planted < PLACES and key not in found:
                found[key] = plant(material, name, form, fault, root=root, cache=cache)
            planted += found.get(key) is not None
    return {key: case for key, case in found.items() if case is not None}


def test_every_planted_fault_is_caught_and_not_by_a_digest(
    campaign: dict[tuple[str, str, str], Any],
) -> None:
    assert [key for key, case in campaign.items() if not case.caught] == []
    assert not any("digests" in case.checks for case in campaign.values())
    assert len(campaign) > (200 if FULL else 60)


LAWS = {
    ("fim", "labels shifted by 1"): "label_alignment",
    ("whole-word", "every selected token masked"): "draws",
    ("whole-word", "a special id as a replacement"): "special_shown",
    ("sop", "labels on all tokens"): "draws",
    ("unigram", "one replaced label inverted"): "replaced",
    ("unigram", "an original id is another"): "original_ids",
    ("model", "a selected place is none"): "replaced",
    ("ul2", "decoder inputs not shifted"): "decoder_inputs",
    ("ul2", "targets without EOS"): "eos",
    ("ul2", "an input length off by 1"): "lengths",
    ("ul2", "sentinels of the targets permuted"): "not_restored",
    ("prompts", "prefix lengths off by 1"): "label_missing",
    ("prompts-packed", "prefixes of packed documents longer by 1"): "label_missing",
    ("fim", "positions run on over documents"): "positions",
    ("fim", "middle and suffix exchanged"): "not_restored",
    ("nsp", "pair labels inverted"): "not_restored",
    ("crops", "second views of other rows"): "not_restored",
}
"""Checks that name a fault for what it is, beside the one that draws all rows again."""


@pytest.mark.parametrize(("name", "fault"), LAWS)
def test_a_fault_is_named_for_what_it_is(
    campaign: dict[tuple[str, str, str], Any], name: str, fault: str
) -> None:
    assert LAWS[name, fault] in campaign[name, WRITTEN_FORM, fault].checks


@pytest.mark.parametrize("fault", OF_LOSSES)
def test_a_loss_in_a_wrong_place_is_named(campaign: dict[tuple[str, str, str], Any], fault: str) -> None:
    assert OF_LOSSES[fault] in campaign["clm-targets", STORED_FORM, fault].checks


def test_every_fault_has_a_place_in_some_dataset_of_the_slice(
    campaign: dict[tuple[str, str, str], Any],
) -> None:
    planted = {fault for _, _, fault in campaign}
    assert {*OF_STORED, *WRITTEN, *CODE} - planted == set()


TINY = LearningConfig(
    labelled_tokens=700, max_ids=128, heldout_rows=20, min_labelled_tokens=100, min_heldout_tokens=20
)
LEARNED = [name for name in NAMES if name != "sop"] if FULL else ["ul2"]
"""Those that a model learns; sop is learned as nsp is."""
EXACT = {"finite_share", "resume", "isolation"}
"""Gates that hold however little is learned."""


@pytest.mark.parametrize("name", LEARNED)
def test_a_model_trains_on_every_way_of_labelling_rows(
    material: Material, name: str, tmp_path: Path
) -> None:
    work = LearningCheck(name, ("train", "validation"), TINY, seed=1)
    record = learn(Workspace(material.root, tmp_path), work).model_dump()
    assert "reason" not in record
    held = {gate["name"]: gate for gate in record["gates"] if gate["name"] in EXACT}
    assert all(gate["passed"] for gate in held.values()), held
    assert ("resume" in held) is (name != "crops"), "views have a loss of their own"
    assert json.loads(json.dumps(record, allow_nan=False)) == record
