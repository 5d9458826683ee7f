"""Tokenizer resize: a checkpoint gets rows for the ids of an extended tokenizer.

    old and new tokenizer  ->  old ids, new ids, how the old one writes the new pieces  -+
    CHECKPOINT             ->  tensors that have a row for each id                      -+-> OUTPUT

Rows of old ids, and all other tensors, are bit for bit as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.planning.existing import read_tokenizer_file
from pipeline.planning.outputs import require_local
from pipeline.system.disk_faults import disk_faults
from pipeline.tools.tokenizer.checkpoints import (
    Checkpoint,
    open_checkpoint,
    refuse_output,
    write_checkpoint,
)
from pipeline.tools.tokenizer.resize_tables import ResizedTensor, Resizing, TextLoss
from stages.errors import ConfigError
from stages.resize.chosen import choose_tensors
from stages.resize.new_rows import Growth, Resized, resized
from stages.resize.row_method import RowMethod
from stages.tokenizer.new_ids import ModelFile, NewIds, find_new_ids


@dataclass(frozen=True)
class ResizeRequest:
    """What a call of `shardmill tokenizer resize` asks for."""

    checkpoint: Path
    old: Path
    new: Path
    output: Path
    method: RowMethod
    multiple_of: int = 1
    seed: int = 0
    tensors: tuple[str, ...] = ()
    """Names of the tensors to resize; by default they are found."""
    texts: tuple[Path, ...] = ()
    """On which losses are measured."""


def resize_checkpoint(request: ResizeRequest) -> Resizing:
    """Write a checkpoint with rows for the ids of an extended tokenizer.

    Raises:
        ConfigError: no such file, tokenizers of which the new one does not extend the old one, tensors
            that are not clear, or an output that is there.
        FormatError: a file is not what it must be.
        DataError: the rows hold what is no number.
        Stopped: by a full disk, or because another process writes the output.
    """
    require_local(request.checkpoint, "CHECKPOINT")
    require_local(request.output, "--output")
    refuse_output(request.output, request.checkpoint)
    old, new = model_file(request.old, "--old"), model_file(request.new, "--new")
    ids = find_new_ids(old, new)
    checkpoint = open_checkpoint(request.checkpoint)
    texts = _step_zero_texts(request, checkpoint)
    names = choose_tensors(
        checkpoint.tensors,
        old_size=ids.old_size,
        named=request.tensors,
        vocab_size=checkpoint.vocab_size,
    )
    growth = _growth(ids, checkpoint.tensors[names[0]].rows, request.multiple_of)
    changed = _resized(checkpoint, names, growth, request)
    with disk_faults(request.output.absolute().parent):
        write_checkpoint(checkpoint, request.output, changed)
    losses: tuple[TextLoss, ...] = ()
    if texts:
        from pipeline.tools.tokenizer.step_zero import StepZero  # noqa: PLC0415  # takes seconds to import

        measure = StepZero(request.checkpoint, request.output, old=old, new=new)
        losses = tuple(measure.loss(str(path), own) for path, own in texts.items())
    return Resizing(
        output=request.output,
        method=request.method,
        tensors=_described(checkpoint, names, growth),
        old_ids=len(ids.old),
        new_ids=len(ids.new),
        reused=growth.reused,
        padding=growth.padding,
        without_text=sum(not len(written) for written in ids.written),
        left_out=checkpoint.left_out,
        texts=losses,
    )


def model_file(path: Path, option: str) -> ModelFile:
    """Return a tokenizer's file, whose content says of which kind it is.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    key = f"{option} {path}"
    (kind, data, _) = read_tokenizer_file(path, key, base=Path.cwd()).content
    return ModelFile(data, kind, key)


def _growth(ids: NewIds, rows: int, multiple_of: int) -> Growth:
    """Return which rows there will be: never fewer than before."""
    needed = max(rows, ids.size)
    after = -(-needed // multiple_of) * multiple_of
    if not len(ids.new) and after == rows:
        raise ConfigError("--new: has no id that --old lacks, so there is nothing to resize")
    return Growth(rows, after, ids.old, ids.new, ids.written)


def _resized(
    checkpoint: Checkpoint, names: list[str], growth: Growth, request: ResizeRequest
) -> dict[str, Resized]:
    """Return what each tensor is to hold; tensors that are one get the same rows."""
    streams: dict[str, int] = {}
    found: dict[str, Resized] = {}
    for name in sorted(names):  # formats have orders of their own
        info = checkpoint.tensors[name]
        storage = "tied" if checkpoint.is_tied and len(info.shape) > 1 else info.storage
        found[name] = resized(
            checkpoint.file_of(name).rows(name),
            growth,
            dtype=info.dtype,
            method=request.method,
            seed=request.seed,
            stream=streams.setdefault(storage, len(streams)),
            name=f"{request.checkpoint}: {name}",
        )
    return found


def _described(checkpoint: Checkpoint, names: list[str], growth: Growth) -> tuple[ResizedTensor, ...]:
    tensors, first = checkpoint.tensors, dict[str, str]()
    return tuple(
        ResizedTensor(
            name,
            tensors[name].shape,
            tensors[name].dtype,
            growth.rows_after,
            None if (one := first.setdefault(tensors[name].storage, name)) == name else one,
        )
        for name in names
    )


def _step_zero_texts(request: ResizeRequest, checkpoint: Checkpoint) -> Mapping[Path, list[str]]:
    """Return the texts to measure on; what could keep them from being measured is refused first."""
    if not request.texts:
        return {}
    if checkpoint.config is None:
        raise ConfigError(
            "--text: losses need the model; name a folder of transformers as CHECKPOINT, or measure"
            " them in your trainer"
        )
    from pipeline.tools.tokenizer.step_zero import require_model, texts_to_measure  # noqa: PLC0415  # as above

    require_model(checkpoint.config, request.checkpoint)
    return {path: texts_to_measure(path) for path in request.texts}
