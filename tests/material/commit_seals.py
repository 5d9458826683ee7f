"""Commits that vouch for what was changed in a run: what only somebody who means harm would write."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT
from stages.config import canonical_json
from stages.store.digests import digest_file

Record = Mapping[str, Any]


def vouched(
    run: Path, keys: set[str], *, record: Callable[[Record], Record] = lambda record: record
) -> dict[Path, bytes]:
    """Return the commits, by place, that must be written so that a run vouches for files as they are.

    Args:
        run: its folder.
        keys: of the files that were changed.
        record: gives what commits report from what they reported.
    """
    written = {}
    for folder in sorted((run / "commits").iterdir()):
        paths = sorted(folder.glob("*.json"), key=lambda path: path.stem == STEP_COMMIT)
        seals: dict[str, str] = {}
        for path in paths:  # that of the whole step last: it names the others
            before = path.read_bytes()
            said = Commit.model_validate_json(before)
            now = {key: digest_file(run / key) for key in keys & said.files.keys()}
            changes = {
                "files": said.files | now,
                "record": dict(record(said.record)),
                "units": {unit: seals[unit] for unit in said.units},
            }
            commit = said.model_copy(update=changes).sealed()
            seals[path.stem] = commit.xxh3
            after = canonical_json(commit)
            if after != before:
                written[path] = after
    return written
