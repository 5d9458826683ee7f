"""Replayed runs: finished runs whose training documents this run takes too, with the ids they have.

    own units         tokens/UNIT, made here
    replayed units    replay/SOURCE/NUMBER/UNIT, an index over tokens/UNIT of the other run

Nothing of the other run is ever written, and no id of it is copied before rows are. NUMBER is its place
among the generations of the folder that the run file names.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.steps.units import Unit
from stages.errors import ConfigError


@dataclass(frozen=True)
class ReplayedRun:
    """A finished run whose training documents are a source of another, or a generation of one."""

    source: str
    """The source's name in this run."""
    number: int
    """Of the generation, from 0."""
    ingest: str
    """Fingerprint of this step, as of the next two."""
    selected: str
    """Of the last step that decides what is kept."""
    tokenize: str
    tokenizer: str
    """SHA-256 of its tokenizer's file."""
    label: str = ""
    """As the run file names its folder, or the folder of a generation: for people."""
    folder: Path | None = None
    """Where it is, absolute; None where only its name is known, and then there are no units."""
    units: tuple[Unit, ...] = ()
    """As that run has them."""
    shards: int = 0
    """Its training shards: groups of its token store behind these are held out."""
    files: frozenset[str] = frozenset()
    """SOURCE/PATH of its input files: what its documents' ids are made of."""

    @property
    def identity(self) -> dict[str, str | int]:
        """What enters fingerprints: never where it is."""
        return {
            "source": self.source,
            "number": self.number,
            "ingest": self.ingest,
            "selected": self.selected,
            "tokenize": self.tokenize,
            "tokenizer": self.tokenizer,
        }

    @classmethod
    def recorded(cls, content: Iterable[Mapping[str, str | int]]) -> "tuple[ReplayedRun, ...]":
        """Return the runs that run.json names, without their folders."""
        return tuple(
            cls(
                source=str(one["source"]),
                number=int(one["number"]),
                ingest=str(one["ingest"]),
                selected=str(one["selected"]),
                tokenize=str(one["tokenize"]),
                tokenizer=str(one["tokenizer"]),
            )
            for one in content
        )

    def pairs(self) -> Iterator[tuple[Unit, Unit]]:
        """Yield each unit as that run has it, and as this run does."""
        for unit in self.units:
            yield (
                unit,
                replace(
                    unit,
                    name=f"{self.source}/{self.number:04d}/{unit.name}",
                    source=self.source,
                    first=0,
                    folder="",
                    lender=f"{self.folder}/tokens/{unit.name}",
                ),
            )


def replayed_units(runs: Iterable[ReplayedRun]) -> tuple[Unit, ...]:
    """Return the units of replayed documents, as this run has them.

    Raises:
        ConfigError: of a run only the name is known.
    """
    found: list[Unit] = []
    for run in runs:
        if run.folder is None:
            raise ConfigError(
                f"sources.{run.source}.run: its documents are needed (its step tokenize has the"
                f" fingerprint {run.tokenize}), but its folder is gone, or holds another run now; put"
                " that run back where it was, or run this run file again, which says what does not fit"
            )
        found += [own for _, own in run.pairs()]
    return tuple(found)


def replayed_columns(runs: Iterable[ReplayedRun]) -> tuple[str, ...]:
    """Return the fields of the records whose values go along with replayed documents, each once."""
    every = (column for run in runs for unit in run.units for column in unit.keep_columns)
    return tuple(dict.fromkeys(every))


def most_documents(runs: Iterable[ReplayedRun]) -> int:
    """Return the documents of the largest unit."""
    return max((unit.documents for run in runs for unit in run.units), default=0)
