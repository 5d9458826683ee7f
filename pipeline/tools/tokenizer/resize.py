"""Tokenizer resize: a checkpoint gets rows for the ids of an extended tokenizer.

    old and new tokenizer  ->  old ids, new ids, how the old one writes the new pieces  -+
    CHECKPOINT             ->  tensors that have a row for each id                      -+-> OUTPUT

Rows of old ids, and all other tensors, are bit for bit as before.
"""

from collections.abc import Mapping, Sequence
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
from pipeline.tools.tokenizer.resize_tables import ResizedTensor, ResizeResult, TextLoss
from stages.errors import ConfigError
from stages.resize.new_rows import Growth, NewTensor, resized
from stages.resize.row_method import RowMethod
from stages.resize.tensors import choose_tensors
from stages.tokenizer.new_ids import ModelFile, NewIds, find_new_ids


def resize_checkpoint(  # noqa: PLR0913  # one parameter an option
    checkpoint: Path,
    output: Path,
    *,
    old: Path,
    new: Path,
    method: RowMethod,
    multiple_of: int = 1,
    seed: int = 0,
    tensors: Sequence[str] = (),
    texts: Sequence[Path] = (),
) -> ResizeResult:
    """Write a checkpoint with rows for the ids of an extended tokenizer.

    Args:
        checkpoint: a file, or a folder of transformers.
        output: the checkpoint to write.
        old: the tokenizer of the checkpoint.
        new: the extended one.
        method: what the rows of new ids hold.
        multiple_of: to which the number of rows is padded.
        seed: of methods that draw.
        tensors: names of the tensors to resize; by default they are found.
        texts: files on which losses are measured.

    Raises:
        ConfigError: no such file, tokenizers of which the new one does not extend the old one, tensors
            that are not clear, or an output that is there.
        FormatError: a file is not what it must be.
        DataError: the rows hold what is no number.
        Stopped: by a full disk, or because another process writes the output.
    """
    require_local(checkpoint, "CHECKPOINT")
    require_local(output, "--output")
    refuse_output(output, checkpoint)
    files = model_file(old, "--old"), model_file(new, "--new")
    ids = find_new_ids(*files)
    opened = open_checkpoint(checkpoint)
    measured = _step_zero_texts(texts, opened)
    names = choose_tensors(
        opened.tensors, old_size=ids.old_size, named=tensors, vocab_size=opened.vocab_size
    )
    growth = _growth(ids, opened.tensors[names[0]].rows, multiple_of)
    changed = _resized(opened, names, growth, method=method, seed=seed)
    with disk_faults(output.absolute().parent):
        write_checkpoint(opened, output, changed)
    return ResizeResult(
        output=output,
        method=method,
        tensors=_resized_tensors(opened, names, growth),
        old_ids=len(ids.old),
        new_ids=len(ids.new),
        reused=growth.reused,
        padding=growth.padding,
        without_text=sum(not len(old_ids) for old_ids in ids.old_ids),
        left_out=opened.left_out,
        texts=_losses(measured, checkpoint, output, files),
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
    return Growth(rows, after, ids.old, ids.new, ids.old_ids)


def _resized(
    checkpoint: Checkpoint, names: list[str], growth: Growth, *, method: RowMethod, seed: int
) -> dict[str, NewTensor]:
    """Return what each tensor is to hold; tensors that are one get the same rows."""
    streams: dict[str, int] = {}
    found: dict[str, NewTensor] = {}
    for name in sorted(names):  # formats have orders of their own
        info = checkpoint.tensors[name]
        storage = "tied" if checkpoint.is_tied and len(info.shape) > 1 else info.storage
        found[name] = resized(
            checkpoint.file_of(name).rows(name),
            growth,
            dtype=info.dtype,
            method=method,
            seed=seed,
            stream=streams.setdefault(storage, len(streams)),
            name=f"{checkpoint.path}: {name}",
        )
    return found


def _resized_tensors(
    checkpoint: Checkpoint, names: list[str], growth: Growth
) -> tuple[ResizedTensor, ...]:
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


def _step_zero_texts(texts: Sequence[Path], checkpoint: Checkpoint) -> Mapping[Path, list[str]]:
    """Return the texts to measure on; what could keep them from being measured is refused first."""
    if not texts:
        return {}
    if checkpoint.config is None:
        raise ConfigError(
            "--text: losses need the model; name a folder of transformers as CHECKPOINT, or measure"
            " them in your trainer"
        )
    from pipeline.tools.tokenizer.step_zero import require_model, texts_to_measure  # noqa: PLC0415  # takes seconds to import

    require_model(checkpoint.config, checkpoint.path)
    return {path: texts_to_measure(path) for path in texts}


def _losses(
    texts: Mapping[Path, list[str]], before: Path, after: Path, files: tuple[ModelFile, ModelFile]
) -> tuple[TextLoss, ...]:
    """Return the losses of texts under the checkpoint as it was, and as it is written."""
    if not texts:
        return ()
    from pipeline.tools.tokenizer.step_zero import StepZero  # noqa: PLC0415  # as above

    measure = StepZero(before, after, old=files[0], new=files[1])
    return tuple(measure.loss(str(path), own) for path, own in texts.items())
