"""Hugging Face dataset folders: what `save_to_disk` writes, and which of its files are data.

    ds/state.json         {"_data_files": [{"filename": "data-00000-of-00002.arrow"}, ...]}
    ds/dataset_info.json  ds/data-*.arrow  ds/cache-*.arrow (left by other programs, no part of it)

    dd/dataset_dict.json  {"splits": ["train", "test"]}      dd/train/state.json  dd/test/state.json

The files that state.json names are the data. Each must be there, and no other file is read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import Place, file_system
from stages.errors import ConfigError

STATE, SPLITS = "state.json", "dataset_dict.json"
"""What makes a folder one dataset, and one of several splits."""
_NOTES = (STATE, SPLITS, "dataset_info.json")
_MAX_BYTES = 16 << 20
_DATA = ".arrow"


def is_dataset_folder(folder: Place) -> bool:
    """Say whether a folder is a dataset of Hugging Face, or one of several splits."""
    return any(_is_there(folder, name) for name in (STATE, SPLITS))


@dataclass
class DatasetFolders:
    """Knows of each folder of a source which of its files are data.

    Args:
        key: what messages begin with, such as "sources.web.paths".
    """

    key: str
    _data: dict[str, frozenset[str] | None] = field(default_factory=dict)
    """Of each folder, the names of its data; None if it is no dataset."""

    def is_beside(self, place: Place) -> bool:
        """Say whether a file stands in a dataset folder and is no data of it.

        Raises:
            ConfigError: what the folder says of itself is damaged, or a file of it is missing.
        """
        folder, name = _split(place)
        if name not in _NOTES and not name.endswith(_DATA):
            return False
        if str(folder) not in self._data:
            self._data[str(folder)] = self._data_of(folder)
        names = self._data[str(folder)]
        if names is None:
            return name == SPLITS and self._splits_of(folder) is not None
        return name not in names

    def require_one_split(self, folder: Place) -> None:
        """Refuse a folder of several splits, which nobody means to mix.

        Raises:
            ConfigError: there are several.
        """
        splits = self._splits_of(folder) if _is_there(folder, SPLITS) else None
        if splits is not None and len(splits) > 1:
            raise ConfigError(
                f"{self.key}: {folder} is a dataset of the splits {', '.join(splits)}; name one, as"
                f" {folder}/{splits[0]}, or {folder}/* for all of them"
            )

    def _data_of(self, folder: Place) -> frozenset[str] | None:
        state = self._content(folder, STATE)
        if state is None or "_data_files" not in state:
            return None
        try:
            names = frozenset(str(one["filename"]) for one in state["_data_files"])  # type: ignore[attr-defined]
        except (TypeError, KeyError) as error:
            raise self._damaged(folder, STATE) from error
        if state.get("_indices_data_files"):
            raise ConfigError(
                f"{self.key}: {folder} is a dataset whose rows are chosen by a file of indices; write it"
                " again: dataset.flatten_indices().save_to_disk(...)"
            )
        for name in sorted(names):
            if not _is_there(folder, name):
                raise ConfigError(
                    f"{self.key}: {folder}/{STATE} names {name}, which is not there; fetch or write the"
                    " dataset again"
                )
        return names

    def _splits_of(self, folder: Place) -> list[str] | None:
        content = self._content(folder, SPLITS)
        splits = None if content is None else content.get("splits")
        return [str(split) for split in splits] if isinstance(splits, list) else None

    def _content(self, folder: Place, name: str) -> Mapping[str, object] | None:
        """Return the object that a note of a folder holds; None if there is no such note."""
        if not _is_there(folder, name):
            return None
        with open_place(_inside(folder, name), key=self.key) as file:
            data = file.read(_MAX_BYTES)
        try:
            content = json.loads(data)
        except ValueError as error:
            raise self._damaged(folder, name) from error
        return content if isinstance(content, dict) else None

    def _damaged(self, folder: Place, name: str) -> ConfigError:
        return ConfigError(
            f"{self.key}: {folder}/{name} is damaged; fetch or write the dataset again, or leave it out"
            " with exclude"
        )


def _split(place: Place) -> tuple[Place, str]:
    """Return the folder and the name of a file."""
    if isinstance(place, Path):
        return place.parent, place.name
    folder, _, name = place.rpartition("/")
    return folder, name


def _inside(folder: Place, name: str) -> Place:
    return folder / name if isinstance(folder, Path) else f"{folder}/{name}"


def _is_there(folder: Place, name: str) -> bool:
    if isinstance(folder, Path):
        return (folder / name).is_file()
    system, path = file_system(folder, key=folder)
    return bool(system.isfile(f"{path}/{name}"))
