"""Lineage: which generation of its run a folder is, and a digest of what later generations rest on.

    digest of a generation = SHA-256 of the canonical JSON of
        [digest of the one before, or null, digests of the input files, [step, what it decided] of each]

The steps are those that decide what is read, kept and held out, and the tokenizer. What they decided is
in their commits: documents by their ids, and the files of the tokenizer. Datasets are no part of it, so
that a dataset can be made again. No path, time, number of workers or size of units is part of it either:
so fingerprints, which depend on the size of units, are none.

A generation whose documents are compared with those of earlier ones rests on their texts alone until its
rows are made: `run.json` has a digest of the steps up to the last that decides what is kept.
"""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.selection import SELECTING
from pipeline.steps.split.step import SPLIT
from pipeline.steps.tokenizer.load import FOLDER
from pipeline.steps.tokenizer.step import TOKENIZER
from stages.config import canonical_json
from stages.errors import FormatError
from stages.store.generations import generation_name
from stages.store.manifest import Lineage

KEEPING = (INGEST.name, *SELECTING)
"""Names of the steps that decide what is kept."""
_DECIDING = (*KEEPING, SPLIT.name, TOKENIZER.name)
_PLAN = "run.json"
_DECIDED = ("ledger", "held_out")
"""Of the record of a step."""


def lineage_of(root: Path, number: int) -> Lineage:
    """Return the lineage of a generation whose deciding steps are done.

    Args:
        root: its folder.
        number: its number; 0 is a run's own.
    """
    after = digest_before(root, number)
    return Lineage(number=number, digest=digest_of(root, after) or "", after=after)


def digest_before(root: Path, number: int, steps: Collection[str] = _DECIDING) -> str | None:
    """Return the digest of the generation before another; None if there is none, or it is not whole.

    Args:
        root: folder of the other one.
        number: its number.
        steps: names of those that the digest is of.
    """
    if not number:
        return None
    folder = root.resolve().parent
    digest = digest_of(folder.parent, None, steps)
    for one in range(1, number):
        digest = None if digest is None else digest_of(folder / generation_name(one), digest, steps)
    return digest


def digest_of(root: Path, after: str | None, steps: Collection[str] = _DECIDING) -> str | None:
    """Return the digest of a generation; None if what it decided is not whole, or damaged.

    Args:
        root: its folder.
        after: the digest of the one before; None for a run's own.
        steps: names of those that the digest is of.
    """
    commits = Commits(LocalStorage(root))
    try:
        decided = [one for name in steps if (one := _decided(commits, name)) is not None]
        files = _files(root)
    except FormatError:  # a damaged commit or plan is named where it is looked at
        return None
    if set(steps) - set(SELECTING) - {name for name, *_ in decided}:
        return None
    return hashlib.sha256(canonical_json([after, files, decided])).hexdigest()


def _files(root: Path) -> object:
    """Return the digests of the input files of a run, by SOURCE/PATH.

    Raises:
        FormatError: its run.json is damaged or not there.
    """
    try:
        return json.loads((root / _PLAN).read_bytes())["steps"][INGEST.name]["config"]["files"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise FormatError(f"{root / _PLAN}: cannot be read") from error


def _decided(commits: Commits, name: str) -> list[Any] | None:
    """Return the name of a step and what it decided; None if it is not whole."""
    whole = commits.whole(name)
    if whole is None:
        return None
    decided = {key: whole.record[key] for key in _DECIDED if key in whole.record}
    if name == TOKENIZER.name:
        files = {key: file.sha256 for _, one in commits.all(name) for key, file in one.files.items()}
        decided["files"] = {key: files[key] for key in files if key.startswith(f"{FOLDER}/")}
    return [name, decided]
