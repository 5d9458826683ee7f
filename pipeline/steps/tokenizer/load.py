"""The tokenizer of a run, trained or adopted: its files, and what a worker keeps of it."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from stages.errors import FormatError
from stages.stores.mounts import here
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, open_tokenizer
from stages.tokenizer.fairness import byte_tokens
from stages.tokenizer.markup import MarkupEncoder, SpelledOut

FOLDER = "tokenizer"
SPECIAL_IDS = "tokenizer/special_ids.json"
SPELLED_OUT = "tokenizer/spelled_out.json"
"""By source, what contents of its dialogues spell out; there if any does."""
EXISTING = 512 << 20
"""Bytes: the pieces of an existing tokenizer, and what its library makes of 2^18 characters."""
MAKE, CHECK = "make", "check"
"""What a tokenizer is used for."""


def model_key(root: Path) -> str:
    """Return the key of a run's tokenizer.

    Raises:
        FormatError: there is none.
    """
    for kind in TokenizerKind:
        if here(root / FOLDER / kind).exists():
            return f"{FOLDER}/{kind}"
    committed = root / "commits" / FOLDER
    if not (committed / "_step.json").exists():
        raise FormatError(f"{root / FOLDER}: holds no tokenizer yet; run the run to its end")
    names = " or ".join(kind.value for kind in TokenizerKind)
    raise FormatError(
        f"{root / FOLDER}: {names} is gone, though the run made its tokenizer; put the file back, or"
        " run again with --replace to make the tokenizer and all later steps anew"
    )


def special_ids_of(root: Path) -> dict[str, int]:
    """Return the special ids of a run's tokenizer by role.

    Raises:
        FormatError: they are not there, or damaged.
    """
    place = here(root / SPECIAL_IDS)
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        return {str(name): int(number) for name, number in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise FormatError(f"{place}: cannot be read: {error}") from error


def tokenizer_of(root: Path) -> Tokenizer:
    """Return a run's tokenizer, trained or adopted.

    Raises:
        FormatError: there is none, or it is damaged.
    """
    return open_tokenizer(root / model_key(root), special_ids_of(root))


def load_tokenizer(workspace: Workspace, *, use: str = MAKE) -> Tokenizer:
    """Return the run's tokenizer, loaded once a worker for each use.

    Args:
        workspace: of the run.
        use: `CHECK` has one of its own, which remembers nothing of the texts that tokens were made of.
    """
    path = workspace.path(model_key(workspace.root))
    key = f"{use} {path} {path.stat().st_ino}"
    return workspace.cached(key, lambda: tokenizer_of(workspace.root))


def load_byte_tokens(workspace: Workspace) -> NDArray[np.bool_]:
    """Say of each id of the run's tokenizer whether it is less than whole characters: (vocab_size,)."""
    tokenizer = load_tokenizer(workspace)
    return workspace.cached(f"byte tokens {id(tokenizer)}", lambda: byte_tokens(tokenizer.codec))


def spelled_out_of(root: Path) -> dict[str, SpelledOut]:
    """Return by source what contents of its dialogues spell out; most runs have none.

    Raises:
        FormatError: the file is damaged.
    """
    place = here(root / SPELLED_OUT)
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        return {
            str(source): SpelledOut(
                ids={str(piece): int(number) for piece, number in own["ids"].items()},
                in_answers=bool(own["in_answers"]),
            )
            for source, own in content.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise FormatError(f"{place}: cannot be read: {error}") from error


def load_markup(workspace: Workspace, source: str, *, use: str = MAKE) -> MarkupEncoder:
    """Return what encodes texts and dialogues of a source, made once a worker for each use.

    Args:
        workspace: of the run.
        source: its name.
        use: as `load_tokenizer` has it.
    """
    tokenizer = load_tokenizer(workspace, use=use)
    own = spelled_out_of(workspace.root).get(source)

    def make() -> MarkupEncoder:
        return MarkupEncoder(tokenizer) if own is None else _guarded(workspace, tokenizer, own)

    return workspace.cached(f"markup {id(tokenizer)} {own}", make)


def _guarded(workspace: Workspace, tokenizer: Tokenizer, own: SpelledOut) -> MarkupEncoder:
    """Return an encoder whose contents spell some pieces out."""
    path = workspace.path(model_key(workspace.root))
    ids = tokenizer.special_ids | {f"spelled_{number}": number for number in own["ids"].values()}
    guard = workspace.cached(f"guard {id(tokenizer)} {own['ids']}", lambda: open_tokenizer(path, ids))
    return MarkupEncoder(tokenizer, guard, guards_answers=own["in_answers"])
