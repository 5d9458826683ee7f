"""What the formats of raw documents promise.

Their bytes are those of the table in each module; every token of every document comes back, in order,
read as the trainer reads it; what a format cannot hold is refused and never wrapped.
"""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.errors import ConfigError, FormatError
from stages.export import litdata, megatron, source
from stages.export.datatrove import human_count
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents
from stages.export.source import ExportSource, open_source
from stages.export.table import FORMATS, refuse_vocabulary
from stages.loading.dataset import open_dataset
from stages.loading.split_reader import SplitReader
from stages.store.arrays import write_array
from stages.store.digests import digest_file
from stages.store.manifest import MANIFEST_NAME, Manifest, read_manifest, write_manifest
from tests.campaign import examples
from tests.stages.export.built_dataset import EOS, Documents, build_dataset
from tests.stages.export.rows_on_disk import require_named

DOCUMENTS: list[Documents] = [[[10, 11, 12, 13, 14, EOS], [15, EOS]], [], [[EOS], [16, 17, 18, 19, EOS]]]
"""Of three shards, the second without any."""
SENTENCE_ENDS = [[[3, 6], [2]], [], [[1], [1, 3, 5]]]
FLAT = [token for shard in DOCUMENTS for document in shard for token in document]
IDS = "0a000b000c000d000e0002000f000200020010001100120013000200"
IDX_HEAD = "4d4d4944494458000001000000000000000804000000000000000500000000000000"
RAW = [
    known
    for known in FORMATS.values()
    if known.holds is FormatContents.DOCUMENTS
    and known.name != "array-record"  # it has tests of its own
]


def export(format_: Format, opened: ExportSource, folder: Path) -> dict[str, bytes]:
    """Write one split; give its files."""
    format_.refuse(opened)
    files = ExportFiles(folder, {})
    for shard in range(opened.num_shards):
        format_.write_part(opened, shard, files)
    format_.finish(opened, files)
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    assert files.written.keys() == found.keys()
    require_named(format_, found)
    for name, path in found.items():
        assert files.written[name].sha256 == digest_file(path).sha256
    return {name: path.read_bytes() for name, path in found.items()}


def tiny(root: Path, *, vocab_size: int = 300, sentences: bool = False) -> ExportSource:
    ends = {"train": SENTENCE_ENDS} if sentences else None
    path = build_dataset(root, {"train": DOCUMENTS}, vocab_size=vocab_size, sentences=ends)
    return open_source(path, split="train")


def i32(*numbers: int) -> str:
    return np.array(numbers, "<i4").tobytes().hex()


def i64(*numbers: int) -> str:
    return np.array(numbers, "<i8").tobytes().hex()


def test_the_raw_formats_are_found() -> None:
    assert {known.name for known in RAW} >= {"megatron", "megatron-sentences", "nanogpt", "olmo-core"}


def test_nanogpt_has_the_bytes_of_its_table(tmp_path: Path) -> None:
    files = export(FORMATS["nanogpt"], tiny(tmp_path / "run"), tmp_path / "out")
    assert files.keys() == {"train.bin", "meta.pkl"}
    assert files["train.bin"].hex() == IDS
    assert pickle.loads(files["meta.pkl"]) == {"vocab_size": 300}  # noqa: S301  # our own


def test_nanogpt_says_which_of_the_files_that_it_needs_is_not_there(tmp_path: Path) -> None:
    source = tiny(tmp_path / "run")
    assert source.split == "train"
    notes = FORMATS["nanogpt"].notes([source])
    assert [note for note in notes if "val.bin" in note] == [notes[0]]
    assert "set validation.fraction" in notes[0]
    assert not any("train.bin" in note for note in notes)


def test_nanogpt_says_once_how_many_ids_there_are_however_many_splits(tmp_path: Path) -> None:
    path = build_dataset(tmp_path / "run", {"train": DOCUMENTS, "validation": DOCUMENTS[:1]})
    files = ExportFiles(tmp_path / "out", {})
    for split in ("train", "validation"):
        FORMATS["nanogpt"].finish(open_source(path, split=split), files)
    assert (tmp_path / "out" / "meta.pkl").read_bytes() == pickle.dumps({"vocab_size": 300}, protocol=4)


def test_olmo_core_writes_no_time_into_its_borders(tmp_path: Path) -> None:
    files = export(FORMATS["olmo-core"], tiny(tmp_path / "run"), tmp_path / "out")
    tables = [data for name, data in files.items() if name.endswith(".gz")]
    assert [data[4:8] for data in tables] == [bytes(4)] * 2, "the time of a gzip file"


