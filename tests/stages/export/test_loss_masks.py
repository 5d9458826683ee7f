"""What exports promise of a dataset in which targets alone have a loss.

A format that can say so says so, token by token; one that holds ids alone is refused; rows have no label
on any other token.
"""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.errors import ConfigError
from stages.export import source
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents
from stages.export.source import ExportSource, open_source
from stages.export.table import FORMATS, refuse_loss_mask
from stages.objectives.rows import IGNORED
from tests.campaign import examples
from tests.stages.export.built_dataset import EOS, Documents, build_dataset

DOCUMENTS: list[Documents] = [[[10, 11, 12, 13, 14, EOS], [15, EOS]], [], [[EOS], [16, 17, 18, 19, EOS]]]
LOSSES: list[Documents] = [[[0, 0, 0, 1, 1, 1], [1, 1]], [], [[1], [0, 0, 0, 0, 1]]]
MASKS = {0: bytes([0, 0, 0, 1, 1, 1, 1, 1]), 2: bytes([1, 0, 0, 0, 0, 1])}
SILENT = [name for name, known in FORMATS.items() if known.holds is FormatContents.DOCUMENTS]
SILENT = [name for name in SILENT if not FORMATS[name].loss_masks]


def opened(root: Path) -> ExportSource:
    """Return a small split of three shards, the second empty."""
    path = build_dataset(root, {"train": DOCUMENTS}, losses={"train": LOSSES})
    return open_source(path, split="train")


def export(format_: Format, exported: ExportSource, folder: Path) -> dict[str, bytes]:
    """Write one split; give its files."""
    refuse_loss_mask(format_, exported)
    files = ExportFiles(folder, {})
    for shard in range(exported.num_shards):
        format_.write_part(exported, shard, files)
    format_.finish(exported, files)
    return {name: (folder / name).read_bytes() for name in files.written}


def test_olmo_core_gets_a_mask_beside_each_file_of_ids_and_lines_that_name_it(tmp_path: Path) -> None:
    exported = opened(tmp_path / "run")
    files = export(FORMATS["olmo-core"], exported, tmp_path / "out")
    masks = {name: data for name, data in files.items() if "label_mask" in name}
    assert masks == {f"train/label_mask/{n:05d}.npy": mask for n, mask in MASKS.items()}
    for name, mask in masks.items():
        ids = np.frombuffer(files[name.replace("label_mask/", "")], "<u2")
        assert len(np.frombuffer(mask, np.bool_)) == len(ids)
    lines = FORMATS["olmo-core"].read([exported], str(tmp_path / "out"))
    nodes = [node.value for node in ast.walk(ast.parse(lines)) if isinstance(node, ast.Constant)]
    paths = [value for value in nodes if isinstance(value, str) and "*" in value]
    assert paths == [f"{tmp_path}/out/train/{name}" for name in ("*.npy", "label_mask/*.npy")]
    found = [
        sorted(path.name for path in (tmp_path / "out" / "train").glob(name)) for name in ("*.npy",)
    ]
    assert found == [["00000.npy", "00002.npy"]], "no mask is taken for ids"


def test_datatrove_gets_its_own_file_of_losses_and_a_note_that_its_dataset_reads_none(
    tmp_path: Path,
) -> None:
    exported = opened(tmp_path / "run")
    files = export(FORMATS["datatrove"], exported, tmp_path / "out")
    losses = {name: data for name, data in files.items() if name.endswith(".loss")}
    assert losses == {f"train/{n:05d}.ds.loss": mask for n, mask in MASKS.items()}
    assert any("prompts are learned too" in note for note in FORMATS["datatrove"].notes([exported]))


def test_without_such_a_loss_no_mask_is_written_or_named(tmp_path: Path) -> None:
    plain = open_source(build_dataset(tmp_path / "run", {"train": DOCUMENTS}), split="train")
    for name in ("olmo-core", "datatrove"):
        files = export(FORMATS[name], plain, tmp_path / name)
        assert not [file for file in files if "mask" in file or "loss" in file]
        assert "mask" not in FORMATS[name].read([plain], "EXPORT")
        assert not [note for note in FORMATS[name].notes([plain]) if "loss" in note]


def test_the_formats_that_hold_ids_alone_are_found() -> None:
    assert set(SILENT) == {"megatron", "megatron-sentences", "nanogpt", "litdata", "array-record"}


@pytest.mark.parametrize("name", SILENT)
def test_a_format_of_ids_alone_is_refused_with_those_that_can_say_it(tmp_path: Path, name: str) -> None:
    said = r"only targets of tiny have a loss .* export it as olmo-core or datatrove"
    with pytest.raises(ConfigError, match=said):
        refuse_loss_mask(FORMATS[name], opened(tmp_path))
    plain = open_source(build_dataset(tmp_path / "plain", {"train": DOCUMENTS}), split="train")
    refuse_loss_mask(FORMATS[name], plain)


def test_rows_have_labels_on_targets_alone(tmp_path: Path) -> None:
    exported = opened(tmp_path)
    assert set(exported.columns) == {
        "attention_mask",
        "input_ids",
        "labels",
        "position_ids",
        "segment_ids",
    }
    rows = [row for block in exported.rows(0) for row in block["labels"].tolist()]
    assert sorted(rows) == sorted(
        [[14, EOS, IGNORED, IGNORED], [IGNORED, IGNORED, IGNORED, 13], [15, EOS, IGNORED, IGNORED]]
    )


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_losses_stay_with_their_tokens_in_blocks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    body = st.lists(st.integers(7, 299), max_size=15)
    shards = data.draw(st.lists(st.lists(body.map(lambda ids: [*ids, EOS]), max_size=5), max_size=3))
    shards.append([[7, EOS]])
    flags = [
        [data.draw(st.lists(st.integers(0, 1), min_size=len(one), max_size=len(one))) for one in shard]
        for shard in shards
    ]
    path = build_dataset(tmp_path_factory.mktemp("any"), {"train": shards}, losses={"train": flags})
    exported = open_source(path, split="train")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK_TOKENS", data.draw(st.integers(1, 20)))
        blocks = [block for n in range(len(shards)) for block in exported.blocks(n)]
    found = [
        flag for block in blocks if block.loss_mask is not None for flag in block.loss_mask.tolist()
    ]
    assert found == [flag for shard in flags for document in shard for flag in document]
