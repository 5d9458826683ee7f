"""Needs: what a worker of each step may take beyond an idle one's memory, from the run file alone.

Upper bounds that were measured; the factor of each stands beside it. They decide how many workers run at
once and whether a run fits at all, never what is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.config import RunFile
from pipeline.memory import fitting_workers
from pipeline.steps.ingest import BATCH_BYTES
from stages.dedup.lsh import MAX_KEYS

DOCUMENT_FACTOR = 8
"""Copies of one long document in ingest: its line, the parsed and the cleaned text, its shingles."""
BATCH_FACTOR = 6
"""Likewise for a batch of documents and the row group that it becomes."""
KEY_BYTES = 100
"""Of a key while a piece of a band is worked on."""


@dataclass(frozen=True)
class Need:
    """The memory that a step asks for."""

    bytes: int
    """Of one worker, beyond `pipeline.memory.WORKER`."""
    remedy: str = ""
    """The setting that lowers it."""


def step_needs(file: RunFile) -> dict[str, Need]:
    """Give the need of every step."""
    document = int(file.ingest.max_document_bytes)
    batch = BATCH_FACTOR * BATCH_BYTES
    needs = {
        "ingest": Need(batch + DOCUMENT_FACTOR * document, "lower ingest.max_document_bytes"),
        "dedup": Need(KEY_BYTES * MAX_KEYS + 2 * batch),
        "tokenizer": Need(batch),
        "split": Need(batch),
        "tokenize": Need(batch + 2 * int(file.ingest.unit_size), "lower ingest.unit_size"),
    }
    for dataset in file.datasets:
        needs[f"shard-{dataset.name}"] = Need(batch)
        needs[f"verify-{dataset.name}"] = Need(5 * batch)
    return needs


def require_memory(file: RunFile, needs: Mapping[str, Need]) -> None:
    """Refuse a run of which a step cannot have one worker.

    Raises:
        ConfigError: `resources.memory` is too small.
    """
    for step, need in needs.items():
        fitting_workers(int(file.resources.memory), 1, step=step, need=need.bytes, remedy=need.remedy)
