"""An existing tokenizer: read as a run is planned, and refused if a dataset could not be made with it.

What enters the fingerprint of the run is the digest of the file as the run has it, and the ids that were
found by role, never where the file is, nor in which words the run file names a piece.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

from pipeline.planning.tokenizer_files import read_tokenizer_file
from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import Dataset
from pipeline.steps.tokenizer.adopt import Adoption
from pipeline.steps.tokenizer.chats import chat_loss, spelled_out, with_markup
from stages.errors import ConfigError
from stages.objectives.table import (
    refuse_begun_documents,
    refuse_framed_rows,
    refuse_impossible,
    special_names,
    traits_of,
)
from stages.tokenizer.existing import describe, existing_tokenizer
from stages.tokenizer.family import framing_offer
from stages.tokenizer.framing import BEGIN, Framing
from stages.tokenizer.markup import MarkupEncoder
from stages.tokenizer.roles import Roles, find_roles, framed_roles, require_roles


def find_tokenizer(file: RunFile, base: Path) -> Adoption | None:
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
    described = describe(data, kind, name=key)
    found = find_roles(described, file.tokenizer.special, name=path.name)
    framed = framed_roles(described, found, file.framing, name=path.name)
    roles = _with_padding(file, with_markup(file, described, framed))
    for dataset in file.datasets:
        seq_len = file.packing_of(dataset).seq_len
        _require(dataset, roles, file.framing, seq_len=seq_len, name=path.name)
    tokenizer = existing_tokenizer(data, kind, roles.ids, name=key)
    for dataset in file.datasets:
        if traits_of(dataset.objective).encodes_text and not tokenizer.writes_all:
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
    names = {number: piece for piece, number in described.pieces.items()}
    misfit = chat_loss(file, described.marks, roles.ids, names) if "eos" in roles.ids else None
    offer = (
        None if file.framing != Framing() or not _may_begin(file) else framing_offer(described, found)
    )
    return Adoption(
        path=path.resolve(),
        sha256=digest,
        kind=kind,
        special_ids=roles.ids,
        vocab_size=described.size,
        loss=loss,
        chat_loss=misfit,
        spelled_out=spelled_out(file, described, roles),
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
    if not all(traits_of(dataset.objective).eos_may_pad for dataset in file.datasets):
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
    if traits_of(objective).eos_may_pad and roles.ids.get("pad") == roles.ids.get("eos"):
        needed.remove("pad")  # its rows say how far they are filled
    require_roles(roles, needed, who=who, name=name)
    try:
        refuse_impossible(objective, seq_len=seq_len, num_sentinels=roles.sentinels)
    except ConfigError as error:
        raise ConfigError(f"dataset {dataset.name!r}: {error}") from error
