"""Decontaminate: documents that hold items of evaluation sets, dropped or reported."""

from collections.abc import Iterator, Mapping

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, TaskPlace
from pipeline.run_file.fingerprints import SomeSettings
from pipeline.steps.decontaminate.decide import REASON, DecidedGroup, DecidedRecord, decide_group
from pipeline.steps.decontaminate.gather import GatheredRecord, GatherWork, SetCounts, gather
from pipeline.steps.decontaminate.index import IndexRecord, make_index
from pipeline.steps.decontaminate.recount import recount_unit
from pipeline.steps.decontaminate.search import SearchedGroup, count_documents, search_group
from pipeline.steps.dedup.step import DEDUP, text_need
from pipeline.steps.dedup.unit_groups import unit_groups
from pipeline.steps.earlier_runs import numbered, require_found
from pipeline.steps.records import read_all
from pipeline.steps.selection import (
    DECONTAMINATE_NAME,
    KeptCounts,
    SelectionRecord,
    kept_units,
    recounts_of_kept,
)
from pipeline.steps.step import (
    Amounts,
    Inputs,
    Job,
    Records,
    Result,
    RowsOf,
    Scope,
    Step,
    Work,
    always,
)
from stages.decontamination.config import Decontamination, EvaluationSet
from stages.dedup.normalization import unicode_version
from stages.errors import DataError

INDEX_FACTOR = 200
"""Bytes for a word of the evaluation sets while their index is made."""
JUDGING = 256 << 20
"""The hits of some documents with all items that they may be of, and the words of a block."""
_NOTABLE, _NOTABLE_SHARE = 100, 0.01
"""Documents that are dropped for one set, and their share of all, from which a run warns."""
_UNDECIDED = {"paths", "exclude", "skip_unknown", "words"}
"""What of a set decides nothing, once it is resolved."""


class DecontaminateRecord(SelectionRecord):
    """What was found of the evaluation sets, and what is kept."""

    sets: dict[str, SetCounts]
    """By name."""
    ngrams: int
    """That were looked for."""


def _config(scope: Scope) -> Decontamination:
    assert scope.file.decontamination is not None, "the step is planned if there are evaluation sets"
    return scope.file.decontamination


def _settings(scope: Scope) -> Mapping[str, object]:
    config = _config(scope)
    sets = {
        f"{number:03d}": SomeSettings(one, set(EvaluationSet.model_fields) - _UNDECIDED)
        for number, one in enumerate(config.sets)
    }
    rule = SomeSettings(config, set(Decontamination.model_fields) - {"sets"})
    return {"decontamination": rule, "sets": sets, "unicode": unicode_version()}


def _need(scope: Scope) -> Need:
    words = sum(one.words for one in _config(scope).sets)
    need = text_need(scope.file) + JUDGING + INDEX_FACTOR * words
    return Need(need, "name fewer or smaller evaluation sets, or lower ingest.max_document_bytes")


def _work(job: Job) -> Work[DecontaminateRecord]:
    config = _config(job.scope)
    units = kept_units(job, after=DEDUP.name)
    groups = unit_groups(units)
    names = tuple(group.name for group in groups)
    made = yield Phase("read the evaluation sets", [job.task("index", make_index, config)])
    index = made["index"].read(IndexRecord)
    require_found(job.scope.earlier)
    searched = [SearchedGroup(group, earlier=True) for group in unit_groups(numbered(job.scope.earlier))]
    searched += [SearchedGroup(group) for group in groups]
    tasks = [job.task(f"search-{one.name}", search_group, one) for one in searched]
    yield Phase("search for evaluation sets", tasks)
    every = tuple(one.name for one in searched)
    yield Phase("count documents", [job.task("count", count_documents, every)])
    tasks = [
        job.task(f"decide-{group.name}", decide_group, DecidedGroup(group, config)) for group in groups
    ]
    decided = yield Phase("decide what is contaminated", tasks)
    task = job.task("gather", gather, GatherWork(names, config))
    gathered = yield Phase("gather what was found", [task], TaskPlace.WORKERS)
    sets = gathered["gather"].read(GatheredRecord).sets
    counts = KeptCounts(units)
    counts.include(read_all(decided, DecidedRecord).values())
    total = counts.total
    if not total.output.documents and not job.scope.earlier:  # of a later dump nothing may be new
        raise DataError(
            f"decontamination: all {total.input.documents:,} documents hold items of the evaluation sets"
            " and none is left; check that sources.paths and decontamination.sets name different files,"
            ' or set decontamination.action = "report"'
        )
    record = DecontaminateRecord(
        kept=total.output.documents,
        removed={REASON: total.gone[REASON].documents},
        languages=counts.languages,
        sets=sets,
        ngrams=index.ngrams,
        warnings=(*_warnings(index, sets), *losses(sets, total.input.documents)),
    )
    return Result(record, counts.flows)


def _warnings(index: IndexRecord, sets: Mapping[str, SetCounts]) -> Iterator[str]:
    """Say what of the evaluation sets is not looked for."""
    for name, counts in sets.items():
        if index.unread[name]:
            yield (
                f"decontamination.sets.{name}: {index.unread[name]:,} of its records could not be read"
                " and are not looked for"
            )
        if counts.unused:
            yield (
                f"decontamination.sets.{name}: {counts.unused:,} of {counts.items:,} items are not"
                " looked for, because all their texts are shorter than min_words or stand in more than"
                " max_items items; in decontaminate/items.parquet their verdict is unused"
            )


def losses(sets: Mapping[str, SetCounts], documents: int) -> Iterator[str]:
    """Say which sets many documents are dropped for: such a set may hold texts of the corpus itself."""
    for name, counts in sets.items():
        if counts.dropped >= _NOTABLE and counts.dropped > _NOTABLE_SHARE * documents:
            yield (
                f"decontamination.sets.{name}: {counts.dropped:,} of {documents:,} documents,"
                f" {counts.dropped / documents:.2%}, are dropped for its items; look at them in"
                " decontaminate/contaminated.parquet, and set its action to report if they are to stay"
            )


def _amounts(_: DecontaminateRecord, records: Records) -> Amounts:
    before = records.of(DEDUP)
    size = sum(one["bytes"] for one in before.languages.values())
    return Amounts(documents=before.kept, bytes=size)


DECONTAMINATE = Step(
    name=DECONTAMINATE_NAME,
    version=3,
    said="remove evaluation items",
    record=DecontaminateRecord,
    reads=always((DEDUP.name,)),
    settings=_settings,
    need=_need,
    work=_work,
    applies=lambda scope: scope.file.decontamination is not None,
    amounts=_amounts,
    takes=Inputs((DEDUP.name,)),
    evidence=lambda evidence: recounts_of_kept(evidence, recount_unit),
    folders=(DECONTAMINATE_NAME,),
    earlier=("ingest", "dedup"),
    whole=(count_documents, gather),
    outside=(make_index,),
    sampled=(search_group,),
    listed={decide_group: RowsOf(".parquet")},
    unread=("decontaminate/hits/", "decontaminate/found/", "decontaminate/index/"),
)
