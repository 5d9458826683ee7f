"""Requests: what a call of `shardmill run` asks for of each generation of its folder."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.inputs.files import FoundFile, FoundInputs, find_inputs
from pipeline.planning.against import recorded_or_found
from pipeline.planning.existing import find_tokenizer
from pipeline.planning.generations import earlier_mixes, generations_of, run_file_of, tokenizer_of_first
from pipeline.planning.plan import finished_steps
from pipeline.planning.replays import find_replays, require_other_files
from pipeline.run_file.config import RunFile
from pipeline.state.commits import PLAN
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.step import Scope
from stages.errors import ConfigError, FormatError


@dataclass(frozen=True)
class RunRequest:
    """What a call of `shardmill run` asks for."""

    file: RunFile
    base: Path
    """Folder that the run file's paths are relative to."""
    output: Path
    workers: int
    address: str | None = None
    follows_cores: bool = False
    """Whether the number of workers follows the cores of the cluster at the address."""
    until: str | None = None
    replace: bool = False
    as_one: bool = False
    """Whether `replace` makes one run of all generations, whatever has changed."""
    files: frozenset[str] | None = None
    """SOURCE/PATH of the input files that it is of; None is all that its sources name."""
    before: tuple[Path, ...] = ()
    """Folders of the generations before it: the first is the run that its tokenizer is of."""


def generation_requests(request: RunRequest) -> list[RunRequest]:
    """Return a request for each generation of a folder: its own run first.

    With --replace, new files are no generation: all become one run, as do all generations if asked for.
    """
    if request.files is not None:
        return [request]
    try:
        folders = RunFolder(request.output).generations()
    except FormatError:
        if request.replace:  # all files become one run
            return [request]
        raise
    if not (request.output / PLAN).exists() and not folders:
        return [request]
    keys = {_key(file) for file in find_inputs(request.file, request.base, output=request.output).files}
    found = generations_of(request.output, keys)
    fresh = not (found[-1].folder / PLAN).exists()
    if len(found) == 1 or (request.replace and (fresh or request.as_one)):
        return [request]
    _refuse_renamed(
        request, frozenset().union(*(one.files for one in found[: -1 if fresh else None])), keys
    )
    own = replace(request, files=found[0].files)
    later = [
        replace(
            request,
            file=run_file_of(request.file, one, first=request.output),
            output=one.folder,
            files=one.files,
            before=tuple(earlier.folder for earlier in found[:number]),
        )
        for number, one in enumerate(found)
        if number
    ]
    return [own, *later]


def _refuse_renamed(request: RunRequest, known: AbstractSet[str], named: AbstractSet[str]) -> None:
    """Refuse a source under another name: its files would be lost under the one, new under the other.

    Args:
        request: the call.
        known: SOURCE/PATH of the files of finished generations.
        named: of all that the sources name now.

    Raises:
        ConfigError: such a source.
    """
    new = {path: source for source, _, path in (key.partition("/") for key in sorted(named - known))}
    still = {source.name for source in request.file.sources}
    for source, _, path in (key.partition("/") for key in sorted(known - named)):
        if source not in still and path in new:
            raise ConfigError(
                f"{request.output}: its source {source} is not in the run file any more, and"
                f" {new[path]} has its file {path}: was {source} renamed to {new[path]}? Sources of a"
                f" finished run keep their names: write name = {source!r} again, or use --replace, which"
                " makes the run again from all files"
            )


def _key(file: FoundFile) -> str:
    return f"{file.source}/{file.path}"


def found_inputs(request: RunRequest) -> FoundInputs:
    """Return the input files of a run, or of one generation of it."""
    found = find_inputs(request.file, request.base, output=request.output)
    if request.files is None:
        return found
    own = [file for file in found.files if _key(file) in request.files]
    if not own:
        raise ConfigError(
            f"{request.output}: all of its input files are gone ({min(request.files)}); put them back"
        )
    return replace(found, files=own)


def scope_of(request: RunRequest, files: Sequence[FoundFile]) -> Scope:
    """Return what a run is planned for, before its input files are scanned.

    Args:
        request: the call.
        files: that the run reads.
    """
    adopted = (
        tokenizer_of_first(request.before[0])
        if request.before
        else find_tokenizer(request.file, request.base)
    )
    earlier = recorded_or_found(
        request.file, request.base, output=request.output, before=request.before, anew=request.replace
    )
    replayed = find_replays(
        request.file, request.base, output=request.output, adopted=adopted, anew=request.replace
    )
    require_other_files(files, replayed)
    return Scope(
        request.file,
        (),
        adopted,
        earlier=earlier,
        replayed=replayed,
        generation=len(request.before),
        finished=finished_steps(RunFolder(request.output).commits),
        mixed=earlier_mixes(request.before),
    )
