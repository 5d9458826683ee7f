"""What the comparison with real clients promises: it knows every format, and it finds a difference.

`make clients` itself installs packages, so it is no test; the client here is nanoGPT, which is in none.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from stages.export.source import open_source
from stages.export.table import FORMATS
from tests.stages.export.rows_on_disk import write_export

CLIENTS = Path(__file__).resolve().parents[2] / "clients"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `clients/run.py`, imported as its own folder lets it."""
    monkeypatch.syspath_prepend(CLIENTS)
    return importlib.import_module("run")


@pytest.fixture
def export(reference: Path, tmp_path: Path) -> Path:
    """Return nanoGPT's files of the small run."""
    for split in ("train", "validation"):
        source = open_source(reference / "datasets" / "clm", split=split)
        write_export(FORMATS["nanogpt"], source, tmp_path / split)
        (path,) = (tmp_path / split).glob("*.bin")
        path.rename(tmp_path / path.name)
    return tmp_path


def test_every_format_is_read_by_a_client(scripts: ModuleType) -> None:
    read = [format_ for client in scripts.CLIENTS for format_ in client.formats]
    assert sorted(read) == sorted(FORMATS)


def test_every_client_has_its_reader_and_every_reader_its_client(scripts: ModuleType) -> None:
    readers = {path.stem for path in (CLIENTS / "readers").glob("*.py")} - {"answers"}
    assert readers == {client.reader for client in scripts.CLIENTS}


def test_every_client_is_installed_in_one_version(scripts: ModuleType) -> None:
    for client in scripts.CLIENTS:
        pins = [
            pin for pin in (*client.alone, *client.requirements) if pin.startswith(f"{client.name}==")
        ]
        assert len(pins) == bool(client.name), client


@pytest.mark.parametrize(
    ("name", "place", "faults"),
    [
        (None, 0, ["equal"]),
        ("train.bin", -3, ["train stream: sha256"]),
        ("val.bin", 5, ["validation stream: sha256"]),
    ],
)
def test_a_token_that_differs_is_found(
    scripts: ModuleType,
    export: Path,
    reference: Path,
    name: str | None,
    place: int,
    faults: list[str],
) -> None:
    if name is not None:
        ids = np.fromfile(export / name, "<u2")
        ids[place] ^= 1
        ids.tofile(export / name)
    (client,) = (client for client in scripts.CLIENTS if client.reader == "nanogpt")
    dataset = reference / "datasets" / "clm"
    _, verdict = scripts.compare(Path(sys.executable), client, "nanogpt", export, dataset)
    assert verdict.startswith("equal" if name is None else "DIFFERS")
    assert all(fault in verdict for fault in faults)
