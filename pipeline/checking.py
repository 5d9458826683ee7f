"""The runner, the last steps: what is checked of what was made.

decode   the token store against the texts, once for all datasets
verify   the rows of each dataset against the token store, and that a model learns from them
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.config import Dataset
from pipeline.runner import Run
from pipeline.steps import decode, learn, verify
from pipeline.steps.units import Unit
from pipeline.steps.verify_run import Settings


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
    run: Run,
    dataset: Dataset,
    units: tuple[Unit, ...],
    shards: Mapping[str, int],
    *,
    texts: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Check one dataset: its documents, its rows, and that a model learns from it.

    Args:
        run: the run.
        dataset: one of its datasets.
        units: of ingest.
        shards: their number, by split.
        texts: what `run_decode` found.
    """
    name = f"verify-{dataset.name}"
    step = run.plan[name]
    whole = run.execution.whole(step)
    if whole:
        return whole.record
    splits = [part for part in ("train", "validation") if shards[part]]
    settings = Settings(
        dataset.objective, run.file.packing_of(dataset), run.file.seed, dataset.epochs_on_disk
    )
    tasks = [
        run.task(name, unit, function, check)
        for unit, function, check in verify.checks_of(dataset.name, settings, units, shards)
    ]
    commits = run.execution.run(step, tasks, title=f"verify {dataset.name}")
    records = [commit.record for commit in commits.values()]
    findings = [*texts["findings"], *(found for record in records for found in record["findings"])]
    learning = None
    if not findings and run.file.verify.learning:
        learned = learn.LearningCheck(dataset.name, tuple(splits), run.file.verify, run.file.seed)
        commit = run.execution.one(
            step,
            run.task(name, "learning", learn.learn, learned),
            title=f"learn from {dataset.name}",
            num_gpus=1.0 if run.execution.has_gpu() else 0.0,
        )
        learning = commit.record
    record = {
        "passed": not findings and (learning is None or bool(learning["passed"])),
        "findings": findings,
        "learning": learning,
        "checked": {
            key: sum(record.get(key, 0) for record in records)
            for key in ("rows", "documents", "tokens", "padding")
        },
        "fingerprints": {part: commits[f"split-{part}"].record.get("fingerprint") for part in splits},
        **({"returned": texts["returned"]} if "returned" in texts else {}),
    }
    return run.execution.finish(step, record).record