def test_megatron_has_the_bytes_of_its_table(tmp_path: Path) -> None:
    files = export(FORMATS["megatron"], tiny(tmp_path / "run"), tmp_path / "out")
    assert files["train.bin"].hex() == IDS
    lengths, pointers, documents = i32(6, 2, 1, 5), i64(0, 12, 16, 18), i64(0, 1, 2, 3, 4)
    assert files["train.idx"].hex() == IDX_HEAD + lengths + pointers + documents


def test_megatron_by_sentences_has_the_same_ids_and_a_sequence_for_each_sentence(tmp_path: Path) -> None:
    opened = tiny(tmp_path / "run", sentences=True)
    files = export(FORMATS["megatron-sentences"], opened, tmp_path / "out")
    assert files["train.bin"].hex() == IDS
    head = IDX_HEAD[:36] + i64(7, 5)
    lengths, documents = i32(3, 3, 2, 1, 1, 2, 2), i64(0, 2, 3, 4, 7)
    pointers = i64(0, 6, 12, 16, 18, 20, 24)
    assert files["train.idx"].hex() == head + lengths + pointers + documents


def test_olmo_core_has_raw_arrays_and_their_borders(tmp_path: Path) -> None:
    files = export(FORMATS["olmo-core"], tiny(tmp_path / "run"), tmp_path / "out")
    shards = {f"train/{n:05d}.{end}" for n in (0, 2) for end in ("npy", "csv.gz")}
    assert files.keys() == {*shards, "train/metadata.json"}
    assert (files["train/00000.npy"] + files["train/00002.npy"]).hex() == IDS
    assert gzip.decompress(files["train/00000.csv.gz"]) == b"0,6\n6,8\n"
    assert gzip.decompress(files["train/00002.csv.gz"]) == b"0,1\n1,6\n"
    content = json.loads(files["train/metadata.json"])
    assert (content["dtype"], content["eos_token_id"]) == ("uint16", EOS)
    assert content["files"]["00002.npy"] == {"documents": 2, "tokens": 6}


def test_datatrove_has_its_three_files_a_shard(tmp_path: Path) -> None:
    files = export(FORMATS["datatrove"], tiny(tmp_path / "run"), tmp_path / "out")
    assert len(files) == 6
    assert (files["train/00000.ds"] + files["train/00002.ds"]).hex() == IDS
    assert files["train/00000.ds.index"].hex() == i64(6, 8)
    assert files["train/00002.ds.index"].hex() == i64(1, 6)
    assert files["train/00000.ds.metadata"] == b"tokenizer.model|2\n8\n8.00 T"


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [(0, "0.00 T"), (7, "7.00 T"), (1_234, "1.23 kT"), (12_345_678, "12.3 MT"), (987 << 30, "1.06 TT")],
)
def test_tokens_are_shown_to_people_with_three_digits(tokens: int, shown: str) -> None:
    assert human_count(tokens) == shown


