"""Stamps of trials: digests of the code that was tested, of the campaign's own, and of its settings."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("pipeline", "stages", "shardmill")
_CAMPAIGNS = ("benchmarks", "tests")
"""Folders of the code of campaigns; of it, what a campaign imports."""


def digest_of(paths: Iterable[Path]) -> str:
    """Return a digest of files, with their places below the root."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def files_in(folders: Iterable[str]) -> Iterator[Path]:
    """Yield the files in folders of the tree, but for what Python keeps there."""
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def campaign_files() -> Iterator[Path]:
    """Yield the code that this process has imported from the folders of campaigns and tests."""
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or ROOT).resolve()
        if any(path.is_relative_to(ROOT / folder) for folder in _CAMPAIGNS):
            yield path


def stamp_of_campaign(settings: Mapping[str, Any], code: str | None = None) -> str:
    """Return the stamp of trials: of the code, unless a digest of it is given, and of the settings."""
    code = digest_of({*files_in(PRODUCT), *campaign_files()}) if code is None else code
    text = f"{code}{json.dumps(settings, sort_keys=True, default=str)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
