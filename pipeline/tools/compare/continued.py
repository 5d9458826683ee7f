"""Compare, from a checkpoint: models go on from it on datasets, and are measured on the way.

    run folders -> datasets, or several in order -+-> a model for each and each seed -> compare.json,
    --evaluate NAME=FOLDER -> validation rows ----+                    compare.html, loss-NAME.svg

In this process, without Ray, one model after the other. Each model's measurements are kept in
`models/KEY.json` as soon as it is trained, so a call that was stopped goes on when it is made again.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.progress import BatchProgress, Progress
from pipeline.planning.outputs import require_local
from pipeline.run_file.datasets import SPLITS, finished_splits
from pipeline.state.storage import make_folder, replace_file
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.tokenizer.load import tokenizer_of
from pipeline.system.disk_faults import disk_faults, making
from pipeline.tools.compare.compare import FOLDER, chosen_datasets, run_names, write_comparison
from pipeline.tools.compare.continued_page import (
    ContinuedContent,
    ContinuedReport,
    EvaluationContent,
    MeanLossContent,
    draw_pictures,
    mean_of,
    render_continued,
)
from pipeline.tools.compare.evaluation_sets import AskedSet, heldout_rows, open_heldout, read_asked
from stages.config import canonical_json
from stages.continuing.settings import ContinueSettings
from stages.errors import ConfigError, DataError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.store.digests import digest_file
from stages.store.manifest import Manifest

if TYPE_CHECKING:
    from stages.continuing.training import MeasuredSet, TrainingData
    from stages.verify.training import Machine

MODELS, WEIGHTS = "models", "weights"
_VERSION = 1
_WEIGHTS = (".safetensors", ".bin")


@dataclass(frozen=True, eq=False)
class _TrainingData:
    """What models are trained on: datasets of a run, in order."""

    run: Path
    name: str
    datasets: tuple[str, ...]
    opened: tuple[ShardDataset, ...]
    reason: str | None


def compare_continued(  # noqa: PLR0913  # one parameter an option
    runs: Sequence[Path],
    settings: ContinueSettings,
    *,
    start: Path,
    datasets: Sequence[str] = (),
    sequences: Sequence[tuple[str, ...]] = (),
    evaluations: Sequence[str] = (),
    output: Path | None = None,
    save: bool = False,
    stream: TextIO | None = None,
) -> ContinuedReport:
    """Train models from a checkpoint and measure them; write what came out, and give it.

    Args:
        runs: folders of runs.
        settings: what each model reads, and how many there are.
        start: folder of the checkpoint.
        datasets: names; all of every run if there are neither these nor sequences.
        sequences: names of datasets that are trained on one after the other.
        evaluations: NAME=FOLDER of a dataset each, or of a source or language of it.
        output: folder of the results; None is a folder of the first run.
        save: whether the trained models are kept, in `weights/NAME/seed-N` of the output.
        stream: where progress is shown.

    Raises:
        ConfigError: no such run, dataset or checkpoint, tokenizers that differ, or a model that does not
            fit.
        DataError: files that are not what was committed, or nothing to measure on.
    """
    if output is not None:
        require_local(output, "--output")
    folders = tuple(dict.fromkeys(require_local(folder, "DIR").resolve() for folder in runs))
    trained = _trained_on(folders, datasets, sequences)
    fitting = [one for one in trained if one.reason is None]
    if not fitting:
        raise ConfigError(f"{trained[0].run}: dataset {trained[0].name}: {trained[0].reason}")
    evaluated = _evaluated(evaluations, folders, fitting)
    _require_one_tokenizer([*_opened(fitting), *(one.dataset for one in evaluated.values())])
    folder = output or folders[0] / FOLDER
    with making(folder, "--output"):  # before hours of training, not after
        make_folder((folder / MODELS).absolute())
    pieces = tokenizer_of(folders[0]).codec.piece_bytes()
    num_bytes = np.array([len(piece) for piece in pieces], np.int64)
    session = _Session.begin(start, settings, fitting, evaluated, num_bytes, folder / MODELS, save=save)
    progress = Progress(None, stream)
    records: list[ContinuedContent] = []
    try:
        for one in trained:
            batch = progress.start("compare", one.name, total=settings.seeds)
            records.append(session.measured(one, batch))
            batch.end()
    finally:
        progress.close()
    report = session.report(folders, records)
    with disk_faults(folder):
        write_comparison(folder, report, render_continued(report))
        for name, picture in draw_pictures(report).items():
            (folder / name).write_text(picture, encoding="utf-8")
    return {**report, "output": str(folder)}


def _trained_on(
    folders: Sequence[Path], datasets: Sequence[str], sequences: Sequence[tuple[str, ...]]
) -> list[_TrainingData]:
    """Return what models are trained on, in the order of the call."""
    named = [name for sequence in sequences for name in sequence]
    asked = tuple(dict.fromkeys(datasets))
    chosen = chosen_datasets(folders, [*asked, *named])
    found: list[_TrainingData] = []
    for folder, run in zip(folders, run_names(folders), strict=True):
        there = chosen[folder]
        single = [name for name in asked if name in there] if asked or named else there
        parts: list[tuple[str, ...]] = [(name,) for name in single]
        parts += [one for one in sequences if all(name in there for name in one)]
        for part in parts:
            shown = " then ".join(part)
            found.append(_open(folder, shown if len(folders) == 1 else f"{run}/{shown}", part))
    if not found:
        raise ConfigError(
            f"--sequence {','.join(sequences[0])}: no run has all of these datasets; name"
            " datasets of one run"
        )
    return found


def _open(run: Path, name: str, datasets: tuple[str, ...]) -> _TrainingData:
    from stages.continuing.supply import why_not_causal  # noqa: PLC0415  # imports torch

    opened, reason = [], None
    for dataset in datasets:
        folder = RunFolder(run).dataset(dataset)
        if SPLITS[0] not in finished_splits(folder):
            return _TrainingData(
                run, name, datasets, (), "it has no training split; finish the run first"
            )
        opened.append(open_dataset(folder, split=SPLITS[0]))
        reason = reason or why_not_causal(opened[-1])
    return _TrainingData(run, name, datasets, tuple(opened), reason)


def _evaluated(
    evaluations: Sequence[str], folders: Sequence[Path], trained: Sequence[_TrainingData]
) -> dict[str, AskedSet]:
    """Return the evaluation sets by name; without any, the first dataset's of every run."""
    from stages.continuing.supply import why_not_causal  # noqa: PLC0415  # imports torch

    found = read_asked(evaluations)
    if not found:
        for run, name in zip(folders, run_names(folders), strict=True):
            own = [run / "datasets" / one.datasets[0] for one in trained if one.run == run]
            if own:
                asked = AskedSet(f"{own[0]}", open_heldout(own[0], f"{own[0]}"))
                found[name.replace("/", "-")] = asked
    for one in found.values():
        if reason := why_not_causal(one.dataset):
            raise ConfigError(f"--evaluate {one.text}: {reason}")
    return found


