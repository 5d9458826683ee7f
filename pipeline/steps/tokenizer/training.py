"""Tokenizer: a balanced sample from every unit, then one actor trains on it and measures fairness."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier_runs import Sides, may_be_held_out
from pipeline.steps.records import StepRecord, UnitRecord
from pipeline.steps.tokenizer.load import FOLDER, SPECIAL_IDS
from pipeline.steps.unit_clusters import Clusters, clusters_of
from pipeline.steps.units import (
    Unit,
    fixed_bytes,
    kept_groups,
    rows_of_bytes,
    tally_of_texts,
    text_slices,
)
from pipeline.system.memory import release_freed_memory
from stages.errors import ConfigError
from stages.identity import ID_BYTES
from stages.ledger import Flow, Tally
from stages.mixing.placement import ValidationConfig, validation_hash
from stages.seeding import threshold
from stages.tokenizer.coverage import CharacterCounts, required_characters
from stages.tokenizer.existing import open_tokenizer
from stages.tokenizer.fairness import LanguageCounts, TextCounter, rates_of
from stages.tokenizer.framing import Framing, trained_ids
from stages.tokenizer.sampling import SPACE_SYMBOL, balanced_targets, cut_parts, sample_parts
from stages.tokenizer.train import TRAINERS, TrainConfig, TrainingSample

FAIRNESS = "tokenizer/fairness.json"

_SAMPLE = pa.schema(
    [
        pa.field("language", pa.string(), nullable=False),
        pa.field("copies", pa.int32(), nullable=False),
        pa.field("piece", pa.string(), nullable=False),
    ]
)
_BATCH = 1024
"""Parts that are Python strings at once: 4 MiB at the most."""
_MEASURED_PARTS = 16
"""Of a document that is held out, 64 KiB: no single one is to stand for its language."""


@dataclass(frozen=True)
class SampleUnit:
    """One unit to draw from."""

    unit: Unit
    rates: Mapping[str, Fraction]
    """How often each part of a language is taken."""
    validation: ValidationConfig
    seed: int
    sides: str | None = None
    """Key of the sides that earlier runs decided; None if there are none."""
    held_out: Mapping[str, float] = field(default_factory=dict)
    """The share of the documents of a language that the tokenizer is measured on."""


@dataclass(frozen=True)
class TokenizerTraining:
    """The sample to train on."""

    units: tuple[Unit, ...]
    train: TrainConfig
    targets: Mapping[str, float]
    framing: Framing
    parallel: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What its languages are balanced by, if they are."""


def sample_key(unit: Unit) -> str:
    """Return the key of a unit's share of the sample."""
    return f"work/sample/{unit.name}.parquet"


def measured_key(unit: Unit) -> str:
    """Return the key of the text of a unit that the tokenizer is measured on."""
    return f"work/held-out/{unit.name}.parquet"


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
    skipped_pieces: int | None = None
    """Of the sample, each as often as it is taken: those that nothing was learned from. None of an
    existing tokenizer, as the next."""
    skipped_bytes: int | None = None
    """Of the sample: these parts, and in others the characters that training keeps for its own use, and
    symbols of the run that byte-level BPE cuts texts at."""
    character_coverage: float | None = None
    """Share of the text of each language whose characters have pieces; None if pieces are of bytes."""
    byte_fallback: dict[str, float] = Field(default_factory=dict)
    """Share of bytes among the tokens of each language, on text that was held out."""
    file: str | None = None
    """Of an existing one: its name in the run."""
    sha256: str | None = None
    warning: str | None = None
    """What its normaliser loses."""


