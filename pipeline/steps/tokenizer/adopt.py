"""Adopt: a tokenizer that was trained elsewhere becomes the run's, as it is, with its special ids."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pipeline.engine.tasks import Workspace
from pipeline.steps.tokenizer.load import FOLDER, SPECIAL_IDS, SPELLED_OUT
from pipeline.steps.tokenizer.training import TokenizerRecord
from pipeline.system.regular_files import read_regular
from stages.errors import FormatError
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.markup import SpelledOut
from stages.tokenizer.ranks.encodings import UNSAID, TiktokenConfig
from stages.tokenizer.recognised import tokenizer_file


@dataclass(frozen=True)
class AdoptedTokenizer:
    """A tokenizer's file, and what was found out of it."""

    path: Path
    sha256: str
    """Of the file as the run has it."""
    kind: TokenizerKind
    special_ids: Mapping[str, int]
    vocab_size: int
    loss: str | None
    """What its normaliser loses, for people."""
    chat_loss: str | None = None
    """What of the templates of dialogues does not fit it, likewise."""
    offer: str | None = None
    """What its models expect around texts, if the run file says nothing of framing."""
    spelled_out: Mapping[str, SpelledOut] = field(default_factory=dict)
    """By source, what contents of its dialogues spell out."""
    places: bool = False
    """Whether the ids of a text depend on where in a document it is."""
    tiktoken: TiktokenConfig = UNSAID
    """What ranks of tiktoken leave out."""


def adopt_tokenizer(workspace: Workspace, work: AdoptedTokenizer) -> TokenizerRecord:
    """Write the file, as it is or as the tokenizer.json of the same ids, and its special ids.

    Raises:
        FormatError: the file is another one than when the run was planned.
    """
    try:
        given = read_regular(work.path, partial(_require_file, work.path))
    except OSError as error:
        raise FormatError(f"{work.path}: cannot be read: {error.strerror}") from error
    data = tokenizer_file(given, name=str(work.path), tiktoken=work.tiktoken).data
    if hashlib.sha256(data).hexdigest() != work.sha256:
        raise FormatError(f"{work.path}: changed since the run was planned; run again")
    workspace.create(f"{FOLDER}/{work.kind}").write_bytes(data)
    text = json.dumps(dict(work.special_ids), indent=1)
    workspace.create(SPECIAL_IDS).write_text(text + "\n", encoding="utf-8")
    if work.spelled_out:
        text = json.dumps(dict(work.spelled_out), indent=1, ensure_ascii=False)
        workspace.create(SPELLED_OUT).write_text(text + "\n", encoding="utf-8")
    return TokenizerRecord(
        vocab_size=work.vocab_size, file=work.kind.value, sha256=work.sha256, warning=work.loss
    )


def _require_file(path: Path, kind: str | None) -> None:
    if kind is not None:
        raise FormatError(f"{path}: is {kind}, not a file; put the tokenizer back and run again")
