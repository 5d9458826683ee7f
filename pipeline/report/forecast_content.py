"""What `plan --sample` returns: what is expected of a run, scaled from a sample."""

from typing import TypedDict

from pipeline.report.content import LanguageContent
from pipeline.report.duplicates import DuplicatesForecast


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
