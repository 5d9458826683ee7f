"""What a run with framed rows refuses, finds and makes anew.

`verify` names frames that are missing, doubled or misplaced, though digests vouch for the files. To
frame rows changes their layout alone: tokens are encoded once for all framings of rows.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.inputs.files import InputFile
from pipeline.planning.plan import plan_steps
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session
from pipeline.session.verifying import verify_session
from stages.errors import ConfigError
from stages.store.digests import digest_file
from stages.store.manifest import Manifest, read_manifest, write_manifest
from tests.pipeline.row_framed import DATASETS, run_file, run_it, write_texts
from tests.stages.tokenizer.framed_files import tokenizer_of

pytestmark = pytest.mark.slow

END = 3
"""The id of [SEP]."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginnings of some bundled texts, numbered."""
    folder = tmp_path_factory.mktemp("framed")
    write_texts(folder)
    return folder


def sign_again(split: Path) -> None:
    """Make the manifest vouch for the files as they are now."""
    content = json.loads((split / "dataset.json").read_text())
    for shard in content["shards"]:
        for name in shard["files"]:
            shard["files"][name] = digest_file(split / shard["path"] / name).model_dump()
    write_manifest(split / "dataset.json", Manifest.model_validate(content).signed())


def change(
    split: Path, shard: str, name: str, changed: Callable[[NDArray[Any], NDArray[Any]], None]
) -> None:
    """Change a column of a shard, given it and which rows have an end of their own."""
    folder = split / shard
    column, added = np.load(folder / f"{name}.npy"), np.load(folder / "added_end.npy")
    changed(column, np.flatnonzero(added))
    np.save(folder / f"{name}.npy", column)
    sign_again(split)


def overwrite_begin(ids: NDArray[Any], _: NDArray[Any]) -> None:
    ids[1, 0] = ids[1, 1]


def lose_begin(ids: NDArray[Any], added: NDArray[Any]) -> None:
    ids[added[0], :-1] = ids[added[0], 1:]


def overwrite_end(ids: NDArray[Any], added: NDArray[Any]) -> None:
    place = np.flatnonzero(ids[added[0]] == END).max()
    ids[added[0], place] = ids[added[0], place - 1]


def repeat_begin(ids: NDArray[Any], _: NDArray[Any]) -> None:
    ids[2, 2] = ids[2, 0]


def claim_an_end(added: NDArray[Any], _: NDArray[Any]) -> None:
    added[np.argmin(added)] = 1


def deny_an_end(added: NDArray[Any], _: NDArray[Any]) -> None:
    added[np.argmax(added)] = 0


FAULTS = {
    "a row without what begins it": ("input_ids", overwrite_begin, "row_begin"),
    "a row moved over what begins it": ("input_ids", lose_begin, "row_begin"),
    "what begins rows within one": ("input_ids", repeat_begin, "row_begin"),
    "an end overwritten": ("input_ids", overwrite_end, "row_end"),
    "a document's end said to be added": ("added_end", claim_an_end, "added_end"),
    "an added end said to be a document's": ("added_end", deny_an_end, "added_end"),
}


