"""What the program knows of an objective: a `Kind`, one frozen value in a folder of its own.

    Objective   the config in a run file or a manifest: settings, and the name of the kind
    Kind        what follows from such a config: how rows are laid out and drawn, what holds of them
    Composite   a kind that gives each document copy to one of several other objectives

`stages.objectives.table` lists them all. The rest of the program asks the table, and never compares a
name or a class.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.config import kind_name
from stages.findings import Finding
from stages.objectives.components import WeightedObjective
from stages.objectives.laws.draws import Draws
from stages.objectives.laws.rows import BrokenLaws
from stages.objectives.laws.shown import ShownRows
from stages.objectives.learning import LearningSettings
from stages.objectives.material import Material
from stages.objectives.rows import Columns, Restored, StoredRows, Widths
from stages.objectives.traits import Objective, Questions, Traits
from stages.objectives.vocabulary import Vocabulary
from stages.packing.layout import Layout
from stages.ragged import Ragged
from stages.store.manifest import Column

Config_contra = TypeVar("Config_contra", bound=Objective, contravariant=True)

Draw = Callable[[StoredRows, Config_contra, Vocabulary, Widths], Columns]
"""Draws the columns that a trainer gets of stored rows, each (N, ...), in the dtypes of the disk."""
MatchedRows = NDArray[np.bool_]
"""Of which rows the columns, put together again, give the stored tokens: (N,) bool."""


class DrawWith(Protocol[Config_contra]):
    """Draws rows that need more than themselves."""

    def __call__(
        self,
        rows: StoredRows,
        config: Config_contra,
        vocabulary: Vocabulary,
        widths: Widths,
        *,
        material: Material,
        plainly: bool,
    ) -> Columns:
        """Return the columns, each (N, ...); `plainly` draws them by numpy alone, to the same bits."""


class MatchWith(Protocol[Config_contra]):
    """Compares drawn rows that need more than themselves with what is stored."""

    def __call__(
        self,
        rows: StoredRows,
        columns: Columns,
        config: Config_contra,
        vocabulary: Vocabulary,
        *,
        material: Material,
    ) -> MatchedRows:
        """Return of which rows the columns, put together again, give what is stored."""


def count_nothing(columns: Columns, config: Objective) -> dict[str, int]:
    """Return that there is nothing to count beside the tokens."""
    del columns, config
    return {}


@dataclass(frozen=True, kw_only=True)
class EpochDraws(Generic[Config_contra]):
    """How the rows are drawn of configs whose traits say that rows are written out by epochs."""

    draw: DrawWith[Config_contra]
    matches: MatchWith[Config_contra] | None = None
    """None: as of rows that are drawn when they are read."""
    count: Callable[[Columns, Config_contra], dict[str, int]] = count_nothing
    """What must be known of drawn rows beside their tokens, by name."""


@dataclass(frozen=True, eq=False)
class Documents:
    """The documents of one shard, before they are laid out in rows: D of them."""

    lengths: NDArray[np.int64]
    """(D,) tokens of each, EOS included."""
    sentences: Ragged | None
    """Of each document, after how many of its tokens each sentence ends; None if nobody asks."""
    sections: Ragged | None
    """The same of its sections."""
    learned: NDArray[np.bool_] | None
    """(S,) of each section, whether it has a loss where the objective asks; None if nobody asks."""
    seed: int
    """Of the run."""
    group: int
    """The shard's group in the token store, which keys its draws."""

    def take(self, chosen: NDArray[np.int64]) -> "Documents":
        """Return some of the documents, in the order chosen."""
        learned = None
        if self.sections is not None and self.learned is not None:
            flags = Ragged(self.sections.ptr, self.learned.astype(np.int64))
            learned = flags.take(chosen).values.astype(np.bool_)
        return replace(
            self,
            lengths=self.lengths[chosen],
            sentences=None if self.sentences is None else self.sentences.take(chosen),
            sections=None if self.sections is None else self.sections.take(chosen),
            learned=learned,
        )


class LaidOutRows(NamedTuple):
    """Rows of documents, and what else is stored of each row, by name: (R,) each."""

    layout: Layout
    columns: Mapping[str, NDArray[np.generic]]


class RowTally(Protocol):
    """Counts what must hold of the columns of a shard, some rows at a time."""

    def add(self, rows: StoredRows, epochs: Sequence[Columns]) -> None:
        """Look at the next rows, as stored and as the loader gives them in one epoch or two."""

    def findings(self) -> list[Finding]:
        """Return what was found."""


