"""The records of an audited mix: what was asked, planned and packed of each source and language."""

from typing import Literal

from stages.config import Config


class PackedClass(Config):
    """The documents of one source and language in the rows of a split."""

    source: str
    language: str
    documents: int
    """Copies counted."""
    tokens: int
    """In rows."""
    tokens_cut: int
    """In no row."""
    longest: int
    """Tokens of the longest document."""


class AuditedSource(Config):
    """One source: asked, planned, packed."""

    source: str
    share_asked: float | None
    """None of a source with epochs."""
    epochs_asked: float | None
    """None of a source with a share."""
    max_epochs: float
    available_documents: int
    available_tokens: int
    planned_documents: int
    planned_tokens: int
    documents: int
    tokens: int
    tokens_cut: int
    share: float
    """Of the packed tokens."""
    epochs: float
    """How many times an available token was taken, on average, whether packing cut it or not."""
    longest: int
    tokens_asked: float | None = None
    """Of a source with epochs: before packing, as its epochs and the total ask. None where a mix was
    planned by an earlier version."""
    tokens_bound: float = 0.0
    """By how many tokens a draw of whole documents may miss them."""
    share_planned: float | None = None
    """Of a source with a share in a later generation: what was planned for this generation alone."""
    share_all: float | None = None
    """Of any source of a later generation with shares: planned over all generations up to this one."""
    left_out: int = 0
    """Documents of a weight above 0 without a copy."""

    @property
    def difference(self) -> float | None:
        """Of the packed and the asked share, or the planned one of a later generation; None if none."""
        wanted = self.share_asked if self.share_planned is None else self.share_planned
        return None if self.share_asked is None or wanted is None else self.share - wanted

    @property
    def tokens_off(self) -> float | None:
        """Tokens of its documents, in rows or cut, that are more or less than asked; None if unknown."""
        return None if self.tokens_asked is None else self.tokens + self.tokens_cut - self.tokens_asked


class AuditedLanguage(Config):
    """One language, before the mix and in the rows."""

    language: str
    available_tokens: int
    share_available: float
    documents: int
    tokens: int
    share: float


class AuditedWindows(Config):
    """What the windows hold of one source."""

    source: str
    share: float
    """Of all packed tokens."""
    sigma: float
    """Standard deviation of its share in windows, if rows are drawn at random."""
    deviation: float
    """The largest, of its share in a window from that of the whole."""
    bound: float
    """Of this window, which the gate holds it to."""
    start: int
    """Position of this window."""
    beyond_sigmas: int
    """Windows that are further off than 4 sigma, which one in 16,000 is by chance."""
    shares: tuple[float, ...]
    """In each window, to 6 digits."""
    passed: bool


class WindowsAudit(Config):
    """Windows of the order of training in epoch 0."""

    interleave: Literal["shuffle", "exact"]
    size: int
    """Rows of a window."""
    looked_at: int
    of: int
    """Windows of the epoch."""
    starts: tuple[int, ...]
    sources: tuple[AuditedWindows, ...]


class MixGate(Config):
    """A number of a mix and its bound."""

    name: str
    value: float
    relation: str = "<="
    bound: float
    passed: bool


class MixAudit(Config):
    """What was found of the mix of a dataset."""

    tolerance: float
    total_asked: int | None
    language_alpha: float
    total_bound: float | None = None
    """By how many tokens the rows may miss `total_asked`; None without one."""
    total_held: bool = True
    """Whether the rows must be within this bound: those of earlier versions need not."""
    planned_documents: int
    planned_tokens: int
    documents: int
    tokens: int
    tokens_cut: int
    sources: tuple[AuditedSource, ...]
    languages: tuple[AuditedLanguage, ...]
    capped: tuple[str, ...]
    """Classes that are seen as often as `max_epochs` lets them: SOURCE/LANGUAGE."""
    without_weight: int
    """Documents with a weight of 0 or less, which no mix takes."""
    unweighted: int = 0
    """Documents without a number where their weight should be, which have weight 1."""
    after: str | None
    windows: WindowsAudit | None
    gates: tuple[MixGate, ...]
