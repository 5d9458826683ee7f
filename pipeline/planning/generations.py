"""Generations: what a run folder holds beside its own run, once its sources name more files.

    DIR/                    the run over the files that there were: generation 0
    DIR/generations/0001/   a whole run over the files that came later, against all before it
    DIR/generations/0002/   and so on

A generation is a run folder like any other: its own split, shards, commits and run.json. Its tokenizer
is that of generation 0, its seed is derived, and the documents of all earlier generations outrank its
own.

Earlier mixes: how many tokens the earlier generations of a folder have of each source, by dataset.

A later generation plans its shares with them. They are read from the committed records of the mixes, so
they are known before anything of the generation runs.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pipeline.run_file.config import RunFile, TokenizerSection
from pipeline.run_file.dataset import Dataset
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.kept_plan import KeptStep
from pipeline.steps.mix.choose import MIX_NAME, MixRecord, tokens_by_source
from pipeline.steps.mix.rules import EARLIER
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.tokenizer.adopt import AdoptedTokenizer
from pipeline.steps.tokenizer.load import model_key, special_ids_of, spelled_out_of, tokenizer_of
from pipeline.steps.tokenizer.step import TOKENIZER
from stages.errors import ConfigError
from stages.mixing.config import Mix, SourceMix
from stages.store.digests import digest_file
from stages.store.generations import GENERATIONS, generation_name
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.markup import MarkupEncoder

M = TypeVar("M", bound=Mix)


@dataclass(frozen=True)
class RunGeneration:
    """One run in a folder, and the input files that it is of."""

    number: int
    folder: Path
    files: frozenset[str]
    """SOURCE/PATH of each."""


def number_of(folder: Path) -> int:
    """Return the number of a generation by the name of its folder; 0 is a run's own."""
    later = folder.parent.name == GENERATIONS and folder.name.isdecimal()
    return int(folder.name) if later else 0


def generations_of(output: Path, files: Collection[str]) -> list[RunGeneration]:
    """Return the runs that a folder holds, and behind them the one that new files would make.

    A folder whose own run is not finished and that has no later ones holds that run alone, and it is of
    all files.

    Args:
        output: the folder.
        files: SOURCE/PATH of all that the sources name now.

    Raises:
        ConfigError: the last generation is not finished, and all of its files are gone.
    """
    every, later = frozenset(files), RunFolder(output).generations()
    own = files_of(output, finished=not later)
    if own is None:  # not finished; or run.json is lost, where there are later ones
        own = every.difference(*(files_of(folder, finished=False) or () for folder in later))
    found = [RunGeneration(0, output, own)]
    for folder in later:
        recorded = files_of(folder, finished=False) or every
        if folder == later[-1] and files_of(folder) is None:
            recorded = _files_of_unfinished(folder, recorded, new=_new(every, found))
        found.append(RunGeneration(int(folder.name), folder, recorded))
    if new := _new(every, found):
        number = found[-1].number + 1
        found.append(RunGeneration(number, output / GENERATIONS / generation_name(number), new))
    return found


def _new(every: frozenset[str], found: Sequence[RunGeneration]) -> frozenset[str]:
    """Return the files that no generation is of."""
    return every - frozenset().union(*(one.files for one in found))


def _files_of_unfinished(
    folder: Path, recorded: frozenset[str], *, new: frozenset[str]
) -> frozenset[str]:
    """Return the files of a last generation that is not finished: others, if it has not read its own.

    Args:
        folder: of the generation.
        recorded: the files that it was of when it last ran.
        new: those of no other generation.

    Raises:
        ConfigError: its files are gone.
    """
    read = RunFolder(folder).commits.is_whole(INGEST.name)
    files = recorded if read or recorded <= new else new
    if not files & new:
        raise ConfigError(
            f"{folder}: this generation is not finished, and its input files are gone"
            f" ({min(recorded, default='')}); put them back, or delete this folder: nothing rests on it"
        )
    return files


def files_of(folder: Path, *, finished: bool = True) -> frozenset[str] | None:
    """Return SOURCE/PATH of the files that a run is of; None if there is none, or it is not finished."""
    run = RunFolder(folder)
    plan = run.known_plan
    if plan is None or INGEST.name not in plan.steps or (finished and not run.is_finished):
        return None
    return frozenset(plan.steps[INGEST.name].config.get("files", {}))


