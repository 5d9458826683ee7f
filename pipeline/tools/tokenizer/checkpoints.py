"""Checkpoints: a file of tensors, or a folder of transformers, opened and written again with other rows.

    OUTPUT.partial    what is being written; a killed command leaves it, and the next one overwrites it
    OUTPUT            there only when it is whole

Of a folder, the weights are written file by file, config.json and the index get the new numbers, and
other files are copied. The tokenizer's files and the optimizer's state are not: they are of the old ids.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.state.atomic_write import atomic_write
from pipeline.state.state_files import parse_object
from stages.errors import ConfigError, FormatError
from stages.resize.new_rows import NewTensor, TensorFile
from stages.resize.tensors import TensorInfo
from stages.store.digests import sync_path

CONFIG = "config.json"
_WAY_OUT = "name a folder that transformers' save_pretrained wrote"
_INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_SINGLE = ("model.safetensors", "pytorch_model.bin")
_TOKENIZER = (
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model", "tekken.json"),
    *("sentencepiece.bpe.model", "chat_template.jinja", "chat_template.json"),
)
_OF_TRAINING = ("optimizer.pt", "scheduler.pt", "optimizer.bin", "scheduler.bin", "training_args.bin")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx")
"""Endings of what may hold the weights once more."""
_PICKLED = (b"PK\x03\x04", b"\x80\x02")
"""What torch's files begin with: zip files, and pickles before torch 1.6."""
_VOCAB = "vocab_size"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is open."""

    path: Path
    files: Mapping[str, TensorFile]
    """By name; of a checkpoint that is one file, by its own."""
    config: Mapping[str, Any] | None
    """Of a folder."""
    index: str | None = None
    """The file that says in which file each tensor is."""
    copied: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def tensors(self) -> dict[str, TensorInfo]:
        """Return what is known of all tensors, by name."""
        return {name: info for file in self.files.values() for name, info in file.tensors.items()}

    @property
    def vocab_size(self) -> int | None:
        """Return how many ids the config says that the model has."""
        return None if self.config is None else _vocab_sizes(self.config)[0]

    @property
    def is_tied(self) -> bool:
        """Say whether the config ties the head to the embedding; transformers' default is yes."""
        return self.config is not None and self.config.get("tie_word_embeddings", True) is True

    def file_of(self, name: str) -> TensorFile:
        """Return the file that holds a tensor."""
        return next(file for file in self.files.values() if name in file.tensors)


def open_checkpoint(path: Path) -> Checkpoint:
    """Return a checkpoint.

    Raises:
        ConfigError: there is none.
        FormatError: a file is not what it must be.
    """
    if not path.exists():
        raise ConfigError(f"CHECKPOINT {path}: no such file or folder")
    if not path.is_dir():
        return Checkpoint(path, {path.name: _open_tensors(path)}, None)
    config_path = path / CONFIG
    if not config_path.is_file():
        raise ConfigError(f"CHECKPOINT {path}: has no {CONFIG}; {_WAY_OUT}, or a file of tensors")
    config = parse_object(config_path.read_bytes(), config_path, way_out=_WAY_OUT)
    if not _vocab_sizes(config):
        raise FormatError(f"{config_path}: has no {_VOCAB}; {_WAY_OUT}")
    index = next((name for name in _INDICES if (path / name).exists()), None)
    names = [name for name in _SINGLE if (path / name).exists()][:1]
    if (path / _SINGLE[0]).exists():  # as transformers prefers it
        index = None
    if index is not None:
        names = _sharded(path / index)
    if not names:
        raise ConfigError(
            f"CHECKPOINT {path}: has none of {', '.join((*_SINGLE, *_INDICES))}; {_WAY_OUT}"
        )
    files = {name: _open_tensors(path / name) for name in names}
    _refuse_twice(path, files)
    rest = sorted(entry.name for entry in path.iterdir() if entry.name not in (*names, CONFIG, index))
    left_out = [name for name in rest if not _is_copied(path / name)]
    copied = [name for name in rest if name not in left_out]
    return Checkpoint(path, files, config, index, tuple(copied), tuple(left_out))


def write_checkpoint(checkpoint: Checkpoint, output: Path, changed: Mapping[str, NewTensor]) -> None:
    """Write a checkpoint with other rows of some tensors; `output` is there only when it is whole.

    Raises:
        ConfigError: something stands there.
        Stopped: another process writes it.
    """
    if checkpoint.config is None:
        with atomic_write(output, names=()) as partial, partial.open("wb") as target:
            _write_synced(target, next(iter(checkpoint.files.values())), changed)
        return
    written = {CONFIG: _json(_with_rows(checkpoint, changed))}
    if checkpoint.index is not None:
        written[checkpoint.index] = _json(_grown_index(checkpoint, changed))
    names = (*checkpoint.files, *written, *checkpoint.copied)
    with atomic_write(output, names=names) as partial:
        for name, file in checkpoint.files.items():
            own = {one: rows for one, rows in changed.items() if one in file.tensors}
            with (partial / name).open("wb") as target:
                _write_synced(target, file, own)
        for name, content in written.items():
            (partial / name).write_bytes(content)
            sync_path(partial / name)
        for name in checkpoint.copied:
            shutil.copyfile(checkpoint.path / name, partial / name)
            sync_path(partial / name)


