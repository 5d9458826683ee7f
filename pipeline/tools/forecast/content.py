"""What `plan --sample` returns: what is expected of a run, scaled from a sample."""

from typing import TypedDict

from pipeline.report.content import LanguageContent


class RemovalForecast(TypedDict):
    """How many documents deduplication is expected to remove."""

    documents: int
    """That it decides about."""
    removed: int
    likely: float
    """The removed share."""
    low: float
    high: float
    """With `low`, the ends of an interval of 95% of the removed share."""


class DuplicatesForecast(TypedDict):
    """What a sample says of all duplicates."""

    sampled: int
    """Documents."""
    sample_share: float
    by_chance: bool
    """Whether each record of the inputs had the same chance; if not, the truth may lie outside of the
    interval."""
    all: RemovalForecast
    sources: dict[str, RemovalForecast]
    """Of duplicates within each source; those of other sources come on top."""
    largest_cluster: int | None
    """Documents, about; None if the sample has too few of them to tell."""
    limits: list[str]
    """Limits at which the run would or may stop; of those that the run file sets, also the others."""
    untold: list[str]
    """What of the rule a sample cannot show."""


class CutsForecast(TypedDict):
    """What would be cut from documents, of text that repeats within the sample: at least so much."""

    bytes: dict[str, int]
    """By what was repeated."""
    share: float
    """Of the bytes of the documents that are kept."""
    documents: int
    """That lose some."""


class ContaminationForecast(TypedDict):
    """What stands of evaluation sets in the documents of the sample."""

    documents: dict[str, int]
    """By set: documents of the sample that hold an item, dropped or reported."""
    sampled: int
    """Documents of the sample that were searched."""
    items: dict[str, int]
    """By set: items that were found, at least so many."""


class TotalForecast(TypedDict):
    """The training tokens of a dataset whose mix has `total_tokens`."""

    asked: int
    held: int
    """By the documents that the mix is expected to take."""


class StepForecast(TypedDict):
    """What is expected of one step."""

    step: str
    cpu_seconds: float


class MemoryForecast(TypedDict):
    """What all processes of a run are expected to hold at its peak."""

    workers: int
    bytes: int


class Forecast(TypedDict):
    """What is expected of a run, scaled from a sample."""

    share: float
    """Of the bytes of the inputs, which the sample stands for; more may have been read."""
    records: int
    """Of the sample."""
    read: int
    dropped: dict[str, int]
    """By reason; `unreadable` are records that give no document."""
    removed: dict[str, int]
    kept: int
    duplicates: DuplicatesForecast | None
    """None without deduplication."""
    cuts: CutsForecast | None
    """None if nothing is cut from documents."""
    contamination: ContaminationForecast | None
    """None without evaluation sets."""
    tokens: int
    totals: dict[str, TotalForecast]
    """By dataset; of those that ask for a number of tokens."""
    languages: list[LanguageContent]
    steps: list[StepForecast]
    cpu_seconds: float
    disk: dict[str, int]
    """Bytes by folder of the run."""
    place: str
    """The folder of the run, or the nearest one above it that is there."""
    disk_free: int
    """Bytes that are free there, and those that the run holds already."""
    memory: list[MemoryForecast]
    """By workers, up to a few."""
    most_workers: int
    """For which every step has room in `resources.memory`, as steps reserve it."""
    notes: list[str]
