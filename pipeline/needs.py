"""Needs: what a worker of each step may take beyond an idle one's memory, from the run file alone.

Upper bounds that were measured; the factor of each stands beside it. They decide how many workers run at
once and whether a run fits at all, never what is written. Two follow from the input as well: a table may
have pages that are read as a whole, and a small corpus trains a tokenizer on less.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.config import RunFile
from pipeline.inputs import InputFile
from pipeline.memory import MIB, fitting_workers, room_of_worker, show_bytes
from pipeline.steps.ingest.part import BATCH_BYTES
from pipeline.steps.names import TABLE_BYTES
from stages.dedup.lsh import MAX_KEYS
from stages.mixing.placement import MAX_DOCUMENTS
from stages.objectives.table import traits_of
from stages.reading.decompress import ZSTD_WINDOW
from stages.tokenizer.train import fitting_sample, training_memory

READ_FACTOR = 8
"""Of the longest document, in ingest: with a batch of 16 MiB one of 32 MiB took 322 MiB, when its row
group was written; until then its text, of which Python may make four bytes a character, takes less."""
TEXT_FACTOR = 6
"""Likewise where its text is sampled, encoded or decoded: 190 MiB."""
PAGE_FACTOR = 3
"""Of the pages of a table that are read as a whole: a dictionary of 281 MiB took 762 MiB."""
BATCH_FACTOR = 6
"""Of a batch of documents and the row group that it becomes."""
KEY_BYTES = 100
"""Of a key while a piece of a band is worked on."""
PAIRS = 192 << 20
"""The pairs of a batch with their shingles."""
DOCUMENT_ROW = 150
"""Of a document in a shard: its id, length, places and segments."""
SECTION_ROW = 350
"""Of a document in a shard whose rows are laid out by its sections."""
DRAWN = 64 << 20
"""The columns of 2^20 tokens and what they are made of."""
EXISTING = 512 << 20
"""The pieces of an existing tokenizer, and what its library makes of 2^18 characters."""
LOGITS = 256 << 20
"""The logits of a model and what is made of them; the model itself is not counted."""
LANGUAGE = 2 << 10
"""The sums and the share of one language: 1.7 KiB measured, in the driver and the worker together."""
LEARNING = 448 << 20
"""Torch, a tiny model and its rows: 430 MiB."""
SETTINGS = ("unit_size", "max_document_bytes")
"""Settings of ingest that lower needs; the first changes no result."""
KIB = 1 << 10
PLENTY = 4
"""Times the sample's size that the input's files must have, for it to be known that they fill it."""


@dataclass(frozen=True)
class Need:
    """The memory that a step asks for."""

    bytes: int
    """Of one worker, beyond `pipeline.memory.WORKER`."""
    remedy: str = ""
    """What lowers it, if the step takes more than there is."""
    lowered: int | None = None
    """Bytes once the remedy is followed; None if that depends on the value of a setting."""


def step_needs(file: RunFile) -> dict[str, Need]:
    """Give the need of every step."""
    longest = int(file.ingest.max_document_bytes)
    text = BATCH_FACTOR * BATCH_BYTES + TEXT_FACTOR * longest
    shorter = "lower ingest.max_document_bytes"
    encode = text + (EXISTING if file.tokenizer.path is not None else 0)
    ingest = Need(ZSTD_WINDOW + BATCH_FACTOR * BATCH_BYTES + READ_FACTOR * longest, shorter)
    needs = {
        "ingest": ingest,
        "scan": ingest,  # it takes less, but the same workers go on with ingest
        "dedup": Need(max(KEY_BYTES * MAX_KEYS, PAIRS + text), shorter),
        "tokenizer": Need(text, shorter),
        "split": Need(encode, shorter),
        "tokenize": Need(encode + 2 * int(file.ingest.unit_size), "lower ingest.unit_size"),
    }
    if file.needs_sentences:
        needs["sentences"] = Need(text, shorter)
    needs["decode"] = Need(encode + 2 * int(file.ingest.unit_size), "lower ingest.unit_size")
    for dataset in file.datasets:
        sections = SECTION_ROW * bool(traits_of(dataset.objective).sections)
        rows = (DOCUMENT_ROW + sections) * MAX_DOCUMENTS + TABLE_BYTES
        needs[f"shard-{dataset.name}"] = Need(rows)
        beyond = bool(traits_of(dataset.objective).written_for)
        if dataset.epochs_on_disk:
            needs[f"draw-{dataset.name}"] = Need(DRAWN + (rows + LOGITS) * beyond)
        remedy = shorter if beyond else ""
        needs[f"verify-{dataset.name}"] = Need(max(LEARNING, rows + text * beyond), remedy)
    return needs


def reading_need(need: Need, files: Sequence[InputFile]) -> Need:
    """Return the need of ingest over some files: a table may have pages that are read as a whole."""
    held = {file.path: max((part.held for part in file.slices or ()), default=0) for file in files}
    path = max(held, key=lambda path: held[path], default="")
    if not path or not held[path]:
        return need
    remedy = (
        f"write {path} again in smaller row groups or pages: one takes {show_bytes(held[path])} at once"
        " (pyarrow: row_group_size, or write_batch_size=16 with use_dictionary=False)"
    )
    return Need(need.bytes + PAGE_FACTOR * held[path], remedy, lowered=need.bytes)


def training_need(file: RunFile, corpus: int, *, workers: int, languages: int = 0) -> Need:
    """Return the need of training the tokenizer on what is sampled of so many bytes of text.

    Args:
        file: the run file.
        corpus: bytes of text that the sample is drawn from.
        workers: of the run.
        languages: whose shares of the sample are settled.
    """
    config, shares = file.tokenizer.train, languages * LANGUAGE
    room = room_of_worker(int(file.resources.memory), workers) - shares
    fitting = fitting_sample(config, room) >> 20

    def taken(sample: int) -> int:
        return shares + training_memory(config.model_copy(update={"sample_size": sample}))

    needed = taken(min(int(config.sample_size), corpus))
    if not fitting:
        return Need(needed)
    remedy = f"set tokenizer.train.sample_size to {fitting}MiB or less"
    return Need(needed, remedy, lowered=taken(fitting << 20))


def require_for_inputs(
    file: RunFile, needs: Mapping[str, Need], files: Sequence[InputFile], *, workers: int
) -> dict[str, Need]:
    """Return the needs of a run over some files; refuse it if they do not fit.

    Raises:
        ConfigError: `resources.memory` is too small.
    """
    found = {**needs, "ingest": reading_need(needs["ingest"], files)}
    wanted = dict(found)
    size = sum(item.size for item in files)
    if file.tokenizer.path is None and size >= PLENTY * int(file.tokenizer.train.sample_size):
        wanted["training"] = training_need(file, size, workers=workers)
    require_memory(file, wanted, workers=workers)
    return found


def require_memory(file: RunFile, needs: Mapping[str, Need], *, workers: int) -> None:
    """Refuse a run of which a step cannot have one worker; with none, this process does the work.

    Raises:
        ConfigError: `resources.memory` is too small.
    """
    room = room_of_worker(int(file.resources.memory), workers)
    step = max(needs, key=lambda step: needs[step].bytes)  # what it asks for is enough for all
    if needs[step].bytes > room:
        fitting_workers(
            int(file.resources.memory),
            min(workers, 1),
            step=step,
            need=needs[step].bytes,
            remedy=_remedy(file, needs, step, room=room),
        )


def _remedy(file: RunFile, needs: Mapping[str, Need], neediest: str, *, room: int) -> str:
    """Return what else than more memory makes every step fit; empty if nothing alone does."""
    lowered, short = needs[neediest].lowered, [step for step in needs if needs[step].bytes > room]
    if short == [neediest] and lowered is not None and lowered <= room:
        return needs[neediest].remedy
    for setting in SETTINGS:
        largest = _largest_fitting(file, needs, setting, room=room)
        if largest:
            return f"set ingest.{setting} to {largest} or less"
    return ""


def _largest_fitting(file: RunFile, needs: Mapping[str, Need], setting: str, *, room: int) -> str | None:
    """Return the largest value of a setting of ingest with which every step fits, in KiB or MiB."""
    before = step_needs(file)

    def fits(value: int) -> bool:
        ingest = file.ingest.model_copy(update={setting: value})
        after = step_needs(file.model_copy(update={"ingest": ingest}))
        return all(
            need.bytes + (after[step].bytes - before[step].bytes if step in before else 0) <= room
            for step, need in needs.items()
        )

    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        values = range(1, -(-int(getattr(file.ingest, setting)) // unit))
        number = bisect_left(values, 1, key=lambda value: not fits(value * unit))
        if number:
            return f"{number}{name}"
    return None