def run_file_of(file: RunFile, generation: RunGeneration, *, first: Path) -> RunFile:
    """Return the run file of a later generation.

    Args:
        file: the user's.
        generation: a later one.
        first: folder of generation 0, whose tokenizer it takes.
    """
    replays = file.replays.keys()
    return file.model_copy(
        update={
            "seed": derived_seed(file.seed, generation.number),
            "sources": tuple(
                one.model_copy(update={"epochs": 0.0})
                if one.name in replays and one.share is None
                else one
                for one in file.sources
            ),
            "mix": _grown(file.mix),
            "datasets": tuple(_with_grown_mix(one, replays) for one in file.datasets),
            "tokenizer": TokenizerSection(
                path=f"../../{model_key(first)}", fairness=file.tokenizer.fairness
            ),
        }
    )


def _with_grown_mix(dataset: Dataset, replays: Collection[str]) -> Dataset:
    """Return a dataset of a later generation. It replays a share of a run again, but no epochs of it."""
    if dataset.mix is None:
        return dataset
    sources = {
        name: SourceMix(epochs=0.0) if name in replays and one.share is None else one
        for name, one in dataset.mix.sources.items()
    }
    return dataset.model_copy(
        update={"mix": _grown(dataset.mix).model_copy(update={"sources": sources})}
    )


def _grown(mix: M) -> M:
    """Return the mix of a later generation, of the tokens and the sources that it has.

    The number of tokens is that of generation 0; a later one has what its own documents give.
    `mix.later` says what becomes of its shares.
    """
    return mix.model_copy(update={"total_tokens": None, "missing": "leave_out"})


def derived_seed(seed: int, generation: int) -> int:
    """Return the seed of a later generation, so that no two repeat the noise of each other's rows.

    The first 63 bits of SHA-256 of "SEED generation NUMBER".
    """
    digest = hashlib.sha256(f"{seed} generation {generation}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def tokenizer_of_first(first: Path) -> AdoptedTokenizer:
    """Return the tokenizer of generation 0, as later ones take it, with what was found out of its file.

    Raises:
        FormatError: it is not there.
    """
    key = model_key(first)
    commit = RunFolder(first).commit(TOKENIZER.name)
    if commit is None:
        raise ConfigError(f"{first}: its tokenizer is not done; finish that run first")
    return AdoptedTokenizer(
        path=(first / key).resolve(),
        sha256=digest_file(first / key).sha256,
        kind=TokenizerKind(Path(key).name),
        special_ids=special_ids_of(first),
        vocab_size=commit.read(TOKENIZER.record).vocab_size,
        loss=commit.read(TOKENIZER.record).warning,
        spelled_out=spelled_out_of(first),
        places=MarkupEncoder(tokenizer_of(first)).varies,
    )


_BEGIN = f"{MIX_NAME}-"


def earlier_mixes(before: Iterable[Path]) -> dict[str, dict[str, int]]:
    """Return the tokens of each source in the mixes of some runs, by dataset.

    Args:
        before: folders of the earlier generations; a mix that is not done yet is not counted.

    Raises:
        FormatError: a commit is damaged.
    """
    found: dict[str, dict[str, int]] = {}
    for folder in before:
        commits = RunFolder(folder).commits
        for step in commits.steps():
            whole = commits.whole(step) if step.startswith(_BEGIN) else None
            if whole is None:
                continue
            sums = found.setdefault(step.removeprefix(_BEGIN), {})
            for source, tokens in tokens_by_source(whole.read(MixRecord)).items():
                sums[source] = sums.get(source, 0) + tokens
    return found


def recorded_mixes(steps: Mapping[str, KeptStep]) -> dict[str, dict[str, int]]:
    """Return the same as a generation's run.json has it, of the mixes that were planned with them."""
    return {
        name.removeprefix(_BEGIN): {source: int(n) for source, n in step.config[EARLIER].items()}
        for name, step in steps.items()
        if name.startswith(_BEGIN) and EARLIER in step.config
    }
