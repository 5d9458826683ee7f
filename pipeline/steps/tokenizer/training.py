"""Tokenizer: a balanced sample from every unit, then one actor trains on it and measures fairness."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier import Sides, may_be_held_out
from pipeline.steps.records import StepRecord, UnitRecord
from pipeline.steps.tokenizer.load import SPECIAL_IDS
from pipeline.steps.units import (
    Clusters,
    Unit,
    clusters_of,
    fixed_bytes,
    kept_groups,
    tally_of_texts,
    text_slices,
)
from pipeline.system.memory_release import release_freed_memory
from stages.errors import ConfigError
from stages.identity import ID_BYTES
from stages.ledger import Flow, Tally
from stages.mixing.placement import ValidationConfig
from stages.tokenizer.encode import Tokenizer
from stages.tokenizer.fairness import LanguageCounts, fairness
from stages.tokenizer.framing import Framing, trained_ids
from stages.tokenizer.sampling import SPACE_SYMBOL, balanced_targets, sample_pieces
from stages.tokenizer.train import TrainConfig, train_model

MODEL = "tokenizer/tokenizer.model"
FAIRNESS = "tokenizer/fairness.json"

_SAMPLE = pa.schema(
    [
        pa.field("language", pa.string(), nullable=False),
        pa.field("copies", pa.int32(), nullable=False),
        pa.field("piece", pa.string(), nullable=False),
    ]
)
_BATCH = 1024
"""Pieces that are Python strings at once: 4 MiB at the most."""


@dataclass(frozen=True)
class SampleUnit:
    """One unit to draw from."""

    unit: Unit
    rates: Mapping[str, Fraction]
    """How often each piece of a language is taken."""
    validation: ValidationConfig
    seed: int
    sides: str | None = None
    """Key of the sides that earlier runs settled; None if there are none."""


@dataclass(frozen=True)
class TokenizerTraining:
    """The sample to train on."""

    units: tuple[Unit, ...]
    train: TrainConfig
    targets: Mapping[str, float]
    framing: Framing


def sample_key(unit: Unit) -> str:
    """Return the key of a unit's share of the sample."""
    return f"work/sample/{unit.name}.parquet"


def sampling_rates(sizes: Mapping[str, int], config: TrainConfig) -> dict[str, Fraction]:
    """Return how often each language's text is taken: its balanced target over its bytes."""
    targets = balanced_targets(sizes, config)
    return {name: Fraction(target) / sizes[name] for name, target in targets.items()}


class SampleRecord(UnitRecord):
    """A unit's share of the sample."""

    pieces: int


class TokenizerRecord(StepRecord):
    """The tokenizer of a run."""

    vocab_size: int
    sample_bytes: int | None = None
    """That it was trained on; None of an existing one, as the next two."""
    sample_languages: int | None = None
    space_symbols: int | None = None
    """Of the sample that stand in its texts themselves."""
    file: str | None = None
    """Of an existing one: its name in the run."""
    sha256: str | None = None
    warning: str | None = None
    """What its normaliser loses."""


def sample_unit(workspace: Workspace, work: SampleUnit) -> SampleRecord:
    """Draw one unit's pieces, leaving out what may be held out for validation."""
    clusters, sides = clusters_of(workspace, work.unit), Sides.read(workspace, work.sides)
    received, held_out, others = Tally(bytes=0), Tally(bytes=0), Tally(bytes=0)
    taken = 0
    with pq.ParquetWriter(
        workspace.create(sample_key(work.unit)), _SAMPLE, compression="zstd"
    ) as writer:
        for table in kept_groups(workspace, work.unit, ["id", "language", "text_bytes", "text"]):
            described = table.select(["id", "text_bytes"])
            candidate = pa.array(_candidates(table, clusters, sides, work=work), pa.bool_())
            received += tally_of_texts(described)
            held_out += tally_of_texts(described.filter(candidate))
            drawn = table.filter(pc.invert(candidate))
            others += tally_of_texts(drawn.select(["id", "text_bytes"]))
            for part in text_slices(drawn):
                rows = _sampled(part, work)
                while batch := list(islice(rows, _BATCH)):
                    taken += len(batch)
                    writer.write_table(pa.Table.from_pylist(batch, schema=_SAMPLE))
    flow = Flow(input=received, output=others, gone={"held_out": held_out})
    return SampleRecord(pieces=taken, flow=flow)


