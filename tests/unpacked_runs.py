"""Finished runs that earlier versions of the program made, each with its run file and its inputs.

`tests/earlier_runs/NAME.tar.zst` holds `run.toml`, `in/` and `out/`. With them, tests show that a
finished run stays what it was. `tests/earlier_runs/README.md` names the version that made each.
"""

import tarfile
from pathlib import Path

import zstandard

FOLDER = Path(__file__).with_name("earlier_runs")


def unpack_run(name: str, folder: Path) -> Path:
    """Unpack an earlier run into a new folder and return the folder, which holds run.toml, in/ and out/.

    Args:
        name: of the archive.
        folder: where to; `NAME` is made in it.
    """
    place = folder / name
    with (
        (FOLDER / f"{name}.tar.zst").open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(place, filter="data")
    return place


def generation_of(folder: Path, number: int) -> Path:
    """Return the folder of a generation of an unpacked run; 0 is the run's own."""
    return folder / "out" / "generations" / f"{number:04d}" if number else folder / "out"