def _require_one_tokenizer(datasets: Sequence[ShardDataset]) -> None:
    first = datasets[0]
    for other in datasets[1:]:
        if other.manifest.tokenizer.sha256 != first.manifest.tokenizer.sha256:
            raise ConfigError(
                f"{other.folder}: made with another tokenizer than {first.folder}, so one checkpoint"
                " cannot read both; compare runs with the same tokenizer, one call for each"
            )


@dataclass(frozen=True, eq=False)
class _Session:
    """What all models of a call have in common."""

    start: Path
    settings: ContinueSettings
    evaluated: dict[str, AskedSet]
    sets: "dict[str, MeasuredSet]"
    machine: "Machine"
    model: dict[str, Any]
    common: dict[str, Any]
    """All that decides what comes out, except dataset and seed."""
    kept: Path
    """Folder of what models came to."""
    save: bool
    """Whether the trained models are kept."""

    @classmethod
    def begin(  # what a call was asked, and the bytes of each id
        cls,
        start: Path,
        settings: ContinueSettings,
        trained: Sequence[_TrainingData],
        evaluated: dict[str, AskedSet],
        num_bytes: NDArray[np.int64],
        kept: Path,
        *,
        save: bool,
    ) -> "_Session":
        """Read the evaluation sets, and see that the model fits the rows.

        Raises:
            ConfigError: it does not.
        """
        import torch  # noqa: PLC0415  # seconds to import, and only this command needs it here

        from stages.continuing.causal_model import CausalModel  # noqa: PLC0415  # likewise
        from stages.continuing.training import MeasuredSet  # noqa: PLC0415  # likewise
        from stages.verify.training import Machine  # noqa: PLC0415  # likewise

        cuda = torch.cuda.is_available()
        machine = Machine("cuda" if cuda else "cpu", bfloat16=cuda)
        every = [*_opened(trained), *(one.dataset for one in evaluated.values())]
        model = CausalModel(start, seed=1, machine=machine)
        longest = max(_longest(dataset.manifest) for dataset in every)
        model.require_fit(vocab_size=len(num_bytes), longest=longest)
        tokens = settings.evaluation_tokens
        sets = {
            name: MeasuredSet(heldout_rows(one, most_tokens=tokens), num_bytes)
            for name, one in evaluated.items()
        }
        common = {
            "version": _VERSION,
            "settings": settings.model_dump(exclude={"seeds"}),
            "evaluations": {
                name: [one.dataset.fingerprint, one.column, one.value] for name, one in evaluated.items()
            },
            "checkpoint": _digests(start),
            "machine": asdict(machine),
            "libraries": {name: version(name) for name in ("torch", "transformers")},
        }
        return cls(start, settings, evaluated, sets, machine, asdict(model.facts), common, kept, save)

    def measured(self, one: _TrainingData, batch: BatchProgress) -> ContinuedContent:
        """Measure the models of a dataset or a sequence, or say why there are none."""
        from stages.continuing.training import TrainingData  # noqa: PLC0415  # as above

        about: ContinuedContent = {
            "name": one.name,
            "run": str(one.run),
            "datasets": list(one.datasets),
            "fingerprints": [dataset.fingerprint for dataset in one.opened],
        }
        if one.reason is not None:
            return {**about, "reason": one.reason}
        course = TrainingData(self.start, one.opened, self.sets)
        models: list[dict[str, Any]] = []
        for seed in range(1, self.settings.seeds + 1):
            try:
                models.append(self._model(course, about, seed))
            except DataError as error:  # of another dataset there may be much to say
                return {**about, "reason": str(error)}
            batch.advance(more=False)
        passes = [float(np.mean(some)) for some in zip(*(one["passes"] for one in models), strict=True)]
        means = {name: _means(models, name) for name in self.sets}
        device = self.machine.device
        return {**about, "device": device, "passes": passes, "mean": means, "models": models}

    def _model(self, course: "TrainingData", about: ContinuedContent, seed: int) -> dict[str, Any]:
        """Return what a model came to, in this call or in an earlier one."""
        from stages.continuing.training import train_on  # noqa: PLC0415  # as above

        decides = {**self.common, "datasets": about["fingerprints"], "seed": seed}
        place = self.kept / f"{hashlib.sha256(canonical_json(decides)).hexdigest()[:24]}.json"
        weights = self.kept.parent / WEIGHTS / about["name"].replace(" ", "-") / f"seed-{seed}"
        save = weights if self.save else None
        try:
            if save is None or (save / place.name).exists():
                content: dict[str, Any] = json.loads(place.read_bytes())["model"]
                return content
        except (OSError, ValueError, KeyError, TypeError):  # not there, or not whole
            pass
        found = train_on(course, self.settings, seed=seed, machine=self.machine, save=save)
        content = json.loads(json.dumps(asdict(found), allow_nan=False))
        with disk_faults(self.kept):
            replace_file(place, json.dumps({"of": decides, "model": content}).encode() + b"\n")
            if save is not None:  # last: says whose weights lie here
                (save / place.name).write_bytes(place.read_bytes())
        return content

    def report(self, folders: Sequence[Path], records: list[ContinuedContent]) -> ContinuedReport:
        """Return what came out, with what all models have in common."""
        models = [model for record in records for model in record.get("models", ())]
        if not models:
            raise DataError("; ".join(f"{record['name']}: {record['reason']}" for record in records))
        firsts = [model["measurements"][0]["losses"] for model in models]
        return {
            "format_version": _VERSION,
            "start": str(self.start),
            "model": self.model,
            "settings": self.settings.model_dump(),
            "runs": {name: str(run) for name, run in zip(run_names(folders), folders, strict=True)},
            "evaluations": {name: self._evaluation(name) for name in self.sets},
            "before": {
                name: {
                    "nats": mean_of([one[name]["nats"] for one in firsts]),
                    "bits": mean_of([one[name]["bits"] for one in firsts]),
                }
                for name in self.sets
            },
            "datasets": records,
        }

    def _evaluation(self, name: str) -> EvaluationContent:
        from stages.verify.rows import NO_LABEL, predicted_labels  # noqa: PLC0415  # with torch

        asked, one = self.evaluated[name], self.sets[name]
        targets = predicted_labels(one.rows)
        targets = targets[targets != NO_LABEL]
        return {
            "folder": str(asked.dataset.folder.parent),
            "documents": f"{asked.column} {asked.value}" if asked.column else "all",
            "fingerprint": asked.dataset.fingerprint,
            "tokens": len(targets),
            "bytes": int(one.num_bytes[targets].sum()),
        }


def _opened(trained: Sequence[_TrainingData]) -> list[ShardDataset]:
    return [one for part in trained for one in part.opened]


def _longest(manifest: Manifest) -> int:
    """Return the most tokens of a row."""
    return max(manifest.seq_len, *(one.shape[0] for one in manifest.columns.values() if one.shape))


def _digests(start: Path) -> dict[str, str]:
    """Return the digests of a checkpoint's config and weights."""
    names = sorted(one.name for one in start.iterdir() if one.suffix in (*_WEIGHTS, ".json"))
    return {name: digest_file(start / name).sha256 for name in names}


def _means(models: Sequence[dict[str, Any]], name: str) -> MeanLossContent:
    """Return means and deviations over the seeds, of an evaluation set."""
    last = [model["measurements"][-1]["losses"][name] for model in models]
    first = [model["measurements"][0]["losses"][name]["nats"] for model in models]
    seen = [share for model in models if (share := model["seen"][name]) is not None]
    return {
        "nats": mean_of([one["nats"] for one in last]),
        "bits": mean_of([one["bits"] for one in last]),
        "change": mean_of([one["nats"] - start for one, start in zip(last, first, strict=True)]),
        "seen": mean_of(seen) if seen else None,
    }
