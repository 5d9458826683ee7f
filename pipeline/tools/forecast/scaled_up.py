"""Scaled up: what a run over a sample of the inputs says of the run over all of them.

What follows the corpus is multiplied: documents, tokens, bytes, CPU seconds. Three things follow other
laws: a tokenizer is trained on so much text at the most; of decode, the part that the tokenizer's own
library encodes again has a size of its own; and memory follows the parts that are worked on at a time
(`pipeline.tools.forecast.peaks`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.engine.memory import BASE, WORKER
from pipeline.inputs.bundles import MEAN
from pipeline.report.report import LanguageRow, Report
from pipeline.run_file.config import RunFile
from pipeline.state.journal import read_log
from pipeline.steps.decode.step import DECODE, SAMPLED, sampled_bytes
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.step import Scope
from pipeline.steps.table import step_needs
from pipeline.steps.tokenize.encode import LanguageTokens
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.tools.forecast.peaks import Parts, peaks_of
from pipeline.tools.forecast.sample import InputSample
from pipeline.tools.forecast.terminal import (
    ContaminationForecast,
    CutsForecast,
    DuplicatesForecast,
    Forecast,
    MemoryForecast,
    StepForecast,
    TotalForecast,
    is_vague,
)
from stages.mixing.placement import num_shards

_WORKERS = (0, 1, 2, 4, 8)
"""For which memory is told."""


@dataclass(frozen=True)
class MeasuredSample:
    """A sample of the inputs, and what a run over it gave and cost."""

    drawn: InputSample
    report: Report
    """With compiled code that was loaded before, if that costs as much as the run."""
    first: Report
    """Of a process that had done nothing else."""
    by_library: float
    """CPU seconds of decode that the tokenizer's own library took."""
    disk: dict[str, int]
    """Bytes by folder."""

    def scaled(self, number: float) -> int:
        """Return a number that follows the corpus."""
        return round(number * self.drawn.times)


def library_seconds(folder: Path) -> float:
    """Return the CPU seconds that a run took to encode texts with the tokenizer's own library."""
    return sum(
        float(event["cpu_seconds"])
        for event in read_log(folder)
        if event["event"] == "commit"
        and event["step"] == DECODE.name
        and event["unit"].startswith(SAMPLED)
    )


def scaled_up(
    sample: MeasuredSample,
    run: RunFile,
    *,
    notes: list[str],
    room: tuple[str, int | None],
    duplicates: DuplicatesForecast | None = None,
) -> Forecast:
    """Return what is expected of a run.

    Args:
        sample: what its run over a sample gave.
        run: the run.
        notes: what people should know of the sample.
        room: the folder it is written to, and the bytes that it may take there, if that is known.
        duplicates: what is expected to be removed.
    """
    documents, drawn = sample.report.documents, sample.drawn
    languages = list(_languages(sample))
    steps = list(_steps(sample, run, languages))
    unreadable = {"unreadable": sample.scaled(drawn.unreadable)} if drawn.unreadable else {}
    dropped = {why: sample.scaled(count) for why, count in documents.dropped.items()}
    decided = (documents.kept or 0) + sum((documents.removed or {}).values())
    removed = _removed(sample, duplicates)
    return Forecast(
        share=drawn.taken / drawn.stored,
        records=drawn.records,
        read=sample.scaled(drawn.documents + drawn.unreadable),
        dropped={**unreadable, **dropped},
        removed=removed,
        kept=sample.scaled(decided) - sum(removed.values()),
        duplicates=duplicates,
        cuts=_cuts(sample),
        contamination=_contamination(sample),
        tokens=sum(row.tokens for row in languages),
        totals=_totals(sample, run),
        languages=[row.model_dump(mode="json") for row in languages],
        steps=steps,
        cpu_seconds=round(sum(step["cpu_seconds"] for step in steps), 1),
        disk={name: sample.scaled(size) for name, size in sample.disk.items() if size},
        place=room[0],
        disk_free=room[1],
        memory=list(_memory(sample, run)),
        most_workers=_most_workers(run),
        notes=notes,
    )


def _removed(sample: MeasuredSample, duplicates: DuplicatesForecast | None) -> dict[str, int]:
    """Return how many documents are removed by reason, duplicates in the proportions of the sample.

    If nobody can tell, these are the duplicates within the sample: at least so many are removed.
    """
    flow = sample.report.ledger.get(DEDUP.name)
    seen = sample.report.documents.removed or {}
    every = {why: sample.scaled(count) for why, count in seen.items()}
    if duplicates is None or flow is None or sample.drawn.is_whole or is_vague(duplicates["all"]):
        return every
    own = {why: tally.documents for why, tally in flow.gone.items()}
    total = duplicates["all"]["likely"] * sample.scaled(flow.input.documents)
    found = sum(own.values()) or 1
    return every | {why: round(total * count / found) for why, count in own.items()}


