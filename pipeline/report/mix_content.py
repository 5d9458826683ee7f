"""What a report says of the mix of a dataset: the keys, and what stands there.

The numbers are those of `stages.mixing.audited`; tokens and shares are of the training split.
"""

from typing import Literal, NotRequired, TypedDict


class PackedClassContent(TypedDict):
    """The documents of one source and language in the rows of a split."""

    source: str
    language: str
    documents: int
    tokens: int
    tokens_cut: int
    longest: int


class MixedSourceContent(TypedDict):
    """One source: asked, planned, packed."""

    source: str
    share_asked: float | None
    epochs_asked: float | None
    """One of the two is asked for."""
    max_epochs: float
    available_documents: int
    available_tokens: int
    planned_documents: int
    planned_tokens: int
    documents: int
    """Copies in the rows."""
    tokens: int
    tokens_cut: int
    """In no row."""
    share: float
    """Of all tokens in rows."""
    epochs: float
    """How many times an available token was taken."""
    longest: int
    tokens_asked: float | None
    """That the epochs ask for, before packing; None of a source with a share."""
    tokens_bound: float
    """By how many tokens a draw of whole documents may miss them."""
    share_planned: float | None
    """Of a source with a share in a later generation: planned for this generation alone."""
    share_all: float | None
    """Of any source of a later generation with shares: planned over all generations up to it."""
    left_out: int
    """Documents of a weight above 0 without a copy."""


class MixedLanguageContent(TypedDict):
    """One language before the mix and in the rows."""

    language: str
    available_tokens: int
    share_available: float
    documents: int
    tokens: int
    share: float


class WindowedSourceContent(TypedDict):
    """Windows of one source."""

    source: str
    share: float
    sigma: float
    deviation: float
    bound: float
    start: int
    beyond_sigmas: int
    shares: list[float]
    passed: bool


class WindowsContent(TypedDict):
    """Windows of the order of training in epoch 0."""

    interleave: Literal["shuffle", "exact"]
    size: int
    looked_at: int
    of: int
    starts: list[int]
    sources: list[WindowedSourceContent]


class MixGateContent(TypedDict):
    """A bound, and the number that was held to it."""

    name: str
    value: float
    relation: str
    bound: float
    passed: bool


class StageContent(TypedDict):
    """One stage of a curriculum."""

    dataset: str
    tokens: int
    shares: dict[str, float]
    """Of each source, of the stage's tokens in rows."""
    seen: dict[str, float]
    """How many times a document of each source was taken, on average, in this stage and all before."""


class WholeSourceContent(TypedDict):
    """One source over all generations."""

    documents: int
    tokens: int
    share: float
    share_asked: NotRequired[float]
    """Of a source with a share, where the dataset has a mix; the next two likewise of any source."""
    share_last: NotRequired[float]
    """Of the last of these generations alone."""
    left_out: NotRequired[int]
    """Documents of the last generation that it does not have."""


class WholeContent(TypedDict):
    """A dataset over a run and its generations so far."""

    generations: int
    """Of which it is the sum, the first run included."""
    documents: int
    tokens: int
    sources: dict[str, WholeSourceContent]


class MixContent(TypedDict):
    """The mix of one dataset."""

    tolerance: float
    total_asked: int | None
    total_bound: float | None
    """By how many tokens the rows may miss `total_asked`."""
    total_held: bool
    """Whether they must be within it; those of earlier versions need not."""
    language_alpha: float
    planned_documents: int
    planned_tokens: int
    documents: int
    tokens: int
    tokens_cut: int
    sources: list[MixedSourceContent]
    languages: list[MixedLanguageContent]
    capped: list[str]
    without_weight: int
    unweighted: int
    after: str | None
    windows: WindowsContent | None
    gates: list[MixGateContent]
    stages: NotRequired[list[StageContent]]
    """The stages up to this one, of a dataset that follows another."""