def read_back(name: str, files: dict[str, bytes], dtype: str) -> list[list[int]]:
    """Return the documents of an export, read with numpy as its trainer reads them."""
    if name == "nanogpt":
        flat = np.frombuffer(files["train.bin"], np.uint16)
        return split_at(flat, np.flatnonzero(flat == EOS) + 1)
    if name.startswith("megatron"):
        flat, index = np.frombuffer(files["train.bin"], dtype), files["train.idx"]
        sequences, count = np.frombuffer(index, "<u8", 2, 18).tolist()
        lengths = np.frombuffer(index, "<i4", sequences, 34)
        pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
        borders = np.frombuffer(index, "<i8", count, 34 + 12 * sequences)
        assert len(index) == 34 + 12 * sequences + 8 * count
        assert (pointers == (np.cumsum(lengths) - lengths) * flat.itemsize).all()
        assert (borders[0], borders[-1]) == (0, sequences)
        return split_at(flat, np.concatenate([[0], np.cumsum(lengths)])[borders[1:]])
    end, documents = {"olmo-core": ".npy", "datatrove": ".ds", "litdata": ".bin"}[name], []
    for file in sorted(files):
        if file.endswith(".bin"):
            count = int(np.frombuffer(files[file], "<u4", 1)[0])
            begins = np.frombuffer(files[file], "<u4", count + 1, 4)
            flat = np.frombuffer(files[file], dtype, offset=4 * count + 8)
            documents += split_at(flat, (begins[1:] - begins[0]) // flat.itemsize)
        elif file.endswith(end):
            flat = np.frombuffer(files[file], dtype.replace("i", "u"))
            if end == ".ds":
                ends = np.frombuffer(files[f"{file}.index"], "<u8")
            else:
                table = gzip.decompress(files[file.replace(".npy", ".csv.gz")]).decode().split()
                ends = np.array([line.split(",")[1] for line in table], int)
            documents += split_at(flat, ends)
    return documents


def split_at(flat: np.ndarray, ends: np.ndarray) -> list[list[int]]:
    assert ends[-1] == len(flat)
    return [part.tolist() for part in np.split(flat, ends.astype(np.int64)[:-1])]


@pytest.mark.parametrize(
    ("vocab_size", "ours", "theirs"),
    [
        (65_499, "<u2", "<u2"),
        (65_500, "<u2", "<i4"),
        (65_536, "<u2", "<i4"),
        (65_537, "<i4", "<i4"),
    ],
)
def test_ids_keep_their_values_at_every_border_of_the_dtypes(
    vocab_size: int, ours: str, theirs: str, tmp_path: Path
) -> None:
    documents = [[vocab_size - 1, 9, EOS], [vocab_size - 2, EOS]]
    path = build_dataset(tmp_path / "run", {"train": [documents]}, vocab_size=vocab_size)
    opened = open_source(path, split="train")
    for name, dtype in (("megatron", theirs), ("olmo-core", ours), ("datatrove", ours)):
        files = export(FORMATS[name], opened, tmp_path / name)
        assert read_back(name, files, dtype) == documents
        if name == "megatron":
            assert files["train.idx"][17] == {"<u2": 8, "<i4": 4}[dtype]
    if ours == "<u2":
        files = export(FORMATS["nanogpt"], opened, tmp_path / "nanogpt")
        assert read_back("nanogpt", files, ours) == documents
    else:
        with pytest.raises(ConfigError, match="below 65,536, but tiny has a vocabulary of 65,537"):
            refuse_vocabulary(FORMATS["nanogpt"], opened.manifest.vocab_size, name="tiny")


def test_a_litdata_chunk_that_its_offsets_reach_to_the_end_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tiny(tmp_path / "run")
    files = export(FORMATS["litdata"], opened, tmp_path / "out")
    size = max(len(data) for name, data in files.items() if name.endswith(".bin"))
    assert json.loads(files["train/index.json"])["config"]["chunk_bytes"] == size == 32
    monkeypatch.setattr(litdata, "MAX_OFFSET", size)
    FORMATS["litdata"].refuse(opened)
    monkeypatch.setattr(litdata, "MAX_OFFSET", size - 1)
    with pytest.raises(ConfigError, match="shard 0 of tiny would be a chunk of 32 bytes"):
        FORMATS["litdata"].refuse(opened)


def test_a_vocabulary_that_the_integers_of_a_format_hold_to_the_last_id_is_taken() -> None:
    bounded = {known.name: known.max_vocabulary for known in FORMATS.values() if known.max_vocabulary}
    assert bounded == {"nanogpt": 1 << 16}
    refuse_vocabulary(FORMATS["nanogpt"], 1 << 16, name="tiny")
    with pytest.raises(ConfigError, match="ids below 65,536, but tiny has a vocabulary of 65,537"):
        refuse_vocabulary(FORMATS["nanogpt"], (1 << 16) + 1, name="tiny")


def test_a_dataset_without_sentences_is_refused_with_the_kinds_that_have_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kind nsp, sop, and bart with a permute_probability"):
        FORMATS["megatron-sentences"].refuse(tiny(tmp_path))


def test_what_32_bits_cannot_count_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = tiny(tmp_path / "run", sentences=True)
    monkeypatch.setattr(megatron, "I32_LIMIT", 7)
    FORMATS["megatron"].refuse(opened)
    with pytest.raises(ConfigError, match="counts sequences in 32 bits, but there are 7"):
        FORMATS["megatron-sentences"].refuse(opened)
    assert any("overflows" in note for note in FORMATS["megatron"].notes([opened]))
    monkeypatch.setattr(megatron, "I32_LIMIT", 6)
    with pytest.raises(ConfigError, match="a document of tiny/train has 6"):
        FORMATS["megatron"].refuse(opened)
    monkeypatch.setattr(megatron, "I32_LIMIT", 4)
    with pytest.raises(ConfigError, match="counts documents in 32 bits, but tiny has 4"):
        FORMATS["megatron"].refuse(opened)


def damage(path: Path, name: str, change: Callable[[np.ndarray], object]) -> None:
    """Change an array of the first shard, and make the manifest vouch for it."""
    folder = path / "train"
    array = np.load(folder / "epoch-0000" / "00000" / name)
    change(array)
    write_array(folder / "epoch-0000" / "00000" / name, array)
    content = json.loads((folder / MANIFEST_NAME).read_text())
    digest = digest_file(folder / "epoch-0000" / "00000" / name)
    content["shards"][0]["files"][name] = digest.model_dump()
    write_manifest(folder / MANIFEST_NAME, Manifest.model_validate(content).signed())


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("input_ids.npy", lambda a: np.place(a, a == EOS, 9), "document 0 does not end in EOS"),
        ("segments/doc_offset.npy", lambda a: np.place(a, a == 4, 5), "document 0 is not whole"),
        ("segments/doc.npy", lambda a: a.fill(1), "document 1 is not whole"),
    ],
)
def test_documents_that_are_not_whole_are_refused(
    name: str, change: Callable[[np.ndarray], object], said: str, tmp_path: Path
) -> None:
    tiny(tmp_path / "run")
    path = tmp_path / "run" / "datasets" / "tiny"
    damage(path, name, change)
    with pytest.raises(FormatError, match=said):
        export(FORMATS["nanogpt"], open_source(path, split="train"), tmp_path / "out")


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_document_without_a_token_is_refused(tmp_path: Path, empty: int) -> None:
    shard: list[list[int]] = [[10, EOS], [11, EOS]]
    shard.insert(empty, [])
    opened = open_source(build_dataset(tmp_path, {"train": [shard]}), split="train")
    with pytest.raises(FormatError, match=f"document {empty} does not end in EOS"):
        list(opened.blocks(0))


