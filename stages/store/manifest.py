"""The manifest of a dataset: `dataset.json`, written last. No manifest, no dataset.

    DIR/datasets/NAME/SPLIT/dataset.json
    DIR/datasets/NAME/SPLIT/epoch-0000/00000/input_ids.npy           (rows, length)
    DIR/datasets/NAME/SPLIT/epoch-0000/00000/segments/row_ptr.npy    (rows + 1,)   <i8
    .../segments/{start,length,doc}.npy                              (segments,)   <i4
    .../segments/doc_offset.npy                                      (segments,)   <i8
    .../documents.parquet                                            one row a document

The invariant: fingerprint = SHA-256 of the manifest's canonical JSON without `fingerprint`. It covers
the digests of all files, so it names the dataset's content; no path, time or host is part of it.
docs/format.md is this page for readers.
"""

import gc
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    Field,
    JsonValue,
    NonNegativeInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import from_json, to_json

from stages.config import Config, canonical_json
from stages.errors import FormatError
from stages.interleaving import LEVELS
from stages.store.digests import FileDigest
from stages.store.folders import ColumnName, FileName, ShardPath, TokenizerPath, refuse_repeated

_Model = TypeVar("_Model", bound=Config)
_Rows = Annotated[tuple[NonNegativeInt, ...], Field(min_length=LEVELS, max_length=LEVELS)]
"""Of a source, by how full they are."""

FORMAT_VERSION = 2
MANIFEST_NAME = "dataset.json"
_WAY_OUT = "restore the file, or run the dataset's run again with --replace"
OBJECTIVE_ID = "objective_id"
"""The column, |u1, that says which component of a mixture each row belongs to."""
ROOM = "room"
"""The column, <i4, that says how many tokens of another document each row of a pair has room for."""
PROMPT = "prompt"
"""The column, <i4, that says how many tokens of each row stand before its source's own target."""
ADDED_END = "added_end"
"""The column, |u1, that is 1 for rows whose last id frames them and is no document's."""
SEGMENT_PROMPT = "segments/prompt.npy"
"""(segments,) <i4 in the shards of packed prompts and targets: how many tokens of each segment stand
before its source's own target."""
LOSS_MASK = "loss_mask"
"""The column, |u1, that says of each position of a row whether its token has a loss."""
SENTENCES = "sentences"
"""Folder, in the shards of objectives that ask, of ptr.npy (documents + 1,) and ends.npy (sentences,),
both <i8: after how many tokens of its document each sentence ends."""
WORD_STARTS = "word_starts.npy"
"""(vocab_size,) bool beside the manifest of objectives that mask whole words: which ids begin one."""
UNIGRAM = "unigram.npy"
"""(vocab_size,) <i8 in the shards of objectives that draw by frequency: the ordinary ids counted up."""
SEGMENT_COLUMNS = {
    "row_ptr": "<i8",
    "start": "<i4",
    "length": "<i4",
    "doc": "<i4",
    "doc_offset": "<i8",
}


class Column(Config):
    """One column of the rows."""

    dtype: str
    """numpy's name, with its byte order."""
    shape: tuple[int, ...]
    """Shape of one row."""
    meaning: str


class Shard(Config):
    """One shard: a folder of arrays."""

    path: ShardPath
    """Relative to the manifest."""
    rows: int
    segments: int
    documents: int
    tokens: int
    """Tokens in its rows, EOS counted, padding not."""
    tokens_cut: int
    """Tokens of its documents that lie in no row."""
    frame_tokens: int = 0
    """Of its tokens, those that frame rows and are no document's; there only with `row_frame`."""
    source_rows: dict[str, _Rows] | None = None
    """Of each source with rows here, how many there are by how full they are; there only with
    `interleave`."""
    files: dict[FileName, FileDigest]


class Totals(Config):
    """Sums over the shards."""

    rows: int
    segments: int
    documents: int
    tokens: int
    tokens_cut: int
    frame_tokens: int = 0


