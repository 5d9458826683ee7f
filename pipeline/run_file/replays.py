"""Replays: sources that are earlier runs, and what a run file may say of them and beside them.

[[sources]]  name, run      and how much of it: epochs, share, max_epochs, weight_column
[tokenizer]  path           that run's, because ids are replayed as they are
"""

from typing import TYPE_CHECKING

from stages.objectives.table import needs_sentences

if TYPE_CHECKING:
    from pipeline.run_file.config import RunFile, Source

_OF_RUNS = frozenset({"name", "run", "epochs", "share", "max_epochs", "weight_column", "license"})
"""What a source that is a run may say; all else is how files are read."""


def require_files_or_a_run(source: "Source") -> None:
    """Refuse a source that is neither files nor a run, or that is a run and says how files are read.

    Raises:
        ValueError: says which setting, and the way out.
    """
    if source.run is None:
        if not source.paths:
            raise ValueError("paths is missing: name the files of the source, or run, a finished run")
        return
    if not source.run.strip():
        raise ValueError("run = '' names no folder; name the folder of a finished run")
    if source.paths:
        raise ValueError(
            "paths and run are both given: a source is files or a run; make them two sources"
        )
    for name, field in type(source).model_fields.items():
        given, default = getattr(source, name), field.get_default(call_default_factory=True)
        if name not in _OF_RUNS and given != default:
            raise ValueError(
                f"{name} is about files, and run = {source.run!r} is a run, whose documents are taken as"
                " they are; leave it out"
            )


def require_possible_replays(file: "RunFile") -> None:
    """Refuse a run that could not take documents of another as they are.

    Raises:
        ValueError: says why, and the way out.
    """
    replays = file.replays
    if not replays:
        return
    name, folder = next(iter(replays.items()))
    begin = f"source {name!r}: run = {folder!r}"
    if not file.file_sources:
        raise ValueError(
            f"{begin}: no source has files; add one with paths, or train on that run's own datasets"
        )
    if file.tokenizer.path is None:
        raise ValueError(
            f"{begin}: its ids are of that run's tokenizer, and this run trains one; write [tokenizer]"
            f" path = {folder!r}"
        )
    for dataset in file.datasets:
        if needs_sentences(dataset.objective, file.packing_of(dataset)):
            raise ValueError(
                f"{begin}: dataset {dataset.name!r} (kind = {dataset.objective.kind!r}) needs the ends"
                " of sentences, and of replayed documents no text is read; make this dataset in a run"
                " without the source"
            )