def _cuts(sample: MeasuredSample) -> CutsForecast | None:
    """Return what is cut of the sample, scaled."""
    documents, cut = sample.report.documents, sample.report.documents.cut_bytes
    if cut is None:
        return None
    left = sum(row.bytes for row in sample.report.languages)
    return {
        "bytes": {what: sample.scaled(size) for what, size in cut.items()},
        "share": round(sum(cut.values()) / max(left + sum(cut.values()), 1), 4),
        "documents": sample.scaled(documents.cut_documents or 0),
    }


def _contamination(sample: MeasuredSample) -> ContaminationForecast | None:
    """Return what stands of evaluation sets in the sample."""
    sets = sample.report.documents.evaluation_sets
    flow = sample.report.ledger.get(DECONTAMINATE.name)
    if sets is None or flow is None:
        return None
    return {
        "documents": {name: one.dropped + one.reported for name, one in sets.items()},
        "sampled": flow.input.documents,
        "items": {name: one.found for name, one in sets.items()},
    }


def _totals(sample: MeasuredSample, run: RunFile) -> dict[str, TotalForecast]:
    """Return how many tokens each dataset is to have and will have, where its mix says how many."""
    mixed = sample.report.mix
    mixes = {one.name: run.mix_of(one) for one in run.datasets}
    asked = {name: None if mix is None else mix.total_tokens for name, mix in mixes.items()}
    return {
        name: {"asked": total, "held": sample.scaled(mixed[name].tokens)}
        for name, total in asked.items()
        if total is not None and name in mixed
    }


def _languages(sample: MeasuredSample) -> Iterator[LanguageRow]:
    for row in sample.report.languages:
        yield LanguageRow(
            language=row.language,
            documents=sample.scaled(row.documents),
            bytes=sample.scaled(row.bytes),
            tokens=sample.scaled(row.tokens),
        )


def _steps(sample: MeasuredSample, run: RunFile, languages: list[LanguageRow]) -> Iterator[StepForecast]:
    more = _sampled(languages) / max(_sampled(sample.report.languages), 1.0)
    for row in sample.report.steps:
        times, own = sample.drawn.times, 0.0
        if row.step == TOKENIZER.name:
            times = min(times, int(run.tokenizer.train.sample_size) / (_trained(sample) or 1))
        elif row.step == DECODE.name:
            own = sample.by_library
        seconds = (row.cpu_seconds - own) * times + own * more
        yield StepForecast(step=row.step, cpu_seconds=round(seconds, 1))


def _sampled(languages: Sequence[LanguageRow]) -> float:
    """Return the bytes of text that decode encodes with the tokenizer's own library."""
    return sampled_bytes(
        {
            row.language: LanguageTokens(
                documents=max(row.documents, 1), bytes=row.bytes, tokens=row.tokens
            )
            for row in languages
        }
    )


def _trained(sample: MeasuredSample) -> int:
    """Return the bytes of text that the sample's tokenizer was trained on; 0 if it was there before."""
    tokenizer = sample.report.tokenizer
    return 0 if tokenizer is None else tokenizer.sample_bytes or 0


def _memory(sample: MeasuredSample, run: RunFile) -> Iterator[MemoryForecast]:
    measured = {row.step: row.peak_memory for row in sample.first.steps}
    peaks = peaks_of(
        run, measured, before=_parts_of(sample, run), after=_parts_of(sample, run, whole=True)
    )
    for workers in _WORKERS:
        found = min(peaks.with_workers(workers), int(run.resources.memory))
        yield MemoryForecast(workers=workers, bytes=found)


def _parts_of(sample: MeasuredSample, run: RunFile, *, whole: bool = False) -> Parts:
    """Return the parts of the sample's run, or of the whole one."""
    drawn, times = sample.drawn, sample.drawn.times if whole else 1.0
    most = int(run.ingest.unit_size)
    unit = drawn.largest_source
    if whole:  # small files share a unit
        text = drawn.text_bytes / drawn.taken
        unit = round(text * max(drawn.largest_file, min(most / MEAN / text, drawn.stored)))
    kept = round((sample.report.documents.kept or 0) * times)
    size = round(sum(row.bytes for row in sample.report.languages) * times)
    made = num_shards(size, shard_size=int(run.packing.shard_size), documents=kept)
    return Parts(
        unit=min(most, unit),
        documents=kept,
        shard_documents=kept // (run.packing.shards or made),
        trained=min(round(_trained(sample) * times), int(run.tokenizer.train.sample_size)),
        partition=run.resources.keys_per_partition,
    )


def _most_workers(run: RunFile) -> int:
    """Return for how many workers a node has room in every step, as steps reserve memory."""
    most = max(need.bytes for need in step_needs(Scope(run)).values())
    return max(0, (int(run.resources.memory) - BASE) // (WORKER + most))
