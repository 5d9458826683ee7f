"""The runner: the steps of a run, one after the other, each skipped if it is whole.

Reads like the flow: ingest, dedup, tokenizer, split, tokenize, sentences, shard, draw. Each function
below makes the tasks of one step, lets the execution do what is missing and commits the step with what
the next ones need to know. What follows, the checks, is in `pipeline.checking`, in the same manner.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.commits import Commit
from pipeline.config import Dataset, RunFile
from pipeline.execution import Execution
from pipeline.inputs import InputFile
from pipeline.ledger import read_flows, settle, settle_total
from pipeline.needs import training_need
from pipeline.plan import SAMPLE, StepPlan
from pipeline.scanning import forgetting_changed
from pipeline.settling import flows_of, let_out, settled
from pipeline.steps.dedup import pairs, resolve
from pipeline.steps.dedup import pieces as dedup
from pipeline.steps.draw import make as materialise
from pipeline.steps.ingest import part as ingest
from pipeline.steps.ingest import reading as parts
from pipeline.steps.ingest.columns import Columns
from pipeline.steps.ingest.coverage import require_whole_files
from pipeline.steps.ingest.unreadable import UnreadableSoFar, check_readable
from pipeline.steps.sentences import find as sentences
from pipeline.steps.shard import make as shard
from pipeline.steps.split import choice as split
from pipeline.steps.tokenize import encode as tokenize
from pipeline.steps.tokenizer import adopt, load
from pipeline.steps.tokenizer import training as tokenizer
from pipeline.steps.units import Unit
from pipeline.tasks import Function, Task
from stages.dedup.lsh import band_shape, num_pieces
from stages.errors import DataError
from stages.ledger import Flow, Tally
from stages.reading.records import FieldMapping
from stages.tokenizer.sampling import balanced_targets


@dataclass(frozen=True)
class Run:
    """A run that is ready to go."""

    file: RunFile
    inputs: Sequence[InputFile]
    plan: Mapping[str, StepPlan]
    """Steps by name."""
    execution: Execution
    adopted: adopt.Adoption | None = None
    """The existing tokenizer, if the run trains none."""

    def task(self, step: str, unit: str, function: Function, payload: object) -> Task:
        """Give one task of a step."""
        return Task(unit, function, payload, self.plan[step].fingerprint)


def run_ingest(run: Run) -> Mapping[str, Any]:
    """Read every file, part by part."""
    step = run.plan["ingest"]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    fields = {source.name: source for source in run.file.sources}
    minhash = run.file.dedup.minhash if run.file.dedup.near else None

    def part(file: InputFile, number: int) -> Task:
        source = fields[file.source]
        payload = parts.Part(
            source=file.source,
            path=file.path,
            place=file.place,
            label=file.label,
            key=file.key,
            number=number,
            fields=FieldMapping(**source.model_dump(include=set(FieldMapping.model_fields))),
            ingest=run.file.ingest,
            minhash=minhash,
            size=file.size,
            blocks=file.blocks,
            slice=None if file.slices is None else file.slices[number],
            text_split=source.text_split,
        )
        unit = payload.name.replace("/", ".")
        return Task(unit, ingest.ingest_part, payload, step.units[file.key])

    files = {file.key: file for file in run.inputs}
    so_far = UnreadableSoFar(run.inputs, run.file.ingest.max_bad_fraction, run.file.sources)

    def follow(task: Task, commit: Commit) -> Task | None:
        so_far.add(task.payload.key, task.payload.number, commit.record)
        number = commit.record["next"]
        return None if number is None else part(files[task.payload.key], number)

    tasks = [
        part(file, number)
        for file in run.inputs
        for number in range(1 if file.slices is None else len(file.slices))
    ]
    with forgetting_changed(run.execution, run.inputs):
        commits = run.execution.run(step, tasks, title="read and clean", follow=follow)
    require_whole_files(run.inputs, commits)
    record = _ingest_record(run.file, commits)
    for warning in record["warnings"]:
        run.execution.progress.note(f"warning: {warning}")
    return settled(run.execution, step, commits, record)


def _ingest_record(file: RunFile, commits: Mapping[str, Commit]) -> dict[str, Any]:
    """Sum up what was read, and refuse an input of which too much is broken."""
    records = [commit.record for commit in commits.values()]
    columns = Columns(file.sources)
    for record in records:
        columns.add(record)
    columns.require_any()
    drops: Counter[str] = Counter()
    for record in records:
        drops.update(record["drops"])
    read = sum(record["read"] for record in records)
    named = [line for record in records for line in record["named"]]
    check_readable(read, drops, named, file.ingest.max_bad_fraction)
    if not sum(record["documents"] for record in records):
        raise DataError(
            f"no document is left of {read:,} records in {len(records)} files"
            + (f" ({', '.join(named[:3])})" if named else "")
            + "; check text_column and ingest.min_chars"
        )
    return {
        "read": read,
        "drops": dict(sorted(drops.items())),
        "named": named[:20],
        "cleaned": sum(record["cleaned"] for record in records),
        "warnings": columns.warnings(),
        "units": [
            {
                "name": unit.replace(".", "/", 1),
                "source": commit.record["source"],
                "path": commit.record["path"],
                "documents": commit.record["documents"],
                "text_bytes": commit.record["text_bytes"],
                "sections": commit.record["sections"],
            }
            for unit, commit in commits.items()
        ],
    }


def run_dedup(run: Run, units: tuple[Unit, ...]) -> Mapping[str, Any]:
    """Find and verify duplicates, then decide in rank order."""
    step, config = run.plan["dedup"], run.file.dedup
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    pieces = num_pieces(units[-1].last) if config.exact else 0
    compared = 0

    def phase(
        name: str, title: str, function: Function, work: Iterable[tuple[str, object]]
    ) -> list[Commit]:
        tasks = [run.task("dedup", f"{name}-{unit}", function, payload) for unit, payload in work]
        return list(run.execution.run(step, tasks, title=title).values())

    if config.exact:
        work = [(u.commit_name, dedup.UnitKeys(u, pieces)) for u in units]
        phase("digests", "sort digests", dedup.cut_digests, work)
        exact = [(f"{n:05d}", dedup.Piece(units, n, pieces)) for n in range(pieces)]
        phase("exact", "find exact duplicates", dedup.find_exact, exact)
    if config.near:
        minhash = config.minhash
        work = [(u.commit_name, dedup.UnitKeys(u, pieces, minhash)) for u in units]
        phase("keys", "sort band keys", dedup.cut_keys, work)
        cuts = itertools.product(
            range(band_shape(minhash.threshold, minhash.num_perm)[0]), range(pieces)
        )
        bands = [(f"{b:03d}-{n:05d}", dedup.Piece(units, n, pieces, b, minhash)) for b, n in cuts]
        phase("band", "find near-duplicates", dedup.find_candidates, bands)
        verify = [
            (f"{n:05d}", pairs.PairRange(units, n, start, end, pieces, minhash))
            for n, (start, end) in enumerate(pairs.unit_runs(units))
        ]
        verified = phase("pairs", "verify near-duplicates", pairs.verify_pairs, verify)
        compared = sum(commit.record["compared"] for commit in verified)
    work_ = resolve.Resolution(units, pieces, config.near)
    task = run.task("dedup", "resolve", resolve.resolve, work_)
    commit = run.execution.one(step, task, title="decide what stays")
    settle("dedup", read_flows(run.execution.root, "dedup"), let_out(run.execution, "ingest"))
    return run.execution.finish(step, {**commit.record, "compared": compared}).record


def run_tokenizer(run: Run, units: tuple[Unit, ...], kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw the balanced sample and train on it, or take the existing tokenizer."""
    step, config = run.plan["tokenizer"], run.file.tokenizer.train
    if step.warning:
        run.execution.progress.note(f"warning: {step.warning}")
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    if run.adopted is not None:
        task = run.task("tokenizer", "adopt", adopt.adopt_tokenizer, run.adopted)
        return _only_tokenizer(run, run.execution.here(step, task, title="take the tokenizer"))
    sizes = {name: counts["bytes"] for name, counts in kept["languages"].items()}
    rates = tokenizer.sampling_rates(sizes, config)
    samples = run.execution.run(
        step,
        [
            Task(
                f"{SAMPLE}-{unit.commit_name}",
                tokenizer.sample_unit,
                tokenizer.SampleUnit(unit, rates, run.file.validation, run.file.seed),
                step.units[SAMPLE],
            )
            for unit in units
        ],
        title="sample for the tokenizer",
    )
    sampled = {unit.removeprefix(f"{SAMPLE}-"): commit for unit, commit in samples.items()}
    flows = flows_of(sampled)
    total = settle("tokenizer", flows, let_out(run.execution, "dedup"))
    targets = balanced_targets(sizes, config)
    workers, corpus = run.execution.resources.workers, sum(sizes.values())
    need = training_need(run.file, corpus, workers=workers, languages=len(sizes))
    run.execution.pools.require("tokenizer", need)
    task = run.task(
        "tokenizer", "train", tokenizer.train_tokenizer, tokenizer.Training(units, config, targets)
    )
    commit = run.execution.one(step, task, title="train the tokenizer")
    return _only_tokenizer(run, commit, flows, ledger=total.model_dump(mode="json"))