def no_tally(config: Objective, vocabulary: Vocabulary, convention: str) -> None:
    """Say that columns are put together again and drawn again, and that this tells all."""
    del config, vocabulary, convention


def nothing_drawn(draws: Draws, config: Objective, rows: ShownRows) -> None:
    """Say that nothing is drawn by lot of which the columns tell."""
    del draws, config, rows


def no_layout_of_its_own(documents: Documents, config: Objective, widths: Widths) -> None:
    """Say that documents are packed as the run's packing has it."""
    del documents, config, widths


def no_columns(config: Objective, widths: Widths) -> dict[str, Column]:
    """Say that a row is stored as its ids alone."""
    del config, widths
    return {}


def refuse_nothing(config: Objective, seq_len: int, num_sentinels: int) -> None:
    """Accept rows of any length with any number of sentinels."""
    del config, seq_len, num_sentinels


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[Config_contra]):
    """One kind of objective."""

    config: type[Config_contra]
    traits: Callable[[Config_contra], Traits]
    widths: Callable[[Config_contra, int], Widths]
    """Tokens that rows hold for inputs of `seq_len` tokens; raises ConfigError if nothing fits."""
    special_names: Callable[[Config_contra], tuple[str, ...]]
    """The special ids that it writes into rows, EOS and padding apart."""
    draw: Draw[Config_contra] | None
    """Draws rows by numpy alone; None if rows are always written out by epochs."""
    compiled: Callable[[], Draw[Config_contra]] | None
    """Imports numba, and returns what draws the same bits faster; None: there is no such thing."""
    restore: Callable[[Columns, Config_contra, Vocabulary], Restored]
    """Returns the clean tokens of every row."""
    learning: Callable[[Config_contra], LearningSettings]
    """What its learning check has of its own."""
    questions: Callable[[Config_contra], Questions]
    """How its models are asked for a token."""
    laws: Callable[[StoredRows, Columns, Config_contra, Vocabulary], BrokenLaws]
    """What must hold of every row, whatever was drawn for it; a law without words in `laws.rows.LAWS` is
    told by its name."""
    draws: Callable[[Draws, Config_contra, ShownRows], None]
    """Counts what is drawn by lot, as the columns of rows tell it that break none of the laws;
    `nothing_drawn` where nothing is."""
    category: str
    """The category of tasks that the Hugging Face Hub has for it, for dataset cards."""
    tally: Callable[[Config_contra, Vocabulary, str], RowTally | None] = no_tally
    """Counts what must hold of columns under a label convention; None: rows are put together again, and
    drawn again, which tells all."""
    matches: Callable[[StoredRows, Columns, Config_contra, Vocabulary], MatchedRows] | None = None
    """Compares columns with stored rows where restored tokens do not tell all; None: they do."""
    epoch_draws: EpochDraws[Config_contra] | None = None
    """How rows are drawn that are written out by epochs; None if none ever are."""
    least_row: int = 1
    """Tokens of the shortest row."""
    refuse: Callable[[Config_contra, int, int], None] = refuse_nothing
    """Raises ConfigError for a `seq_len`, or a number of sentinels, that it cannot be made with."""
    lay_out: Callable[[Documents, Config_contra, Widths], LaidOutRows | None] = no_layout_of_its_own
    """Lays documents into rows by rules of its own; None: they are packed as the run has it."""
    stored_columns: Callable[[Config_contra, Widths], Mapping[str, Column]] = no_columns
    """What is stored of each row beside its ids."""
    mixes: bool = False
    """Whether it may be a component of a mixture: it makes the same columns as all others that may and
    have the same attention and label convention."""

    @property
    def name(self) -> str:
        """Return the `kind` of its configs."""
        return kind_name(self.config)

    def drawn_by(self, *, plainly: bool) -> Draw[Config_contra]:
        """Return what draws its rows: compiled where numba is installed, unless `plainly`."""
        assert self.draw is not None, "rows are written out by epochs"
        return self.draw if plainly or self.compiled is None or not _compiles() else self.compiled()


@cache
def _compiles() -> bool:
    """Say whether kernels can be compiled here."""
    return find_spec("numba") is not None


@dataclass(frozen=True, kw_only=True)
class Composite(Generic[Config_contra]):
    """A kind that is put together of others: each document copy belongs to one component."""

    config: type[Config_contra]
    components: Callable[[Config_contra], tuple[WeightedObjective, ...]]
    category: str
    """As that of a `Kind`."""
    questions: Questions | None = None
    """How its models are asked for a token; None: as all components are, if they are asked alike."""

    @property
    def name(self) -> str:
        """Return the `kind` of its configs."""
        return kind_name(self.config)
