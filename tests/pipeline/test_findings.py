"""What decode and verify find: one document, one token or one count that is wrong is enough.

The checks are called on copies of the small run, each with the least damage that it must see, and with
nothing else wrong that another check would name.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode.check import DecodeUnit, check_texts
from pipeline.steps.draw.step import DrawnRecord, DrawnWork, DrawWork, make_drawn
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.tokenize.encode import TokenizeUnit
from pipeline.steps.tokenizer.load import SPELLED_OUT, load_tokenizer, special_ids_of
from pipeline.steps.units import Unit, units_of
from pipeline.steps.verify.check import (
    ShardCheck,
    ShardFindings,
    SplitCheck,
    check_shard,
    check_split,
)
from pipeline.steps.verify.settings import Settings, check_settings
from stages.errors import DataError
from stages.objectives.clm.config import CausalLM
from stages.packing.layout import PackingConfig
from stages.store.drawn import DRAWN_NAME, DrawnManifest, write_drawn
from stages.store.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest, read_manifest, write_manifest
from stages.tokenizer.markup import SpelledOut

FOLDER = "datasets/clm/train"
SETTINGS = Settings(RowSettings(CausalLM(), PackingConfig(seq_len=256, shards=2), 11), 0)


@pytest.fixture
def space(reference: Path, tmp_path: Path) -> Workspace:
    """A copy of the small run that a test may damage."""
    (tmp_path / "folder").mkdir()
    return Workspace(Path(shutil.copytree(reference, tmp_path / "run")), tmp_path / "folder")


def units(space: Workspace) -> tuple[Unit, ...]:
    commits = dict(Commits(LocalStorage(space.root)).all("ingest"))
    return units_of(commits[STEP_COMMIT].read(IngestRecord).units)


def largest(space: Workspace) -> Unit:
    """Return the unit with most documents in the store."""
    return max(units(space), key=lambda unit: unit.documents)


def decoded(space: Workspace, unit: Unit) -> list[tuple[str, str]]:
    """Return what decode finds of a unit: checks and messages."""
    work = DecodeUnit(TokenizeUnit(unit, 2, 1, 11), sentences=False)
    return [(finding.check, finding.message) for finding in check_texts(space, work).findings]


def change(space: Workspace, key: str, how: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    """Write an array anew."""
    array = np.load(space.path(key))
    np.save(space.path(key), how(array).astype(array.dtype))


def test_a_document_more_in_the_offsets_than_listed_is_found(space: Workspace) -> None:
    unit = largest(space)
    change(space, f"{unit.tokens}/offsets.npy", lambda offsets: np.insert(offsets, 1, 1))
    change(space, f"{unit.tokens}/group_ptr.npy", lambda ptr: ptr + (ptr > 0))
    ((check, message),) = decoded(space, unit)
    assert check == "documents_kept"
    assert message.endswith(" in offsets.npy")


def test_other_pieces_of_the_same_text_and_number_are_found(space: Workspace) -> None:
    unit, tokenizer = largest(space), load_tokenizer(space)
    place = f"{unit.tokens}/ids.npy"
    ids = np.load(space.path(place))
    texts = tokenizer.decode([np.array([number]) for number in range(tokenizer.vocab_size)])
    known = {text: number for number, text in enumerate(texts) if text and "\ufffd" not in text}
    for at in range(len(ids) - 1):
        left, right = texts[ids[at]], texts[ids[at + 1]]
        whole = left + right
        others = [
            (known[whole[:cut]], known[whole[cut:]])
            for cut in range(1, len(whole))
            if cut != len(left) and left and right and {whole[:cut], whole[cut:]} <= known.keys()
        ]
        if others:
            ids[at : at + 2] = others[0]
            break
    else:
        raise AssertionError("no two tokens could be cut elsewhere")
    np.save(space.path(place), ids)
    ((check, message),) = decoded(space, unit)
    assert check == "pieces"
    assert message.startswith("1 of ")


def test_one_document_in_the_group_of_another_shard_is_found(space: Workspace) -> None:
    unit = largest(space)

    def moved(ptr: NDArray[Any]) -> NDArray[Any]:
        assert ptr[1] < ptr[2]
        ptr[1] += 1
        return ptr

    change(space, f"{unit.tokens}/group_ptr.npy", moved)
    ((check, message),) = decoded(space, unit)
    assert check == "placement"
    assert message.startswith("1 documents stand in the group of another shard")


@pytest.mark.parametrize("column", ["own_id", "language", "position"])
def test_what_the_store_says_of_a_document_is_held_to_ingest(column: str, space: Workspace) -> None:
    unit = largest(space)
    place = space.path(f"{unit.tokens}/documents.parquet")
    table = pq.read_table(place)
    values = table.column(column).to_pylist()
    values[-1] = values[-1] + 1 if column == "position" else f"{values[-1]}x"
    number = table.schema.get_field_index(column)
    field = table.schema.field(number)
    pq.write_table(table.set_column(number, field, pa.array(values, field.type)), place)
    ((check, message),) = decoded(space, unit)
    assert check == "documents"
    assert f"another {column} of" in message


def of_shard(space: Workspace) -> ShardFindings:
    """Return what verify reports of the first shard."""
    return check_shard(space, ShardCheck(units(space), "clm", "train", 0, 0, 2, SETTINGS))


def sign(space: Workspace, **changes: object) -> Manifest:
    """Sign the manifest of the training split with other content."""
    manifest = read_manifest(space.path(FOLDER)).model_copy(update=changes).signed()
    write_manifest(space.path(f"{FOLDER}/{MANIFEST_NAME}"), manifest)
    return manifest


def test_a_sound_shard_is_counted(space: Workspace) -> None:
    record = of_shard(space)
    shard = read_manifest(space.path(FOLDER)).shards[0]
    ids = np.load(space.path(f"{FOLDER}/{shard.path}/input_ids.npy"))
    lengths = np.load(space.path(f"{FOLDER}/{shard.path}/segments/length.npy"))
    assert record.findings == ()
    assert (record.rows, record.documents) == (len(ids), shard.documents)
    assert record.tokens == lengths.sum()
    assert record.padding == ids.size - lengths.sum()
    assert record.padding == (ids == special_ids_of(space.root)["pad"]).sum()
    assert record.padding > 0


@pytest.mark.parametrize("count", ["tokens", "tokens_cut", "documents"])
def test_a_count_of_a_shard_that_is_off_by_one_is_found(count: str, space: Workspace) -> None:
    first, *rest = read_manifest(space.path(FOLDER)).shards
    wrong = first.model_copy(update={count: getattr(first, count) + 1})
    sign(space, shards=(wrong, *rest))
    ((check, message),) = [(found.check, found.message) for found in of_shard(space).findings]
    assert check == ("documents" if count == "documents" else "token_conservation")
    assert f"{getattr(first, count) + 1:,}" in message


@pytest.mark.parametrize("shards", [1, 3])
def test_a_manifest_with_more_or_fewer_shards_than_the_run_is_found(
    shards: int, space: Workspace
) -> None:
    found = check_split(space, SplitCheck("clm", "train", shards, SETTINGS, ("train", "validation")))
    messages = [finding.message for finding in found.findings if finding.check == "shards"]
    assert messages == [f"names 2 shards of {shards}"]


@pytest.mark.parametrize(("there", "asked"), [(0, 1), (1, 0), (2, 1), (1, 1)])
def test_epochs_on_disk_are_as_many_as_the_run_has(there: int, asked: int, space: Workspace) -> None:
    manifest = read_manifest(space.path(FOLDER))
    if there:
        drawn = DrawnManifest(
            format_version=FORMAT_VERSION,
            dataset=manifest.fingerprint,
            epochs=there,
            generator="",
            columns={},
            shards=((),) * there,
        )
        write_drawn(space.path(f"{FOLDER}/{DRAWN_NAME}"), drawn.signed())
    found = [f for _, f in check_settings(space, FOLDER, manifest, replace(SETTINGS, epochs=asked))]
    assert ["epochs"] * (there != asked) == [finding.check for finding in found]


def test_special_ids_are_held_to_those_of_the_run_and_not_of_the_file(space: Workspace) -> None:
    manifest = read_manifest(space.path(FOLDER))
    right = special_ids_of(space.root)
    wrong = right | {"mask": right["cls"], "cls": right["mask"]}
    for ids, expected in ((right, []), (wrong, ["settings", "special_ids"])):
        found = check_settings(space, FOLDER, manifest, replace(SETTINGS, special_ids=ids))
        assert [finding.check for _, finding in found] == expected


def test_what_is_spelled_out_is_held_to_what_the_run_says(space: Workspace) -> None:
    manifest = read_manifest(space.path(FOLDER))
    own = {"chats": SpelledOut(ids={"<think>": 5}, in_answers=False)}
    other = {"chats": SpelledOut(ids={"<think>": 5}, in_answers=True)}
    place = space.path(SPELLED_OUT)
    for kept, said, differ in (
        (own, own, []),
        (own, {}, ["chats"]),
        ({}, own, ["chats"]),
        (own, other, ["chats"]),
    ):
        place.write_text(json.dumps(kept))
        found = check_settings(space, FOLDER, manifest, replace(SETTINGS, spelled_out=said))
        assert [one.message.split()[0] for file, one in found if file == SPELLED_OUT] == differ
    place.unlink()


def test_epochs_drawn_by_two_versions_of_a_model_are_refused(space: Workspace) -> None:
    def part(number: int, generator: str) -> tuple[DrawWork, Commit]:
        record = DrawnRecord(rows=1, columns={}, counts={}, generator=generator)
        content = record.model_dump(mode="json")
        commit = Commit(step="draw-clm", unit="u", fingerprint="f", files={}, record=content)
        return DrawWork("clm", "train", number, 0), commit

    with pytest.raises(DataError, match=r"several versions of a model \(v1, v2\)"):
        make_drawn(space, DrawnWork("clm", "train", 1, (part(0, "v1"), part(1, "v2"))))
