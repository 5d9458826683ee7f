"""An existing tokenizer: read as a run is planned, and refused if a dataset could not be made with it.

What enters the fingerprint of the run is the digest of the file as the run has it, and the ids that were
found by role, never where the file is, nor in which words the run file names a piece.

Tokenizer files where they are: a file, or a folder that holds one, and what their content is.
"""

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import Dataset
from pipeline.steps.tokenizer.adopt import AdoptedTokenizer
from pipeline.steps.tokenizer.chats import chat_loss, spelled_out, with_markup
from pipeline.steps.tokenizer.load import FOLDER
from pipeline.system.regular_files import read_regular
from stages.errors import ConfigError
from stages.objectives.table import (
    refuse_begun_documents,
    refuse_framed_rows,
    refuse_impossible,
    special_names,
)
from stages.store.folders import entries
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.framing import BEGIN, Framing
from stages.tokenizer.markup import MarkupEncoder
from stages.tokenizer.post_processor import framing_offer
from stages.tokenizer.ranks.encodings import UNSAID, TiktokenConfig
from stages.tokenizer.recognised import RecognisedFile, tokenizer_file
from stages.tokenizer.roles import Roles, find_roles, framed_roles, require_roles

_NAMES = (
    *(kind.value for kind in TokenizerKind),
    *("tekken.json", "tekken_*.json", "*.model", "*.tiktoken", "*.model.v*"),
)
"""What files are called in folders, the likeliest first."""


class FoundTokenizer(NamedTuple):
    """A tokenizer's file, read."""

    path: Path
    content: RecognisedFile


def read_tokenizer_file(
    path: Path, key: str, *, base: Path, tiktoken: TiktokenConfig = UNSAID
) -> FoundTokenizer:
    """Return what a tokenizer's file holds.

    Args:
        path: of the file, or of a folder that holds it.
        key: names it in messages.
        base: the folder that it is looked for in, likewise.
        tiktoken: what ranks of tiktoken leave out.

    Raises:
        ConfigError: there is none, or it cannot be read.
        FormatError: it is no tokenizer.
    """
    try:
        place = _file_in(path, key) if path.is_dir() else path
        data = read_regular(place, partial(_require_file, key))
    except FileNotFoundError as error:
        raise ConfigError(f"{key}: no such file or folder in {base.resolve()}") from error
    except OSError as error:
        raise ConfigError(f"{key}: cannot be read: {error.strerror}") from error
    return FoundTokenizer(place, tokenizer_file(data, name=key, tiktoken=tiktoken))


def _file_in(folder: Path, key: str) -> Path:
    """Return the tokenizer's file in a folder, or in the folder of a run."""
    places = [place for one in (folder, folder / FOLDER) for place in entries(one)]
    for name in _NAMES:
        found = [place for place in places if place.match(name) and place.is_file()]
        if len(found) > 1:
            names = ", ".join(place.name for place in found)
            raise ConfigError(f"{key}: this folder has {names}; name the file that is meant")
        if found:
            return found[0]
    raise ConfigError(
        f"{key}: this folder has no {' or '.join(TokenizerKind)}, nor tekken.json, *.model or *.tiktoken"
        "; name a tokenizer's file, or the folder of a run that has made its tokenizer"
    )


def _require_file(key: str, kind: str | None) -> None:
    """Refuse a FIFO, which may wait for ever, and a device, which may never end."""
    if kind is not None:
        raise ConfigError(f"{key}: is {kind}, not a file; name a regular file")