def _candidates(table: pa.Table, clusters: Clusters, sides: Sides, *, work: SampleUnit) -> list[bool]:
    """Return of each document whether it may be held out."""
    names = clusters.of(fixed_bytes(table.column("id"), ID_BYTES))
    return may_be_held_out(names, work.seed, config=work.validation, sides=sides)


def _sampled(table: pa.Table, work: SampleUnit) -> Iterator[dict[str, Any]]:
    """Yield the pieces that the sample takes of some documents."""
    for document in table.to_pylist():
        identity, language = document["id"], document["language"]
        pieces = sample_pieces(document["text"], identity, rate=work.rates[language], seed=work.seed)
        for piece, copies in pieces:
            yield {"language": language, "copies": copies, "piece": piece}


def train_tokenizer(workspace: Workspace, work: TokenizerTraining) -> TokenizerRecord:
    """Train on the units' pieces in canonical order; write model, special ids and fairness."""
    if not any(True for _ in _pieces(workspace, work)):
        raise ConfigError(
            "tokenizer.train: the sample is empty, since no document is left for training; lower"
            " validation.fraction or add documents"
        )
    sample = ((row["piece"], row["copies"]) for row in _pieces(workspace, work))
    model = workspace.create(MODEL)
    model.write_bytes(train_model(sample, work.train))
    release_freed_memory()  # the trainer's half a gigabyte, before the sample is measured
    tokenizer = Tokenizer.load(model)
    counts, drawn = _measure(workspace, work, tokenizer)
    rates = fairness(counts)
    total = sum(drawn.values())
    wanted = sum(work.targets.values())
    for language, row in rates.items():
        row["sample_share"] = round(drawn[language] / total, 6)
        row["target_share"] = round(work.targets.get(language, 0.0) / wanted, 6)
    _write_json(workspace, SPECIAL_IDS, trained_ids(work.framing))
    _write_json(workspace, FAIRNESS, rates)
    return TokenizerRecord(
        vocab_size=tokenizer.vocab_size,
        sample_bytes=total,
        sample_languages=len(drawn),
        space_symbols=sum(
            row["piece"].count(SPACE_SYMBOL) * row["copies"] for row in _pieces(workspace, work)
        ),
    )


def _batches(workspace: Workspace, work: TokenizerTraining) -> Iterator[list[dict[str, Any]]]:
    """Yield the sample in lists of at most `_BATCH` pieces."""
    for unit in work.units:
        with pq.ParquetFile(workspace.path(sample_key(unit))) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False).to_pylist()


def _pieces(workspace: Workspace, work: TokenizerTraining) -> Iterator[dict[str, Any]]:
    for batch in _batches(workspace, work):
        yield from batch


def _measure(
    workspace: Workspace, work: TokenizerTraining, tokenizer: Tokenizer
) -> tuple[dict[str, LanguageCounts], dict[str, int]]:
    """Encode the sample once: what each language pays, and how many bytes of it were drawn."""
    counts: defaultdict[str, LanguageCounts] = defaultdict(LanguageCounts)
    drawn: defaultdict[str, int] = defaultdict(int)
    is_byte = tokenizer.byte_ids()
    for batch in _batches(workspace, work):
        encoded = tokenizer.encode([row["piece"] for row in batch])
        for row, ids in zip(batch, encoded, strict=True):
            piece = row["piece"]
            size = len(piece.encode())
            drawn[row["language"]] += size * row["copies"]
            counts[row["language"]] += LanguageCounts(
                1, size, len(piece), len(ids), int(is_byte[ids].sum())
            )
    return dict(counts), dict(drawn)


def _write_json(workspace: Workspace, key: str, value: object) -> None:
    with workspace.create(key).open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)  # piece by piece, not as one text
        file.write("\n")
