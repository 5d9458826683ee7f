"""What a manifest promises.

It is read back as it was signed; any change to its content, another version, a missing field or a
missing file is refused by name; its fingerprint is a function of the content alone.
"""

import gc
import json
from pathlib import Path

import pytest

from stages.errors import FormatError
from stages.store.digests import FileDigest, digest_file, sync_files, xxh3_file
from stages.store.drawn import DRAWN_NAME, DrawnManifest, read_drawn, write_drawn
from stages.store.manifest import (
    ADDED_END,
    FORMAT_VERSION,
    MANIFEST_NAME,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    Totals,
    read_manifest,
    sum_totals,
    write_manifest,
)

SHARDS = tuple(
    Shard(
        path=f"epoch-0000/{number:05d}",
        rows=2 + number,
        segments=3,
        documents=2,
        tokens=7,
        tokens_cut=number,
        files={"input_ids.npy": FileDigest(bytes=144, sha256="00", xxh3="11")},
    )
    for number in range(2)
)
MANIFEST = Manifest(
    format_version=FORMAT_VERSION,
    name="clm",
    split="train",
    objective={"kind": "clm", "mask_first_token": False, "form": "row"},
    seed=7,
    epochs=1,
    attention="causal_within_document",
    label_convention="unshifted",
    seq_len=4,
    packing="best_fit",
    vocab_size=300,
    special_ids={"eos": 2, "pad": 3},
    tokenizer=TokenizerFile(file="../../../tokenizer/tokenizer.model", sha256="22"),
    tables={},
    columns={"input_ids": Column(dtype="<u2", shape=(4,), meaning="token ids")},
    shards=SHARDS,
    totals=sum_totals(SHARDS),
).signed()
FRAMED_SHARDS = tuple(shard.model_copy(update={"frame_tokens": 5}) for shard in SHARDS)
FRAMED = MANIFEST.model_copy(
    update={
        "row_frame": {"begin": 1, "end": 2},
        "columns": {**MANIFEST.columns, ADDED_END: Column(dtype="|u1", shape=(), meaning="added")},
        "shards": FRAMED_SHARDS,
        "totals": sum_totals(FRAMED_SHARDS),
    }
).signed()
GOLDEN_FINGERPRINT = "c39d88aed1186a961e1e2d178cf9709966abef58a521129479140e9ae4faafef"
CHANGES: dict[str, object] = {
    "name": "other",
    "objective": {"kind": "clm", "mask_first_token": True, "form": "row"},
    "seed": 8,
    "label_convention": "shifted",
    "seq_len": 8,
    "vocab_size": 301,
    "special_ids": {"eos": 3, "pad": 2},
    "shards": [],
    "fingerprint": "",
}


def changed(folder: Path, **changes: object) -> None:
    """Write the manifest with some values changed behind its back."""
    content = MANIFEST.model_dump(mode="json") | changes
    (folder / MANIFEST_NAME).write_text(json.dumps(content), encoding="utf-8")


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_manifest(tmp_path / MANIFEST_NAME, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_its_fingerprint_is_golden() -> None:
    assert MANIFEST.fingerprint == GOLDEN_FINGERPRINT


def test_what_frames_rows_is_there_only_if_something_does(tmp_path: Path) -> None:
    write_manifest(tmp_path / MANIFEST_NAME, MANIFEST)
    assert "frame" not in (tmp_path / MANIFEST_NAME).read_text()
    write_manifest(tmp_path / MANIFEST_NAME, FRAMED)
    assert read_manifest(tmp_path) == FRAMED
    content = json.loads((tmp_path / MANIFEST_NAME).read_text())
    assert content["row_frame"] == {"begin": 1, "end": 2}
    assert [shard["frame_tokens"] for shard in content["shards"]] == [5, 5]
    assert content["totals"]["frame_tokens"] == FRAMED.totals.frame_tokens == 10
    assert FRAMED.fingerprint != GOLDEN_FINGERPRINT


@pytest.mark.parametrize(
    "changes",
    [
        {"row_frame": None},
        {"row_frame": {}},
        {"row_frame": {"begin": 1}},
        {"row_frame": {"end": 2, "middle": 3}},
        {"columns": MANIFEST.model_dump(mode="json")["columns"]},
    ],
)
def test_a_frame_that_is_not_whole_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    content = FRAMED.model_dump(mode="json") | changes
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FormatError, match=r"row_frame = .*: must have an end, and rows the column"):
        read_manifest(tmp_path)


