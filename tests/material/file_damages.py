"""Damages to the committed files of a finished run, each undone when it has been looked at.

deleted, cut, flipped, swapped     a file as a disk or a person leaves it; nothing vouches for it
row lost, row made up              a table of evidence, which its commit vouches for again, and the
                                   manifests too where they do
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stages.config import canonical_json
from stages.identity import content_digest, document_id
from stages.store.digests import digest_file
from stages.store.drawn import DRAWN_NAME
from stages.store.manifest import MANIFEST_NAME
from tests.material.commit_seals import vouched

DELETED, CUT, FLIPPED, SWAPPED = OF_FILES = ("deleted", "cut", "flipped", "swapped")
LOST, MADE_UP = OF_TABLES = ("row lost", "row made up")
EVIDENCE = ("documents.parquet", "drops.parquet", "removed.parquet", "clusters.parquet")
EVIDENCE_OF_SPLIT = "split/validation.parquet"


@dataclass(frozen=True)
class Case:
    """One damage to one file."""

    key: str
    damage: str
    step: str
    """Whose commit names the file."""
    other: str = ""
    """The file that it changes places with."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The files that are damaged."""
        return (self.key, self.other) if self.other else (self.key,)


def committed_files(run: Path) -> dict[str, str]:
    """Return every committed file with its step."""
    found = {}
    for path in sorted((run / "commits").glob("*/*.json")):
        found.update(dict.fromkeys(json.loads(path.read_text())["files"], path.parent.name))
    return dict(sorted(found.items()))


def cases_of(run: Path) -> list[Case]:
    """Return every case that the run has a place for."""
    files = committed_files(run)
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for key in files:
        by_name[Path(key).name].append(key)
    cases = []
    for key, step in files.items():
        same_name = by_name[Path(key).name]
        behind = same_name.index(key) + 1
        others = [
            other for other in (*same_name[behind:], *same_name[:behind]) if _differ(run, key, other)
        ]
        cases += [Case(key, damage, step) for damage in (DELETED, CUT, FLIPPED)]
        cases += [Case(key, SWAPPED, step, other) for other in others[:1]]
        if key == EVIDENCE_OF_SPLIT or (key.endswith(EVIDENCE) and not key.startswith("work/")):
            rows = pq.read_metadata(run / key).num_rows
            cases += [Case(key, damage, step) for damage in (OF_TABLES if rows else (MADE_UP,))]
    return cases


def _differ(run: Path, key: str, other: str) -> bool:
    return key != other and (run / key).read_bytes() != (run / other).read_bytes()


@dataclass
class Undo:
    """What files were before they were changed."""

    run: Path
    before: dict[Path, bytes] = field(default_factory=dict)

    def write(self, path: Path, content: bytes | None) -> None:
        """Return a file another content; None deletes it."""
        self.before.setdefault(path, path.read_bytes())
        path.unlink()
        if content is not None:
            path.write_bytes(content)

    @property
    def needless(self) -> bool:
        """Whether everything is as it was."""
        return all(
            path.exists() and path.read_bytes() == content for path, content in self.before.items()
        )

    def undo(self) -> None:
        """Put everything back."""
        for path, content in self.before.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)


@contextmanager
def damaged(run: Path, case: Case) -> Iterator[Undo]:
    """Damage a file, and put everything back at the end."""
    undo = Undo(run)
    path = run / case.key
    try:
        if case.damage in OF_TABLES:
            undo.write(path, path.read_bytes())
            table = pq.read_table(path)
            pq.write_table(_without(table) if case.damage == LOST else _with(table), path)
            _vouch(undo, case.key)
        elif case.damage == SWAPPED:
            content = path.read_bytes()
            undo.write(path, (run / case.other).read_bytes())
            undo.write(run / case.other, content)
        else:
            undo.write(path, _broken(path.read_bytes(), case))
        yield undo
    finally:
        undo.undo()


