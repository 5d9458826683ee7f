"""The runner, the last steps: what is checked of what was made.

decode   the token store against the texts, once for all datasets
verify   the rows of each dataset against the token store; then, of those where nothing is found, that
         a model learns from them, several at a time
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.commits import Commit
from pipeline.config import Dataset
from pipeline.runner import Run
from pipeline.steps.decode import check as decode
from pipeline.steps.units import Unit
from pipeline.steps.verify import check as verify
from pipeline.steps.verify import learn
from pipeline.steps.verify.settings import Settings
from pipeline.tasks import Task
from stages.tokenizer.special import special_ids


def run_decode(run: Run, units: tuple[Unit, ...], shards: Mapping[str, int]) -> Mapping[str, Any]:
    """Check that the token store holds the kept documents and decodes to their texts."""
    step = run.plan["decode"]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    asked = run.file.needs_sentences
    checks = decode.checks_of(units, shards, seed=run.file.seed, sentences=asked)
    tasks = [run.task("decode", unit, decode.check_texts, check) for unit, check in checks]
    commits = run.execution.run(step, tasks, title="decode the token store")
    records = [commit.record for commit in commits.values()]
    record = {
        "findings": [finding for record in records for finding in record["findings"]],
        "documents": sum(record["documents"] for record in records),
    }
    returned: Counter[str] = Counter()
    for part in records:
        returned.update(part.get("returned", {}))
    if returned:
        record["returned"] = dict(sorted(returned.items()))
    return run.execution.finish(step, record).record


def run_verify(
    run: Run, units: tuple[Unit, ...], shards: Mapping[str, int], *, texts: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Check every dataset: its documents, its rows, and that a model learns from it.

    Models are trained last and side by side: each takes one thread, and nothing of the others.

    Args:
        run: the run.
        units: of ingest.
        shards: their number, by split.
        texts: what `run_decode` found.
    """
    records: dict[str, Mapping[str, Any]] = {}
    sound: dict[str, dict[str, Any]] = {}
    for dataset in run.file.datasets:
        step = run.plan[f"verify-{dataset.name}"]
        whole = run.execution.whole(step)
        if whole:
            records[dataset.name] = whole.record
            if not whole.record["passed"]:
                run.execution.progress.note(
                    f"{dataset.name} failed verification in an earlier session; to check it again:"
                    f" shardmill verify {run.execution.root}"
                )
            continue
        record = _check_rows(run, dataset, units, shards, texts=texts)
        if record["passed"] and run.file.verify.learning:
            sound[dataset.name] = record
        else:
            records[dataset.name] = run.execution.finish(step, record).record

    def learned(name: str, commit: Commit) -> None:
        record = {**sound[name], "passed": bool(commit.record["passed"]), "learning": commit.record}
        records[name] = run.execution.finish(run.plan[f"verify-{name}"], record).record

    work = {name: (run.plan[f"verify-{name}"], _learning(run, name, shards)) for name in sound}
    run.execution.across(work, learned, title="learn from")
    return {dataset.name: records[dataset.name] for dataset in run.file.datasets}


def _known_ids(run: Run) -> Mapping[str, int] | None:
    """Give the special ids of the run's tokenizer, whatever its files say; None if they alone say it."""
    if run.adopted is not None:
        return run.adopted.special_ids
    return special_ids() if run.file.tokenizer.path is None else None


def _check_rows(
    run: Run,
    dataset: Dataset,
    units: tuple[Unit, ...],
    shards: Mapping[str, int],
    *,
    texts: Mapping[str, Any],
) -> dict[str, Any]:
    """Check one dataset's files; give the record of its verdict, before anything is learned."""
    name = f"verify-{dataset.name}"
    settings = Settings(
        dataset.objective,
        run.file.packing_of(dataset),
        run.file.seed,
        dataset.epochs_on_disk,
        _known_ids(run),
    )
    tasks = [
        run.task(name, unit, function, check)
        for unit, function, check in verify.checks_of(dataset.name, settings, units, shards)
    ]
    commits = run.execution.run(run.plan[name], tasks, title=f"verify {dataset.name}")
    records = [commit.record for commit in commits.values()]
    findings = [*texts["findings"], *(found for record in records for found in record["findings"])]
    return {
        "passed": not findings,
        "findings": findings,
        "learning": None,
        "checked": {
            key: sum(record.get(key, 0) for record in records)
            for key in ("rows", "documents", "tokens", "padding")
        },
        "fingerprints": {
            part: commits[f"split-{part}"].record.get("fingerprint") for part in _splits(shards)
        },
        **({"returned": texts["returned"]} if "returned" in texts else {}),
    }


def _learning(run: Run, dataset: str, shards: Mapping[str, int]) -> Task:
    """Give the task that trains on a dataset, of a name of its own: several are done at a time."""
    check = learn.LearningCheck(dataset, _splits(shards), run.file.verify, run.file.seed)
    return run.task(f"verify-{dataset}", f"learning-{dataset}", learn.learn, check)


def _splits(shards: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(part for part in ("train", "validation") if shards[part])