@pytest.mark.parametrize(("end", "wrong"), [(6, 5), (3, 6), (3, 0), (3, 7)])
def test_sentences_that_do_not_add_up_are_refused(tmp_path: Path, end: int, wrong: int) -> None:
    tiny(tmp_path / "run", sentences=True)
    path = tmp_path / "run" / "datasets" / "tiny"
    damage(path, "sentences/ends.npy", lambda a: np.place(a, a == end, wrong))
    changed = SplitReader(path / "train", read_manifest(path / "train"))
    with pytest.raises(FormatError, match="sentences do not add up"):
        export(FORMATS["megatron-sentences"], ExportSource(changed, 0), tmp_path / "out")


@pytest.mark.parametrize("known", RAW, ids=lambda known: known.name)
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_documents_come_back_from_every_raw_format(
    known: Format, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    body = st.lists(st.integers(7, 299), max_size=15)
    shards = data.draw(st.lists(st.lists(body.map(lambda ids: [*ids, EOS]), max_size=5), max_size=4))
    shards.append([[7, EOS]])
    cuts = [[sorted({*document[:-1], len(document)}) for document in shard] for shard in shards]
    ends = [
        [[end for end in cut if end <= len(document)] for cut, document in zip(*pair, strict=True)]
        for pair in zip(cuts, shards, strict=True)
    ]
    root = tmp_path_factory.mktemp("any")
    path = build_dataset(root / "run", {"train": shards}, sentences={"train": ends})
    opened = open_source(path, split="train")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK_TOKENS", data.draw(st.integers(1, 20)))
        files = export(known, opened, root / "out")
    expected = [document for shard in shards for document in shard]
    assert read_back(known.name, files, "<u2") == expected
    assert [part.tolist() for n in range(len(shards)) for part in opened.documents(n)] == expected


def test_the_lines_for_nanogpt_read_its_files(tmp_path: Path) -> None:
    opened = tiny(tmp_path / "run")
    export(FORMATS["nanogpt"], opened, tmp_path / "out")
    names: dict[str, np.ndarray] = {}
    exec(FORMATS["nanogpt"].read([opened], str(tmp_path / "out")), names)  # noqa: S102  # what users do
    assert names["train"].tolist() == FLAT


def test_rows_are_those_of_the_loader_in_narrow_dtypes_with_a_mask_of_padding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BLOCK_TOKENS", 2 * 4 * 5)
    opened = tiny(tmp_path)
    rows = [part for shard in range(opened.num_shards) for part in opened.rows(shard)]
    plain = open_dataset(tmp_path / "datasets" / "tiny", shuffle=False)
    batch = dict(plain.batch(np.arange(len(plain))))
    batch["attention_mask"] = (batch["segment_ids"] >= 0).astype(np.int64)
    assert len(rows) == 4
    assert opened.columns.keys() == batch.keys()
    for name, column in opened.columns.items():
        parts = [part[name] for part in rows]
        assert {part.dtype.str for part in parts} == {column.dtype}
        assert parts[0].shape[1:] == column.shape
        assert (np.concatenate(parts) == batch[name]).all()
    assert {name: column.dtype for name, column in opened.columns.items()} == {
        "attention_mask": "|u1",
        "input_ids": "<u2",
        "labels": "<i2",
        "position_ids": "|u1",
        "segment_ids": "<i2",
    }