def _broken(content: bytes, case: Case) -> bytes | None:
    if case.damage == DELETED:
        return None
    if case.damage == CUT:
        return content[: len(content) * 2 // 3]
    place = int.from_bytes(hashlib.sha256(case.key.encode()).digest()[:8]) % max(1, len(content))
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :] if content else b"x"


def _without(table: pa.Table) -> pa.Table:
    middle = table.num_rows // 2
    return pa.concat_tables([table.slice(0, middle), table.slice(middle + 1)])


_INVENTED: dict[str, Any] = {
    "text": "a text that nobody wrote, as long as many a text that somebody did",
    "reason": "empty",
    "method": "minhash",
    "similarity": 0.9,
    "position": 1 << 20,
}


def _with(table: pa.Table) -> pa.Table:
    """Return a table with a row more, like its last one but of a document or record that never was."""
    last: dict[str, Any] = table.slice(table.num_rows - 1).to_pylist()[0] if table.num_rows else {}
    identity = document_id("made", "up", table.num_rows)
    row: dict[str, Any] = {}
    for column in table.schema:
        value = last.get(column.name, _INVENTED.get(column.name))
        if column.name in ("id", "cluster") and "kept_id" not in table.column_names:
            value = identity if pa.types.is_fixed_size_binary(column.type) else identity.hex()
        elif column.name == "id":
            value = identity.hex()
        elif column.name in ("doc", "number", "line", "position") and value is not None:
            value += 1
        row[column.name] = _plain(column.type) if value is None and not column.nullable else value
    if "text" in row:
        row["digest"], row["text_bytes"] = content_digest(row["text"]), len(row["text"].encode())
    return pa.concat_tables([table, pa.Table.from_pylist([row], schema=table.schema)])


def _plain(kind: pa.DataType) -> Any:
    """Return a value of some type."""
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "made up"
    return True if pa.types.is_boolean(kind) else 1


def _vouch(undo: Undo, key: str) -> None:
    """Make commits and manifests vouch for a file as it is now."""
    changed = {key}
    if key.startswith("datasets/"):
        split = undo.run.joinpath(*Path(key).parts[:3])
        old, new = _sign(undo, split / MANIFEST_NAME, split)
        changed.add((split / MANIFEST_NAME).relative_to(undo.run).as_posix())
        renamed = {old: new}
        if (split / DRAWN_NAME).exists():
            old, new = _sign(undo, split / DRAWN_NAME, split, dataset=new)
            renamed[old] = new
            changed.add((split / DRAWN_NAME).relative_to(undo.run).as_posix())
        _commit(undo, changed, renamed)
    else:
        _commit(undo, changed, {})


def _sign(undo: Undo, path: Path, split: Path, **changes: str) -> tuple[str, str]:
    """Sign a manifest anew over its files as they are; give its fingerprints, old and new."""
    content = {**json.loads(path.read_text()), **changes}
    old = content.pop("fingerprint")
    for shard in _shards(content["shards"]):
        for name in shard["files"]:
            shard["files"][name] = digest_file(split / shard["path"] / name).model_dump()
    new = hashlib.sha256(canonical_json(content)).hexdigest()
    text = json.dumps({**content, "fingerprint": new}, indent=1, sort_keys=True) + "\n"
    undo.write(path, text.encode())
    return old, new


def _shards(listed: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for item in listed:
        yield from _shards(item) if isinstance(item, list) else (item,)


def _commit(undo: Undo, keys: set[str], renamed: Mapping[str, str]) -> None:
    """Make the commits name files as they are now, and manifests by their new fingerprints."""

    def record(said: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(said)
        for old, new in renamed.items():
            text = text.replace(old, new)
        content: dict[str, Any] = json.loads(text)
        return content

    for path, data in vouched(undo.run, keys, record=record).items():
        if not path.parent.name.startswith("verify-"):
            undo.write(path, data)
