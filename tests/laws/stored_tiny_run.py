"""The tiny run as laws of stores have it: over three files of a folder, which its fixture makes."""

from stages.stores.objects import ObjectStore
from tests.laws.tiny_run import tiny_run

RUN = tiny_run(sources=[{"name": "s", "paths": ["corpus/*.jsonl"], "language": {"column": "lang"}}])


def url_of(store: ObjectStore) -> str:
    """Return the URL of the place."""
    return store.place


def require_same(found: dict[str, str], wanted: dict[str, str]) -> None:
    """Compare the digests of all files of two runs."""
    assert found.keys() == wanted.keys(), sorted(found.keys() ^ wanted.keys())
    assert found == wanted, sorted(key for key in found if found[key] != wanted[key])