@pytest.fixture(scope="module")
def one(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one dataset."""
    folder = tmp_path_factory.mktemp("one")
    tokenizer_of("bert", folder).save_pretrained(folder)
    datasets = [one for one in DATASETS if one["name"] == "mlm-full"]
    assert run_it(corpus, folder / "run", run_file(folder, datasets=datasets))["passed"]
    frame = read_manifest(folder / "run" / "datasets" / "mlm-full" / "train").row_frame
    assert frame == {"begin": 2, "end": END}
    return folder / "run"


@pytest.mark.parametrize("pair", list(zip(list(FAULTS)[::2], list(FAULTS)[1::2], strict=True)))
def test_a_planted_fault_is_named_though_the_manifest_vouches_for_it(
    pair: tuple[str, str], one: Path, tmp_path: Path
) -> None:
    """A fault in each of two shards."""
    run = tmp_path / "run"
    shutil.copytree(one, run)
    split = run / "datasets" / "mlm-full" / "train"
    for number, fault in enumerate(pair):
        name, plant, _ = FAULTS[fault]
        change(split, f"epoch-0000/{number:05d}", name, plant)
    report: Any = verify_session(run, workers=0, address=None, stream=None)
    assert report["passed"] is False
    findings = report["verify"]["mlm-full"]["findings"]
    for number, fault in enumerate(pair):
        shard = f"/epoch-0000/{number:05d}/"
        found = {one["check"] for one in findings if shard in one["file"]}
        assert FAULTS[fault][2] in found, fault
    checks = {finding["check"] for finding in findings}
    assert not checks & {"digests", "manifest"}, "signed again: digests pass"


def test_a_manifest_that_denies_the_frame_or_miscounts_it_is_named(one: Path, tmp_path: Path) -> None:
    """One manifest of each."""
    shutil.copytree(one, tmp_path / "run")
    train, validation = (
        tmp_path / "run" / "datasets" / "mlm-full" / name for name in ("train", "validation")
    )
    manifest = read_manifest(validation)
    assert manifest.row_frame is not None
    other = manifest.model_copy(update={"row_frame": {"end": manifest.row_frame["end"]}})
    write_manifest(validation / "dataset.json", other.signed())
    manifest = read_manifest(train)
    first, *rest = manifest.shards
    more = first.model_copy(update={"frame_tokens": first.frame_tokens + 1})
    miscounted = manifest.model_copy(update={"shards": (more, *rest)})
    write_manifest(train / "dataset.json", miscounted.signed())
    report: Any = verify_session(tmp_path / "run", workers=0, address=None, stream=None)
    findings = report["verify"]["mlm-full"]["findings"]
    for split, check in (("validation", "settings"), ("train", "token_conservation")):
        assert check in {one["check"] for one in findings if f"/{split}/" in one["file"]}


def fingerprints(folder: Path, **changes: Any) -> dict[str, str]:
    """Return the fingerprint of each step of a run that trains its tokenizer."""
    files = (InputFile("some", "a.jsonl", Path("/here/a.jsonl"), 10, "aa"),)
    changes = {"tokenizer": {}, "datasets": [{"name": "clm"}], **changes}
    return {step.name: step.fingerprint for step in plan_steps(run_file(folder, **changes), files)}


def test_to_frame_rows_lays_them_out_anew_and_nothing_else(tmp_path: Path) -> None:
    plain = fingerprints(tmp_path, framing={})
    assert fingerprints(tmp_path, framing={"per": "document"}) == plain
    framed = fingerprints(tmp_path, framing={"preset": "llama", "per": "row"})
    changed = {name for name in plain if framed[name] != plain[name]}
    assert changed == {"shard-clm", "verify-clm"}
    assert fingerprints(tmp_path, framing={"begin": "bos", "per": "row"}) == framed
    assert fingerprints(tmp_path, framing={"begin": "cls", "per": "row"})["shard-clm"] not in (
        plain["shard-clm"],
        framed["shard-clm"],
    )
    ended = fingerprints(tmp_path, framing={"per": "row"})
    assert {name for name in plain if ended[name] != plain[name]} == {"shard-clm", "verify-clm"}


@pytest.mark.parametrize(
    "kind", ["nsp", "sop", "bart", "span_corruption", "ul2", "fim", "simcse", "encoder_decoder"]
)
def test_objectives_that_frame_their_own_rows_are_refused(kind: str, tmp_path: Path) -> None:
    objective = {"kind": kind}
    if kind == "encoder_decoder":
        objective = {"kind": "prefix_lm", "architecture": kind}
    datasets = [{"name": "own", "objective": objective}]
    with pytest.raises(ValueError, match=r"rows itself, so framing\.per = 'row' cannot; leave"):
        run_file(tmp_path, datasets=datasets, tokenizer={})


def test_rows_too_short_for_a_frame_are_refused(corpus: Path, tmp_path: Path) -> None:
    short = {"seq_len": 2, "shards": 1}
    datasets = [{"name": "clm"}]
    with pytest.raises(ValueError, match=r"packing\.seq_len = 2: .* at least 3, of which one is text"):
        run_file(tmp_path, tokenizer={}, packing=short, datasets=datasets)
    run_file(tmp_path, tokenizer={}, packing=short, datasets=datasets, framing={"per": "row"})
    tokenizer_of("bert", tmp_path).save_pretrained(tmp_path)
    file = run_file(
        tmp_path, packing=short, datasets=datasets, framing={"preset": "tokenizer", "per": "row"}
    )
    with pytest.raises(ConfigError, match="at least 3, of which one is text; raise it"):
        plan_session(RunRequest(file, corpus, tmp_path / "run", 0))
