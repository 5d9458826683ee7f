"""Runs in a store, seen from outside: their objects, beside the files of a run in a folder."""

import hashlib
from pathlib import Path

from stages.stores.store import Store

_OF_A_FOLDER = ("commits/", "tmp/", "lock", "log.jsonl")
_OF_A_STORE = ("log/", "events/", "files/", "lease.json", "given/", "probe/")
_OF_THE_SESSION = ("report/", "verify/", "status.json", "metrics.prom")


def artifacts_of_store(store: Store) -> dict[str, str]:
    """Return the SHA-256 of all objects of a run that are files of a folder too, by key."""
    return {
        one.key: _sha256(found.data)
        for one in store.list("")
        if _is_artifact(one.key, _OF_A_STORE) and (found := store.get(one.key)) is not None
    }


def artifacts_of_folder(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of all files of a run that are objects of a store too, by key."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        key: _sha256(path.read_bytes()) for key, path in files.items() if _is_artifact(key, _OF_A_FOLDER)
    }


def copy_to_folder(store: Store, folder: Path) -> None:
    """Write each object of a store into a folder, as a tool that copies does."""
    for one in store.list(""):
        found = store.get(one.key)
        assert found is not None
        place = folder / one.key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(found.data)


def _is_artifact(key: str, others: tuple[str, ...]) -> bool:
    own = key
    while own.startswith("generations/"):
        own = own.split("/", 2)[2]
    return not own.startswith((*others, *_OF_THE_SESSION))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