def sample_unit(workspace: Workspace, work: SampleUnit) -> SampleRecord:
    """Draw one unit's parts, leaving out what may be held out for validation, or to measure on."""
    clusters, sides = clusters_of(workspace, work.unit), Sides.read(workspace, work.sides)
    received, held_out, others = Tally(bytes=0), Tally(bytes=0), Tally(bytes=0)
    with (
        _SampleFile(workspace, sample_key(work.unit)) as sample,
        _SampleFile(workspace, measured_key(work.unit)) as measured,
    ):
        for table in kept_groups(workspace, work.unit, ["id", "language", "text_bytes", "text"]):
            columns = table.select(["id", "text_bytes"])
            validating, measuring = _left_out(table, clusters, sides, work=work)
            left_out = pa.array(validating | measuring)
            received += tally_of_texts(columns)
            held_out += tally_of_texts(columns.filter(left_out))
            drawn = table.filter(pc.invert(left_out))
            others += tally_of_texts(drawn.select(["id", "text_bytes"]))
            for part in text_slices(drawn):
                sample.write(_sampled(part, work))
            for part in text_slices(table.filter(pa.array(measuring))):
                measured.write(_measured(part))
    flow = Flow(input=received, output=others, gone={"held_out": held_out})
    return SampleRecord(pieces=sample.count, flow=flow)


class _SampleFile:
    """A file of parts that is written."""

    def __init__(self, workspace: Workspace, key: str) -> None:
        self._writer = pq.ParquetWriter(workspace.create(key), _SAMPLE, compression="zstd")
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, rows: Iterator[dict[str, Any]]) -> None:
        while batch := list(islice(rows, _BATCH)):
            self.count += len(batch)
            self._writer.write_table(pa.Table.from_pylist(batch, schema=_SAMPLE))