def find_tokenizer(file: RunFile, base: Path) -> AdoptedTokenizer | None:
    """Return the tokenizer that a run file names, or None if the run trains one.

    Raises:
        ConfigError: there is no such file, or it lacks an id that a dataset needs.
        FormatError: it is no tokenizer, or of a kind that is not read.
    """
    if file.tokenizer.path is None:
        return None
    key, tiktoken = f"tokenizer.path = {file.tokenizer.path!r}", file.tokenizer.tiktoken
    path, content = read_tokenizer_file(base / file.tokenizer.path, key, base=base, tiktoken=tiktoken)
    kind, data = content.kind, content.data
    description = describe(data, kind, name=key)
    found = find_roles(description, file.tokenizer.special, name=path.name)
    framed = framed_roles(description, found, file.framing, name=path.name)
    roles = _with_padding(file, with_markup(file, description, framed))
    for dataset in file.datasets:
        seq_len = file.packing_of(dataset).seq_len
        _require(dataset, roles, file.framing, seq_len=seq_len, name=path.name)
    tokenizer = existing_tokenizer(data, kind, roles.ids, name=key)
    for dataset in file.datasets:
        if dataset.traits.encodes_text and not tokenizer.writes_all:
            raise ConfigError(
                f"dataset {dataset.name!r}: objective.level = 'character' encodes parts of texts, and"
                f" {path.name} cannot write every text as it is: set it to 'token', or take a tokenizer"
                " that is byte-level, or SentencePiece with byte fallback"
            )
    changes = tokenizer.changes()
    loss = None
    if changes:
        loss = (
            f"{key}: its normaliser changes {', '.join(changes)}: rows decode to the normalised text,"
            " not to the cleaned one"
        )
    digest = hashlib.sha256(data).hexdigest()
    names = {number: piece for piece, number in description.pieces.items()}
    misfit = chat_loss(file, description.marks, roles.ids, names) if "eos" in roles.ids else None
    offer = (
        None if file.framing != Framing() or not _may_begin(file) else framing_offer(description, found)
    )
    return AdoptedTokenizer(
        path=path.resolve(),
        sha256=digest,
        kind=kind,
        special_ids=roles.ids,
        vocab_size=description.size,
        loss=loss,
        chat_loss=misfit,
        spelled_out=spelled_out(file, description, roles),
        places=MarkupEncoder(tokenizer).varies,
        offer=None if offer is None else f"{key}: {offer}",
        tiktoken=tiktoken,
    )


def _may_begin(file: RunFile) -> bool:
    """Say whether all datasets can be made of documents that an id begins."""
    try:
        for dataset in file.datasets:
            refuse_begun_documents(dataset.objective)
    except ConfigError:
        return False
    return True


def _with_padding(file: RunFile, roles: Roles) -> Roles:
    """Let EOS fill rows where nothing else does and the rows say themselves how far they are filled."""
    if "pad" in roles.ids or "pad" in roles.unsure or "eos" not in roles.ids:
        return roles
    if not all(dataset.traits.eos_may_pad for dataset in file.datasets):
        return roles
    return replace(roles, ids={"pad": roles.ids["eos"], **roles.ids})


def _require(dataset: Dataset, roles: Roles, framing: Framing, *, seq_len: int, name: str) -> None:
    """Refuse a tokenizer with which a dataset could not be made."""
    objective = dataset.objective
    who = f"dataset {dataset.name!r}: kind = {objective.kind!r}"
    begins = [role for role in (BEGIN, framing.row_begin) if role in roles.ids]
    try:
        if BEGIN in begins:
            refuse_begun_documents(objective)
        if framing.per == "row":
            refuse_framed_rows(objective, seq_len=seq_len, begun=bool(begins))
    except ConfigError as error:
        raise ConfigError(f"dataset {dataset.name!r}: {error}") from error
    needed = ["eos", "pad", *special_names(objective), *begins]
    if dataset.traits.eos_may_pad and roles.ids.get("pad") == roles.ids.get("eos"):
        needed.remove("pad")  # its rows say how far they are filled
    require_roles(roles, needed, who=who, name=name)
    try:
        refuse_impossible(objective, seq_len=seq_len, num_sentinels=roles.sentinels)
    except ConfigError as error:
        raise ConfigError(f"dataset {dataset.name!r}: {error}") from error
