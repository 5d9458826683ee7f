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
from stages.mixing.placement import MAX_DOCUMENTS
from stages.objectives.table import traits_of
from stages.tokenizer.train import training_memory

READ_FACTOR = 20
"""Of the longest document, in ingest: one of 32 MiB took 638 MiB. One character past the first 65,536 of
Unicode makes Python hold four bytes for each, and the parsed and the cleaned text stand side by side."""
TEXT_FACTOR = 10
"""Likewise where its text is sampled, encoded or decoded: 323 MiB."""
BATCH_FACTOR = 6
"""Of a batch of documents and the row group that it becomes."""
KEY_BYTES = 100
"""Of a key while a piece of a band is worked on."""
PAIRS = 192 << 20
"""The pairs of a batch with their shingles."""
DOCUMENT_ROW = 150
"""Of a document in a shard: its ids, lengths, places and names."""
SECTION_ROW = 350
"""Of a document in a shard whose rows are laid out by its sections."""
DRAWN = 64 << 20
"""The columns of 2^20 tokens and what they are made of."""
EXISTING = 512 << 20
"""The pieces of an existing tokenizer, and what its library makes of 2^18 characters."""
LOGITS = 256 << 20
"""The logits of a model and what is made of them; the model itself is not counted."""
LEARNING = 512 << 20
"""Torch, a tiny model and its rows."""


@dataclass(frozen=True)
class Need:
    """The memory that a step asks for."""

    bytes: int
    """Of one worker, beyond `pipeline.memory.WORKER`."""
    remedy: str = ""
    """The setting that lowers it."""


def step_needs(file: RunFile) -> dict[str, Need]:
    """Give the need of every step."""
    longest = int(file.ingest.max_document_bytes)
    text = BATCH_FACTOR * BATCH_BYTES + TEXT_FACTOR * longest
    shorter, smaller = "lower ingest.max_document_bytes", "lower tokenizer.train.sample_size"
    train = training_memory(file.tokenizer.train) if file.tokenizer.path is None else 0
    encode = text + (EXISTING if file.tokenizer.path is not None else 0)
    ingest = Need(BATCH_FACTOR * BATCH_BYTES + READ_FACTOR * longest, shorter)
    needs = {
        "scan": ingest,  # it takes less, but the same workers go on with ingest
        "ingest": ingest,
        "dedup": Need(max(KEY_BYTES * MAX_KEYS, PAIRS + text), shorter),
        "tokenizer": Need(max(text, train), smaller if train > text else shorter),
        "split": Need(encode, shorter),
        "tokenize": Need(encode + 2 * int(file.ingest.unit_size), "lower ingest.unit_size"),
    }
    if file.needs_sentences:
        needs["sentences"] = Need(text, shorter)
    needs["decode"] = Need(encode + 2 * int(file.ingest.unit_size), "lower ingest.unit_size")
    for dataset in file.datasets:
        sections = SECTION_ROW * bool(traits_of(dataset.objective).sections)
        rows = (DOCUMENT_ROW + sections) * MAX_DOCUMENTS
        needs[f"shard-{dataset.name}"] = Need(rows)
        if dataset.epochs_on_disk:
            beyond = bool(traits_of(dataset.objective).beyond)
            needs[f"draw-{dataset.name}"] = Need(DRAWN + (rows + LOGITS) * beyond)
        needs[f"verify-{dataset.name}"] = Need(max(LEARNING, rows + text), shorter)
    return needs


def require_memory(file: RunFile, needs: Mapping[str, Need], *, workers: int) -> None:
    """Refuse a run of which a step cannot have one worker; with none, this process does the work.

    Raises:
        ConfigError: `resources.memory` is too small.
    """
    for step, need in needs.items():
        fitting_workers(
            int(file.resources.memory),
            min(workers, 1),
            step=step,
            need=need.bytes,
            remedy=need.remedy,
        )