def _only_tokenizer(
    run: Run, commit: Commit, flows: Mapping[str, Flow] | None = None, **record: Any
) -> Mapping[str, Any]:
    """Finish the step when no tokenizer but the committed one is there: a kill may have left another."""
    storage = run.execution.commits.storage
    for key in list(storage.list(load.FOLDER)):
        if key not in commit.files:
            storage.delete(key)
    return run.execution.finish(run.plan["tokenizer"], {**commit.record, **record}, flows).record


def run_split(run: Run, units: tuple[Unit, ...], kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hold documents out and settle the number of shards."""
    step, file = run.plan["split"], run.file
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    commits = run.execution.run(
        step,
        [
            run.task(
                "split",
                f"count-{unit.commit_name}",
                split.count_candidates,
                split.CandidateUnit(unit, file.validation, file.seed),
            )
            for unit in units
        ],
        title="count held-out documents",
    )
    size, documents = (
        sum(counts[key] for counts in kept["languages"].values()) for key in ("bytes", "documents")
    )
    choice = split.Choice(units, file.validation, file.packing, file.seed, size, documents)
    task = run.task("split", "choose", split.choose_validation, choice)
    commit = run.execution.here(step, task, title="choose the validation split")
    counted = {unit.removeprefix("count-"): found for unit, found in commits.items()}
    return settled(run.execution, step, counted, commit.record, before="dedup")


def run_tokenize(run: Run, units: tuple[Unit, ...], shards: Mapping[str, int]) -> Mapping[str, Any]:
    """Encode every kept document into the token store."""
    step = run.plan["tokenize"]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    commits = run.execution.run(
        step,
        [
            run.task(
                "tokenize",
                unit.commit_name,
                tokenize.tokenize_unit,
                tokenize.TokenizeUnit(unit, shards["train"], shards["validation"], run.file.seed),
            )
            for unit in units
        ],
        title="tokenize",
    )
    languages: dict[str, Counter[str]] = {}
    for commit in commits.values():
        for name, counts in commit.record["languages"].items():
            languages.setdefault(name, Counter()).update(counts)
    sums = _sums(commits, "documents", "tokens", "space_symbols")
    by_name = {name: dict(counts) for name, counts in sorted(languages.items())}
    return settled(run.execution, step, commits, {**sums, "languages": by_name}, before="dedup")


def run_sentences(run: Run, units: tuple[Unit, ...]) -> Mapping[str, Any]:
    """Find the sentences of every document, if a dataset asks where they end."""
    if not run.file.needs_sentences:
        return {}
    step = run.plan["sentences"]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    work = ((unit.commit_name, sentences.SentenceUnit(unit)) for unit in units)
    tasks = [run.task("sentences", name, sentences.find_sentences, item) for name, item in work]
    commits = run.execution.run(step, tasks, title="split sentences")
    return settled(
        run.execution, step, commits, _sums(commits, "documents", "sentences"), before="tokenize"
    )


def _sums(commits: Mapping[str, Commit], *keys: str) -> dict[str, int]:
    return {key: sum(commit.record[key] for commit in commits.values()) for key in keys}


def run_shards(
    run: Run,
    dataset: Dataset,
    units: tuple[Unit, ...],
    shards: Mapping[str, int],
    *,
    vocab_size: int,
) -> Mapping[str, Any]:
    """Make the shards of one dataset and, last, the manifest of each split."""
    name = f"shard-{dataset.name}"
    step = run.plan[name]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    packing = run.file.packing_of(dataset)
    work = [
        shard.ShardWork(
            units=units,
            dataset=dataset.name,
            split=part,
            number=number,
            group=number + (shards["train"] if part == "validation" else 0),
            objective=dataset.objective,
            packing=packing,
            seed=run.file.seed,
            vocab_size=vocab_size,
        )
        for part in ("train", "validation")
        for number in range(shards[part])
    ]
    tasks = [run.task(name, f"{item.split}-{item.number:05d}", shard.make_shard, item) for item in work]
    commits = run.execution.run(step, tasks, title=f"pack {dataset.name}")
    record = {}
    for part in ("train", "validation"):
        made = tuple((item, commits[f"{part}-{item.number:05d}"]) for item in work if item.split == part)
        if made:
            manifest = shard.ManifestWork(
                dataset.name, part, made, dataset.objective, packing, run.file.seed, vocab_size
            )
            task = run.task(name, f"manifest-{part}", shard.make_manifest, manifest)
            record[part] = run.execution.here(step, task, title=f"sign {dataset.name}/{part}").record
    flows = flows_of(commits)
    stored = sum(let_out(run.execution, "tokenize").values(), start=Tally(bytes=0, tokens=0))
    total = settle_total(name, settle(name, flows), stored)
    ledger = total.model_dump(mode="json")
    return run.execution.finish(step, {"splits": record, "ledger": ledger}, flows).record


def run_draw(run: Run, dataset: Dataset, shards: Mapping[str, int]) -> Mapping[str, Any]:
    """Write out the epochs of one dataset that are to stand on disk."""
    name, epochs = f"draw-{dataset.name}", dataset.epochs_on_disk
    if not epochs:
        return {}
    step = run.plan[name]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    work = {
        f"{part}-{epoch:04d}-{number:05d}": materialise.DrawWork(dataset.name, part, number, epoch)
        for part in ("train", "validation")
        for epoch in range(epochs)
        for number in range(shards[part])
    }
    tasks = [run.task(name, unit, materialise.draw_shard, item) for unit, item in work.items()]
    commits = run.execution.run(step, tasks, title=f"draw {dataset.name}")
    record = {}
    for part in ("train", "validation"):
        made = tuple((item, commits[unit]) for unit, item in work.items() if item.split == part)
        if made:
            drawn = materialise.DrawnWork(dataset.name, part, epochs, made)
            task = run.task(name, f"manifest-{part}", materialise.make_drawn, drawn)
            record[part] = run.execution.here(step, task, title=f"sign {dataset.name}/{part}").record
    return settled(run.execution, step, commits, {"splits": record})
