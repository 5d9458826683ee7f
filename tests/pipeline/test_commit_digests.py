"""What a commit promises of bytes: files of another size than was reported are not committed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.state.commits import Commits
from pipeline.state.publishing import Outcome
from pipeline.state.storage import LocalStorage
from stages.errors import DataError
from stages.store.digests import digest_file

NAMES = ("data/first", "data/second", "other/third")
CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-1],
    "emptied": lambda _: b"",
    "grown": lambda content: content + b"\0",
}


def made(folder: Path) -> Outcome:
    """Write the files of a unit and report them."""
    for number, name in enumerate(NAMES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(range(1 + number, 60 + number)))
    return Outcome(folder, {name: digest_file(folder / name) for name in NAMES})


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_lost_or_gained_bytes_since_it_was_reported_is_refused_and_nothing_is_committed(
    name: str, change: str, tmp_path: Path
) -> None:
    outcome = made(tmp_path / "attempt")
    path = tmp_path / "attempt" / name
    path.write_bytes(CHANGES[change](path.read_bytes()))
    storage = LocalStorage(tmp_path / "run")
    with pytest.raises(DataError, match="its worker wrote") as error:
        Commits(storage).put("step", "unit", "f", outcome)
    assert str(path) in str(error.value)
    assert Commits(storage).get("step", "unit", "f") is None
    assert not [file for file in (tmp_path / "run").rglob("*") if file.is_file()]


def test_files_as_they_were_reported_are_committed(tmp_path: Path) -> None:
    outcome = made(tmp_path / "attempt")
    storage = LocalStorage(tmp_path / "run")
    Commits(storage).put("step", "unit", "f", outcome)
    for name in NAMES:
        assert digest_file(tmp_path / "run" / name) == outcome.files[name]
