"""The manifest of materialised epochs: `drawn.json`, written last. Without it none stands on disk.

    DIR/datasets/NAME/SPLIT/drawn.json
    DIR/datasets/NAME/SPLIT/drawn/epoch-0000/00000/COLUMN.npy      (rows, ...) as a trainer gets them

Of row kinds the bits are those that the loader would draw; what is gained is a file that any program
can read. Of kinds that need more than a row there are no other epochs. The invariants: `dataset` is the
fingerprint of the dataset.json beside it, `fingerprint` the SHA-256 of the canonical JSON of all the
rest. docs/format.md is this page for readers.
"""

import hashlib
import json
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from stages.config import Config, canonical_json
from stages.errors import FormatError
from stages.store.digests import FileDigest
from stages.store.folders import ColumnName, DrawnPath, FileName, refuse_repeated
from stages.store.manifest import Column, read_signed

DRAWN_NAME = "drawn.json"
_OF_THE_ROWS = ("input_ids", "decoder_input_ids", "original_ids")
"""Columns of token ids, in the dtype of the stored rows."""
_DTYPES = {"selected": "|b1", "in_prefix": "|b1", "token_type_ids": "|u1", "borrowed_offset": "<i8"}
_OTHER = "<i4"


class DrawnShard(Config):
    """The columns of one shard in one epoch: a folder of arrays."""

    path: DrawnPath
    """Relative to the manifest."""
    files: dict[FileName, FileDigest]
    counts: dict[str, int] = Field(default_factory=dict)
    """What the objective counts apart, such as tokens that were borrowed."""


class DrawnManifest(Config):
    """The epochs of one split that stand on disk."""

    format_version: int
    dataset: str
    """Fingerprint of the dataset that they are drawn of."""
    epochs: int
    """How many, from epoch 0 on."""
    columns: dict[ColumnName, Column]
    generator: str = ""
    """The version of the model that drew them, if one did and says."""
    shards: tuple[tuple[DrawnShard, ...], ...]
    """Of each epoch, in the order of the dataset's shards."""
    fingerprint: str = ""

    @model_validator(mode="after")
    def _one_folder_each(self) -> Self:
        refuse_repeated(shard.path for epoch in self.shards for shard in epoch)
        return self

    def signed(self) -> "DrawnManifest":
        """Return the manifest with its fingerprint."""
        return self.model_copy(update={"fingerprint": self.content_fingerprint()})

    def content_fingerprint(self) -> str:
        """Return the SHA-256 of everything but the fingerprint."""
        content = self.model_dump(mode="json", exclude={"fingerprint"})
        return hashlib.sha256(canonical_json(content)).hexdigest()


def drawn_dtype(name: str, ids: str) -> str:
    """Return the dtype in which a column stands on disk.

    Args:
        name: the column's.
        ids: dtype of the stored rows.
    """
    return ids if name in _OF_THE_ROWS else _DTYPES.get(name, _OTHER)


def write_drawn(path: Path, manifest: DrawnManifest) -> None:
    """Write a signed manifest, indented for people."""
    assert manifest.fingerprint == manifest.content_fingerprint()
    text = json.dumps(manifest.model_dump(mode="json"), indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def read_drawn(folder: Path, *, dataset: str) -> DrawnManifest | None:
    """Return the manifest of a split's materialised epochs, or None if it has none.

    Args:
        folder: the split's.
        dataset: the fingerprint of its dataset.json.

    Raises:
        FormatError: the file is damaged, or belongs to another dataset.
    """
    path = folder / DRAWN_NAME
    if not path.exists():
        return None
    manifest = read_signed(path, DrawnManifest)
    if manifest.dataset != dataset:
        raise FormatError(
            f"{path}: drawn of the dataset {manifest.dataset[:12]}, but beside it lies {dataset[:12]};"
            " run again to write its own"
        )
    return manifest