def refuse_output(output: Path, checkpoint: Path) -> None:
    """Refuse an output that is there, or that lies in the checkpoint.

    Raises:
        ConfigError: says which.
    """
    if output.exists() or output.is_symlink():
        raise ConfigError(f"--output {output}: is there; choose another one, or move it away")
    if not output.absolute().parent.is_dir():
        raise ConfigError(f"--output {output}: there is no folder {output.absolute().parent}; make it")
    if output.resolve().is_relative_to(checkpoint.resolve()):
        raise ConfigError(f"--output {output}: lies in CHECKPOINT {checkpoint}; choose another one")


def _open_tensors(path: Path) -> TensorFile:
    """Return a file of tensors, whose content says of which format."""
    from stages.resize.safetensors_file import SafetensorsFile  # noqa: PLC0415  # with the next one

    if not path.is_file():
        raise FormatError(f"{path}: gone, or not a file")
    with path.open("rb") as file:
        first = file.read(4)
    if not first.startswith(_PICKLED) or SafetensorsFile.is_one(path):
        return SafetensorsFile.open(path)
    from stages.resize.torch_file import TorchFile  # noqa: PLC0415  # torch takes seconds to import

    return TorchFile.open(path)


def _sharded(index: Path) -> list[str]:
    """Return the names of the files that an index lists."""
    content = parse_object(index.read_bytes(), index, way_out=_WAY_OUT)
    files = content.get("weight_map")
    names = list(dict.fromkeys(files.values())) if isinstance(files, dict) else []
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise FormatError(f"{index}: has no weight_map of file names; {_WAY_OUT}")
    return sorted(names)


def _refuse_twice(path: Path, files: Mapping[str, TensorFile]) -> None:
    seen: dict[str, str] = {}
    for name, file in files.items():
        for tensor in file.tensors:
            if tensor in seen:
                raise FormatError(f"{path}: {tensor} is in {seen[tensor]} and in {name}; {_WAY_OUT}")
            seen[tensor] = name


def _is_copied(path: Path) -> bool:
    known = path.name in (*_TOKENIZER, *_OF_TRAINING) or path.name in _INDICES
    return path.is_file() and not known and path.suffix not in _WEIGHTS


def _vocab_sizes(config: Mapping[str, Any]) -> list[int]:
    """Return the vocabulary sizes of a config: its own, and that of its text model."""
    parts = [config, config.get("text_config")]
    sizes = [part.get(_VOCAB) for part in parts if isinstance(part, dict)]
    return [size for size in sizes if type(size) is int]


def _with_rows(checkpoint: Checkpoint, changed: Mapping[str, NewTensor]) -> dict[str, Any]:
    assert checkpoint.config is not None
    (rows,) = {one.rows for one in changed.values()}
    before, config = checkpoint.vocab_size, dict(checkpoint.config)
    if config.get(_VOCAB) == before:
        config[_VOCAB] = rows
    text = config.get("text_config")
    if isinstance(text, dict) and text.get(_VOCAB) == before:
        config["text_config"] = text | {_VOCAB: rows}
    return config


def _grown_index(checkpoint: Checkpoint, changed: Mapping[str, NewTensor]) -> dict[str, Any]:
    """Return the index with the size that all tensors have together."""
    assert checkpoint.index is not None
    place = checkpoint.path / checkpoint.index
    index = parse_object(place.read_bytes(), place, way_out=_WAY_OUT)
    metadata = index.get("metadata")
    if not isinstance(metadata, dict):
        return index
    numbers = [
        (one.rows - checkpoint.tensors[name].rows) * one.values.shape[1] for name, one in changed.items()
    ]
    sizes = [one.values.dtype.itemsize for one in changed.values()]
    grown = {
        "total_size": sum(n * size for n, size in zip(numbers, sizes, strict=True)),
        "total_parameters": sum(numbers),
    }
    added = {
        key: metadata[key] + more for key, more in grown.items() if isinstance(metadata.get(key), int)
    }
    return index | {"metadata": metadata | added}


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _write_synced(target: BinaryIO, file: TensorFile, changed: Mapping[str, NewTensor]) -> None:
    file.write(target, changed)
    target.flush()
    os.fsync(target.fileno())
