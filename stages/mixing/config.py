"""The settings of a mix: how much of each source a dataset has.

    epochs   how many times its documents are seen: 1 is every document once, 0.5 every second one
    share    its part of the dataset's tokens

Sources with a share have exactly that part; sources with epochs fill what the shares leave.
"""

from typing import Literal

from pydantic import Field, model_validator

from stages.config import Config

MAX_EPOCHS = 4.0
"""Times that a document is seen at most, unless said otherwise. Up to about so many, repeated text is
worth nearly as much as new text (Muennighoff et al. 2023, "Scaling Data-Constrained Language Models",
section 5)."""
LIMIT = 1000.0
"""No source may be seen more often."""


class SourceMix(Config):
    """How much of one source a dataset has."""

    epochs: float | None = Field(None, ge=0.0, le=LIMIT)
    """How many times each document of the source is seen, on average; 1 unless `share` is set. 0 leaves
    the source out. With `mix.total_tokens`, sources with epochs fill the tokens that the shares leave,
    in proportion to their epochs."""
    share: float | None = Field(None, ge=0.0, le=1.0)
    """Part of the dataset's training tokens that are of this source, instead of `epochs`. Sources with
    epochs fill the rest."""
    max_epochs: float | None = Field(None, gt=0.0, le=LIMIT)
    """How many times a document is seen at most. By default 4, or `epochs` if that is more. A mix that
    needs more is refused."""

    @model_validator(mode="after")
    def _one_amount(self) -> "SourceMix":
        if self.epochs is not None and self.share is not None:
            raise ValueError("epochs and share are both given: a source has one of them")
        if None not in (self.epochs, self.max_epochs) and (self.epochs or 0) > (self.max_epochs or 0):
            raise ValueError(
                f"epochs = {self.epochs:g} is more than max_epochs = {self.max_epochs:g}; raise"
                " max_epochs, or leave it out"
            )
        return self

    @property
    def most_epochs(self) -> float:
        """How many times a document is seen at most."""
        return max(MAX_EPOCHS, self.epochs or 0.0) if self.max_epochs is None else self.max_epochs

    @property
    def whole_epochs(self) -> float:
        """Epochs of a source that has no share."""
        return 1.0 if self.epochs is None else self.epochs


class Mix(Config):
    """How much of each source the datasets of a run have, beside what the sources say."""

    total_tokens: int | None = Field(None, ge=1)
    """Training tokens of a dataset. Without it, the epochs and the shares of the sources decide. If all
    sources have shares, the dataset gets as many tokens as it can without seeing a document twice."""
    language_alpha: float = Field(1.0, ge=0.0, le=1.0)
    """Exponent of the temperature over languages: a language with n tokens gets a part in proportion to
    n ** language_alpha. 1 leaves languages as they are. 0.3 raises small ones (Conneau et al. 2020). 0
    makes all equal. Each source with a share is balanced by itself, and all sources with epochs
    together. No document is seen more often than `max_epochs` says."""
    interleave: Literal["shuffle", "exact"] = "shuffle"
    """The order of sources in training. With "shuffle", rows hold documents of all sources, in a random
    order. So the shares of a window vary as in a random sample. With "exact", each row holds documents
    of one source, and rows are ordered so that every window has the shares."""
    missing: Literal["refuse", "leave_out"] = "refuse"
    """What happens if a source has a share but no training document. Either the run stops, or the source
    is left out and the shares of the others are raised in proportion. Later generations of a run always
    leave out such sources, because they may have files of some sources only; `later` says what they do
    with the others."""
    later: Literal["keep", "strict"] = "keep"
    """What a later generation does with its sources that have a share. With "keep", it has each of their
    new documents at least once. It repeats documents of scarce sources up to `max_epochs`, so that the
    shares over all generations come as near as they can. With "strict", the shares hold within the
    generation, and documents that they leave no room for are in no row."""
    tolerance: float = Field(0.005, gt=0.0, le=1.0)
    """Largest difference between the share of tokens that was asked for and what the rows hold, of any
    source; `verify` fails beyond it. Rows of a later generation are compared with the planned shares. If
    a share over all generations differs by more, the run warns."""


class DatasetMix(Mix):
    """A dataset's own mix: keys that are left out are those of the run's `mix`."""

    sources: dict[str, SourceMix] = Field(default_factory=dict)
    """By name: how much of the source this dataset has. It replaces what the source says."""
    after: str | None = None
    """Name of a dataset of this run that is trained on before this one, as an earlier stage of a
    curriculum. Documents that it has shown come last here: no document is repeated before all others of
    its source, language and level of weight were seen."""