def test_its_spelling_is_no_part_of_its_fingerprint(tmp_path: Path) -> None:
    content = MANIFEST.model_dump(mode="json")
    backwards = dict(reversed(list(content.items())))
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(backwards, indent=7), encoding="utf-8")
    assert read_manifest(tmp_path) == MANIFEST


def test_an_unsigned_manifest_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        write_manifest(tmp_path / MANIFEST_NAME, MANIFEST.model_copy(update={"seed": 8}))
    assert not (tmp_path / MANIFEST_NAME).exists()


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_content_is_refused(tmp_path: Path, field: str) -> None:
    changed(tmp_path, **{field: CHANGES[field]})
    with pytest.raises(FormatError, match="does not match its fingerprint") as error:
        read_manifest(tmp_path)
    assert str(tmp_path / MANIFEST_NAME) in str(error.value)


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, None, "1"])
def test_another_version_is_refused(tmp_path: Path, version: object) -> None:
    changed(tmp_path, format_version=version)
    with pytest.raises(FormatError, match=f"format_version {version}; this reader knows"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(("field", "value"), [("seq_len", "long"), ("seed", None), ("colour", "red")])
def test_a_value_of_another_kind_is_refused_by_its_name(
    tmp_path: Path, field: str, value: object
) -> None:
    changed(tmp_path, **{field: value})
    with pytest.raises(FormatError, match=field):
        read_manifest(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"7", b"\xff\xfe", b'{"seed": 7}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(FormatError, match=MANIFEST_NAME):
        read_manifest(tmp_path)


def test_without_a_manifest_there_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no dataset"):
        read_manifest(tmp_path)


def test_totals_are_sums_over_the_shards() -> None:
    assert sum_totals(SHARDS) == Totals(rows=5, segments=6, documents=4, tokens=14, tokens_cut=1)
    assert sum_totals(()) == Totals(rows=0, segments=0, documents=0, tokens=0, tokens_cut=0)


def test_digests_are_those_of_the_published_algorithms(tmp_path: Path) -> None:
    place = tmp_path / "empty"
    place.write_bytes(b"")
    assert digest_file(place) == FileDigest(
        bytes=0,
        sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        xxh3="99aa06d3014798d86001c324468d497f",
    )
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 20_000)
    assert digest_file(large).bytes == 5_120_000
    assert digest_file(large).xxh3 == xxh3_file(large) == "27397b3a4811bfedb1723ebbaae0bd01"


def test_bringing_a_tree_to_the_disk_changes_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x")
    sync_files(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "a",
        "a/b",
        "a/b/file",
    ]
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"x"


@pytest.mark.parametrize("enabled", [True, False])
def test_reading_leaves_the_search_for_garbage_as_it_was(tmp_path: Path, *, enabled: bool) -> None:
    (tmp_path / MANIFEST_NAME).write_text("7")
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(FormatError):
            read_manifest(tmp_path)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_a_number_that_is_none_does_not_stand_for_null(tmp_path: Path) -> None:
    nothing = MANIFEST.model_copy(update={"objective": {"kind": "clm", "rate": None}}).signed()
    path = tmp_path / MANIFEST_NAME
    write_manifest(path, nothing)
    assert read_manifest(tmp_path) == nothing
    for number in ("NaN", "Infinity", "-Infinity"):
        path.write_text(json.dumps(nothing.model_dump(mode="json")).replace("null", number))
        with pytest.raises(FormatError, match="not JSON"):
            read_manifest(tmp_path)


def test_epochs_on_disk_are_those_of_the_dataset_beside_them_or_refused(tmp_path: Path) -> None:
    drawn = DrawnManifest(
        format_version=FORMAT_VERSION, dataset=MANIFEST.fingerprint, epochs=0, columns={}, shards=()
    ).signed()
    assert read_drawn(tmp_path, dataset=MANIFEST.fingerprint) is None
    write_drawn(tmp_path / DRAWN_NAME, drawn)
    assert read_drawn(tmp_path, dataset=MANIFEST.fingerprint) == drawn
    with pytest.raises(FormatError, match=r"drawn\.json: drawn of the dataset c39d88aed118, but beside"):
        read_drawn(tmp_path, dataset="0" * 64)