class TokenizerFile(Config):
    """The model that made the ids."""

    file: TokenizerPath
    """Relative to the manifest."""
    sha256: str


class Lineage(Config):
    """Which generation of its run a dataset is of, and what that generation rests on."""

    number: NonNegativeInt
    """Of the generation; 0 is the run's own."""
    digest: str
    """SHA-256 over the tokenizer and what this generation and those before it kept and held out."""
    after: str | None
    """The digest of the generation before it; null for generation 0."""


class Manifest(Config):
    """All that a reader must know about one split of one dataset."""

    format_version: int
    name: str
    split: str
    objective: dict[str, JsonValue]
    """Its kind, every parameter, and `form`: row or materialised."""
    seed: int
    epochs: int
    """1: the rows of the shards serve every epoch."""
    attention: str
    label_convention: str
    seq_len: int
    packing: str
    vocab_size: int
    special_ids: dict[str, int]
    row_frame: dict[str, int] | None = None
    """The ids around each row, `begin` if one begins them and `end`; not there if rows have no frame."""
    interleave: Literal["shuffle", "exact"] = "shuffle"
    """`exact` if each row is of one source, and rows are interleaved; not there if they are shuffled."""
    lineage: Lineage | None = None
    """The generation that it is of; not there if an earlier version made the dataset."""
    tokenizer: TokenizerFile
    columns: dict[ColumnName, Column]
    tables: dict[FileName, FileDigest]
    """Files beside the manifest that the objective needs, by name."""
    shards: tuple[Shard, ...]
    totals: Totals
    fingerprint: str = ""

    @model_validator(mode="after")
    def _one_folder_each(self) -> Self:
        refuse_repeated(shard.path for shard in self.shards)
        return self

    @model_validator(mode="after")
    def _frames_are_whole(self) -> Self:
        sides = {"end"} if self.row_frame is None else self.row_frame.keys() - {"begin"}
        if sides != {"end"} or (self.row_frame is not None) != (ADDED_END in self.columns):
            raise ValueError(
                f"row_frame = {self.row_frame}: must have an end, and rows the column {ADDED_END}; it"
                " was changed, so copy the dataset again, or make it anew"
            )
        return self

    @model_validator(mode="after")
    def _rows_are_of_sources(self) -> Self:
        for shard in self.shards:
            if not _says_rows(shard, interleaved=self.interleave == "exact"):
                raise ValueError(
                    f"interleave = {self.interleave!r}, and {shard.path} has source_rows ="
                    f" {shard.source_rows}: must be numbers of rows that add up to {shard.rows:,}, some"
                    " of each source that is named, if rows are dealt, and null if not; it was changed,"
                    " so copy the dataset again, or make it anew"
                )
        return self

    def signed(self) -> "Manifest":
        """Return the manifest with its fingerprint."""
        return self.model_copy(update={"fingerprint": self.content_fingerprint()})

    def content_fingerprint(self) -> str:
        """Return the SHA-256 of everything but the fingerprint."""
        return _fingerprint(self.model_dump(mode="json"))

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what only framed or interleaved rows have, or is newer: others keep their bytes."""
        content: dict[str, object] = dump(self)
        hidden = set()
        if self.lineage is None:
            content.pop("lineage", None)
        if self.row_frame is None:
            hidden.add("frame_tokens")
            content.pop("row_frame", None)
            content["totals"] = self.totals.model_dump(exclude=hidden)
        if self.interleave == "shuffle":
            hidden.add("source_rows")
            content.pop("interleave", None)
        content["shards"] = [shard.model_dump(exclude=hidden) for shard in self.shards]
        return content


def _says_rows(shard: Shard, *, interleaved: bool) -> bool:
    """Say whether a shard says of which sources its rows are if they are interleaved, and only then."""
    if shard.source_rows is None:
        return not interleaved
    parts = shard.source_rows.values()
    return interleaved and all(map(any, parts)) and sum(map(sum, parts)) == shard.rows


def _fingerprint(content: dict[str, JsonValue]) -> str:
    signed = {name: value for name, value in content.items() if name != "fingerprint"}
    return hashlib.sha256(canonical_json(signed)).hexdigest()


def sum_totals(shards: tuple[Shard, ...]) -> Totals:
    """Return the sums over shards."""
    return Totals(
        **{name: sum(getattr(shard, name) for shard in shards) for name in Totals.model_fields}
    )


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a signed manifest, indented for people; its fingerprint does not depend on that."""
    assert manifest.fingerprint == manifest.content_fingerprint()
    text = json.dumps(manifest.model_dump(mode="json"), indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a dataset's split.

    Raises:
        FormatError: no manifest, another version, or a content that its fingerprint denies.
    """
    path = folder / MANIFEST_NAME
    try:
        return read_signed(path, Manifest)
    except FileNotFoundError as error:
        raise FormatError(
            f"{folder}: no {MANIFEST_NAME}, so no dataset; run the run file again to finish it"
        ) from error


def read_signed(path: Path, model: type[_Model]) -> _Model:
    """Return a manifest of any kind that has a version and a fingerprint.

    Raises:
        FormatError: another version, or a content that its fingerprint denies.
        FileNotFoundError: no such file.
    """
    with _no_collection():
        return _signed(path, model)


def _signed(path: Path, model: type[_Model]) -> _Model:
    """Read it; what was read on the way is gone when garbage is looked for again."""
    try:
        data = path.read_bytes()
        content = from_json(data, allow_inf_nan=False, cache_strings="keys")
        _refuse_repeated_keys(path, data, content)
    except ValueError as error:
        raise FormatError(f"{path}: not JSON: {error}; {_WAY_OUT}") from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{path}: format_version {version}; this reader knows {FORMAT_VERSION}; {_WAY_OUT}"
        )
    try:
        manifest = model.model_validate(content)
    except ValidationError as error:
        raise FormatError(f"{path}: {_said(error)}; {_WAY_OUT}") from error
    if not _is_signed(content):
        raise FormatError(
            f"{path}: the content does not match its fingerprint; it was changed: {_WAY_OUT}"
        )
    return manifest


def _said(error: ValidationError) -> str:
    """Say what is wrong with a manifest first: where, what, and what it must be."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "string_pattern_mismatch":
        return (
            f"{place} = {first['input']!r}: no name of the documented form {first['ctx']['pattern']}, so"
            " it may lead out of the dataset; copy the dataset again, or make it anew"
        )
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def _refuse_repeated_keys(path: Path, data: bytes, content: JsonValue) -> None:
    """Refuse an object in which a key stands twice: one reader takes the first value, another the last.

    A file as `write_manifest` spells it is its own parsed content spelled again, and so repeats no key;
    that takes a third of the time of parsing it in Python, which every other file needs.

    Raises:
        FormatError: names the key.
    """
    if to_json(content, indent=1) + b"\n" == data:
        return

    def refuse(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        for key, value in pairs:
            if key in found:
                raise FormatError(
                    f"{path}: the key {key!r} stands twice in one object; it was changed, so copy the"
                    " dataset again, or make it anew"
                )
            found[key] = value
        return found

    json.loads(data, object_pairs_hook=refuse)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for garbage among what grows: of 10,000 shards, a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _is_signed(content: dict[str, JsonValue]) -> bool:
    """Say whether a content is the one that its fingerprint names.

    Its keys mostly stand in the order of the canonical JSON, as they were written; if so, to spell it
    as it stands takes a quarter of the time.
    """
    fingerprint = content.get("fingerprint", "")
    as_it_stands = {name: value for name, value in content.items() if name != "fingerprint"}
    if hashlib.sha256(to_json(as_it_stands)).hexdigest() == fingerprint:
        return True
    return _fingerprint(content) == fingerprint