def _left_out(
    table: pa.Table, clusters: Clusters, sides: Sides, *, work: SampleUnit
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say of each document whether it may be held out for validation, and whether to measure on."""
    names = clusters.of(fixed_bytes(table.column("id"), ID_BYTES))
    validating = may_be_held_out(names, work.seed, config=work.validation, sides=sides)
    shares = [work.held_out.get(language, 0.0) for language in table.column("language").to_pylist()]
    measuring = [
        validation_hash(name, work.seed) < threshold(share)
        for name, share in zip(rows_of_bytes(names), shares, strict=True)
    ]
    return np.array(validating, np.bool_), np.array(measuring, np.bool_)


def _sampled(table: pa.Table, work: SampleUnit) -> Iterator[dict[str, Any]]:
    """Yield the parts that the sample takes of some documents."""
    for document in table.to_pylist():
        identity, language = document["id"], document["language"]
        parts = sample_parts(document["text"], identity, rate=work.rates[language], seed=work.seed)
        for part, copies in parts:
            yield {"language": language, "copies": copies, "piece": part}


def _measured(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the first parts of some documents, so that a long one does not stand for its language."""
    for document in table.to_pylist():
        for part in islice(cut_parts(document["text"]), _MEASURED_PARTS):
            yield {"language": document["language"], "copies": 1, "piece": part}


def train_tokenizer(workspace: Workspace, work: TokenizerTraining) -> TokenizerRecord:
    """Train on the units' parts in canonical order; write model, special ids and fairness."""
    trainer = TRAINERS[work.train.model]
    special = trained_ids(work.framing, len(work.train.control_symbols))
    sample, coverage = _sample_of(workspace, work)
    model = workspace.create(f"{FOLDER}/{trainer.kind}")
    model.write_bytes(trainer.train(sample, work.train))
    release_freed_memory()  # the trainer's half a gigabyte, before the sample is measured
    return _measured_tokenizer(workspace, work, model, special, coverage)


def measure_trained(workspace: Workspace, work: TokenizerTraining) -> TokenizerRecord:
    """Do what training does, with the model that it made: the same files and the same record."""
    special = trained_ids(work.framing, len(work.train.control_symbols))
    _, coverage = _sample_of(workspace, work)
    key = f"{FOLDER}/{TRAINERS[work.train.model].kind}"
    model = Path(shutil.copyfile(workspace.path(key), workspace.create(key)))
    return _measured_tokenizer(workspace, work, model, special, coverage)


def _measured_tokenizer(
    workspace: Workspace,
    work: TokenizerTraining,
    model: Path,
    special: Mapping[str, int],
    coverage: float | None,
) -> TokenizerRecord:
    """Write special ids and fairness of a trained model, and report it."""
    counter = TextCounter(open_tokenizer(model, special).codec)
    trained, drawn = _measure(workspace, work, counter, key=sample_key)
    unseen, _ = _measure(workspace, work, counter, key=measured_key)
    _write_json(workspace, SPECIAL_IDS, special)
    _write_json(workspace, FAIRNESS, _fairness(trained, unseen, drawn, targets=work.targets))
    return TokenizerRecord(
        vocab_size=counter.vocab_size,
        sample_bytes=sum(drawn.values()),
        sample_languages=len(drawn),
        **_left_unlearned(workspace, work),
        character_coverage=coverage,
        byte_fallback={name: one.byte_fallback for name, one in sorted(unseen.items())},
    )


def _left_unlearned(workspace: Workspace, work: TokenizerTraining) -> dict[str, int]:
    """Count what of the sample its training has not learned from."""
    parts_of, found = TRAINERS[work.train.model].parts, Counter[str]()
    for row in _sample_rows(workspace, work, sample_key):
        text, copies = row["piece"], row["copies"]
        parts = parts_of(text, work.train)
        left_out = len(text.encode()) - sum(len(part.encode()) for part in parts)
        found["space_symbols"] += text.count(SPACE_SYMBOL) * copies
        found["skipped_pieces"] += copies * (not parts)
        found["skipped_bytes"] += left_out * copies
    return {name: found[name] for name in ("space_symbols", "skipped_pieces", "skipped_bytes")}


def _sample_of(workspace: Workspace, work: TokenizerTraining) -> tuple[TrainingSample, float | None]:
    """Return what is learned from, and the share of each language whose characters get pieces."""

    def texts() -> Iterator[tuple[str, str, int]]:
        for row in _sample_rows(workspace, work, sample_key):
            yield row["language"], row["piece"], row["copies"]

    if next(texts(), None) is None:
        raise ConfigError(
            "tokenizer.train: the sample is empty, since no document is left for training; lower"
            " validation.fraction or add documents"
        )
    if work.train.is_byte_level:
        return TrainingSample(texts, parallel=work.parallel), None
    counts, normalise = CharacterCounts(), work.train.normaliser()
    for language, text, _ in texts():
        counts.add(language, normalise(text))
    characters, coverage = required_characters(
        counts.by_language(), coverage=work.train.character_coverage, most=work.train.most_characters()
    )
    return TrainingSample(texts, characters), coverage


def _fairness(
    trained: Mapping[str, LanguageCounts],
    unseen: Mapping[str, LanguageCounts],
    drawn: Mapping[str, int],
    *,
    targets: Mapping[str, float],
) -> dict[str, object]:
    """Return the rates of each language on the sample and on text that was held out, and its shares."""
    total, wanted = sum(drawn.values()), sum(targets.values())
    return {
        language: {
            "sample": rates_of(counts),
            "held_out": rates_of(unseen[language]) if language in unseen else None,
            "sample_share": round(drawn[language] / total, 6),
            "target_share": round(targets.get(language, 0.0) / wanted, 6),
        }
        for language, counts in sorted(trained.items())
    }


def _batches(
    workspace: Workspace, work: TokenizerTraining, key: Callable[[Unit], str]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the parts of all units in lists of at most `_BATCH`."""
    for unit in work.units:
        with pq.ParquetFile(workspace.path(key(unit))) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False).to_pylist()


def _sample_rows(
    workspace: Workspace, work: TokenizerTraining, key: Callable[[Unit], str]
) -> Iterator[dict[str, Any]]:
    for batch in _batches(workspace, work, key):
        yield from batch


def _measure(
    workspace: Workspace, work: TokenizerTraining, counter: TextCounter, *, key: Callable[[Unit], str]
) -> tuple[dict[str, LanguageCounts], dict[str, int]]:
    """Encode parts: what each language pays, and how many bytes of it were drawn."""
    counts: defaultdict[str, LanguageCounts] = defaultdict(LanguageCounts)
    drawn: defaultdict[str, int] = defaultdict(int)
    for batch in _batches(workspace, work, key):
        counted = counter.count(row["piece"] for row in batch)
        for row, one in zip(batch, counted, strict=True):
            drawn[row["language"]] += one.bytes * row["copies"]
            counts[row["language"]] += one
    return {name: one for name, one in counts.items() if one.tokens}, dict(drawn)


def _write_json(workspace: Workspace, key: str, value: object) -> None:
    with workspace.create(key).open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)  # part by part, not as one text
        file.write("\n")
