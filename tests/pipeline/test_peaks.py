"""What forecasts of memory promise: what was measured, and what larger parts and more processes add."""

from typing import Any

import pytest

from pipeline.engine.memory import MIB
from pipeline.run_file.config import RunFile
from pipeline.steps.decode.step import sampled_bytes
from pipeline.steps.tokenize.encode import LanguageTokens
from pipeline.tools.forecast.peaks import IDLE, RAY, TORCH, Parts, Peaks, peaks_of

HELD = {
    "scan": 100 * MIB,
    "ingest": 150 * MIB,
    "dedup": 140 * MIB,
    "tokenizer": 200 * MIB,
    "tokenize": 160 * MIB,
    "decode": 180 * MIB,
    "shard-clm": 170 * MIB,
    "verify-clm": 190 * MIB,
}
SMALL = Parts(unit=4 * MIB, documents=1_000, shard_documents=1_000, trained=4 * MIB)


def run_file(**changes: Any) -> RunFile:
    source = {"name": "texts", "paths": ["*.jsonl"]}
    content = {"sources": [source], "verify": {"learning": False}, "datasets": [{"name": "clm"}]}
    return RunFile.model_validate({**content, **changes})


def expected(after: Parts = SMALL, **changes: Any) -> Peaks:
    return peaks_of(run_file(**changes), HELD, before=SMALL, after=after)


def test_a_run_of_the_same_parts_holds_what_was_measured() -> None:
    peaks = expected()
    assert peaks.extra == {"tokenizer": HELD["tokenizer"] - HELD["ingest"]}
    assert peaks.with_workers(0) == HELD["tokenizer"]
    assert peaks.inline == {
        **HELD,
        "dedup": HELD["ingest"],  # what a step held stays with its process, but for training
        "shard-clm": HELD["decode"],
    }


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_each_worker_holds_what_this_process_would_beside_the_program(workers: int) -> None:
    each = HELD["verify-clm"] - HELD["scan"] + IDLE
    trainer = IDLE + HELD["tokenizer"] - HELD["ingest"]
    at_training = RAY + workers * (HELD["ingest"] - HELD["scan"] + IDLE) + trainer
    assert expected().with_workers(workers) == max(RAY + workers * each, at_training)


def test_larger_units_add_their_batches_and_their_ids() -> None:
    after = Parts(unit=64 * MIB, documents=1_000, shard_documents=1_000, trained=4 * MIB)
    added = {name: held - expected().inline[name] for name, held in expected(after).inline.items()}
    assert added["scan"] == 0
    assert added["ingest"] == added["dedup"] == 6 * 12 * MIB
    assert added["decode"] == added["verify-clm"] == 6 * 12 * MIB + 2 * 60 * MIB


def test_a_larger_sample_adds_to_the_training_alone() -> None:
    after = Parts(unit=4 * MIB, documents=1_000, shard_documents=1_000, trained=64 * MIB)
    peaks = expected(after)
    assert {**peaks.inline, "tokenizer": HELD["tokenizer"]} == expected().inline
    assert peaks.with_workers(0) == HELD["tokenizer"] + 10 * 60 * MIB
    path = {"path": "some.model"}
    assert not expected(after, tokenizer=path).extra


def test_more_documents_add_their_keys_and_the_lists_of_their_shard() -> None:
    after = Parts(unit=4 * MIB, documents=201_000, shard_documents=401_000, trained=4 * MIB)
    peaks = expected(after)
    assert peaks.inline["dedup"] == HELD["dedup"] + 100 * 200_000
    assert peaks.inline["verify-clm"] == HELD["verify-clm"] + 170 * 400_000


def test_models_that_learn_bring_torch() -> None:
    peaks = expected(verify={"learning": True})
    assert peaks.with_workers(0) == HELD["scan"] + TORCH
    each = HELD["verify-clm"] - HELD["scan"] + IDLE
    assert peaks.with_workers(2) == RAY + 2 * each + IDLE + TORCH


def test_decode_encodes_all_of_little_text_by_the_library_and_a_tenth_of_much() -> None:
    little = {"en": tokens(1_000, 3 << 20)}
    assert sampled_bytes(little) == 3 << 20
    assert sampled_bytes({name: tokens(1_100, 50_000_000) for name in ("en", "de")}) == pytest.approx(
        10**7
    )
    assert sampled_bytes({"en": tokens(10**7, 10**10)}) == 10**8


def tokens(documents: int, size: int) -> LanguageTokens:
    return LanguageTokens(documents=documents, bytes=size, tokens=1)
