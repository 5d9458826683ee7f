"""Trainers that train on our exports: what each was fed, and whether its loss falls.

A trainer gives a digest of each row that it was fed. The same digests are made here of the rows of
`open_dataset`, or of windows of the documents. All that was fed in training must be among them, and an
epoch of the trainer's own loader must be all of them, each as often; only a last batch that is not full
may be missing.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from native import NativeSplit
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
STEPS = 20
BATCH_SIZE = 8
MARGIN = 0.1
"""Nats that the loss must fall, from the mean of the first steps to that of the last."""
ENDS = 3
"""Steps at either end that the loss is averaged over."""
NATIVE = "native"
"""What a case has for a format, if the trainer reads the dataset itself."""
IGNORED = -100


@dataclass(frozen=True)
class Trained:
    """A line of the table of trainers."""

    client: str
    version: str = ""
    format: str = ""
    steps: str = ""
    first_loss: str = ""
    last_loss: str = ""
    fed: str = ""
    bytes_a_token: str = ""
    verdict: str = ""


def let_train(
    python: Path, script: str, *, folder: Path, dataset: Path, scratch: Path
) -> dict[str, Any]:
    """Return what a trainer told, or {"error": its last line}.

    Args:
        python: of the trainer's environment.
        script: in `clients/trainers`.
        folder: of the export; or of the dataset, if the trainer reads that.
        dataset: the folder of the dataset.
        scratch: for what the trainer writes; what is there is removed.
    """
    manifest = NativeSplit(dataset / "train").manifest
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    about = folder / "export.json"
    format_ = json.loads(about.read_text())["identity"]["format"] if about.exists() else NATIVE
    facts = {
        "folder": str(folder),
        "format": format_,
        "objective": manifest["objective"]["kind"],
        "seq_len": manifest["seq_len"],
        "id_bytes": int(manifest["columns"]["input_ids"]["dtype"][-1]),
        "special_ids": manifest["special_ids"],
        "vocab_size": manifest["vocab_size"],
        "steps": STEPS,
        "batch_size": BATCH_SIZE,
        "scratch": str(scratch),
    }
    names = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        [python, "-W", "ignore", HERE / "trainers" / f"{script}.py", json.dumps(facts)],
        capture_output=True,
        text=True,
        check=False,
        env={**names, "PATH": os.defpath, "HOME": str(scratch), "JAX_PLATFORMS": "cpu"},
        cwd=scratch,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def find_faults(told: dict[str, Any], native: NativeSplit) -> Iterator[str]:
    """Yield what is wrong with a training."""
    if "error" in told:
        yield told["error"]
        return
    losses = told["losses"]
    if len(losses) != STEPS:
        yield f"{len(losses)} steps, not {STEPS}"
    if not losses or mean(losses[-ENDS:]) > mean(losses[:ENDS]) - MARGIN:
        yield "the loss does not fall"
    wanted = Counter(wanted_digests(native, told["unit"], told["fields"], told["order"]))
    fed, epoch = Counter(told["fed"]), Counter(told["epoch"])
    if fed.total() < STEPS * BATCH_SIZE:
        yield f"{fed.total()} {told['unit']} were fed, not {STEPS * BATCH_SIZE}"
    if foreign := (fed - wanted).total():
        yield f"{foreign} of the {fed.total()} {told['unit']} fed are not the dataset's"
    if foreign := (epoch - wanted).total():
        yield f"{foreign} of the {epoch.total()} {told['unit']} of an epoch are not the dataset's"
    if (missing := (wanted - epoch).total()) >= BATCH_SIZE:
        yield f"{missing} of {wanted.total()} {told['unit']} are missing from an epoch"


def wanted_digests(
    native: NativeSplit, unit: str, fields: Sequence[str], order: Sequence[int] | None
) -> list[str]:
    """Return the digest of each row that a trainer must be fed in an epoch.

    Args:
        native: the training split.
        unit: what a digest is of, as the trainer says.
        fields: what of a row is hashed.
        order: documents as the trainer drew them, for samples.
    """
    if unit == "rows":
        columns = [native.column(field) for field in fields]
    else:
        length = int(native.manifest["seq_len"])
        taken = length + ("labels" in fields)
        windows = native.windows(unit, taken, order).astype("<i8")
        parts = {"input_ids": windows[:, :length], "labels": windows[:, taken - length :]}
        columns = [parts[field] for field in fields]
    return [*_digests(columns)]


def _digests(columns: Sequence[NDArray[np.integer]]) -> Iterator[str]:
    for row in zip(*(np.ascontiguousarray(column, "<i8") for column in columns), strict=True):
        yield hashlib.sha256(b"".join(values.tobytes() for values in row)).hexdigest()[:16]


def describe_training(line: Trained, told: dict[str, Any], native: NativeSplit, size: int) -> Trained:
    """Return a line with what a training gave.

    Args:
        line: names the trainer and what it read.
        told: what it told.
        native: the training split.
        size: bytes of the files that hold it.
    """
    faults = [*find_faults(told, native)]
    verdict = "DIFFERS: " + "; ".join(faults) if faults else "equal"
    tokens = int(native.manifest["totals"]["tokens"])
    line = replace(line, bytes_a_token=f"{size / tokens:.2f}", verdict=verdict)
    if not told.get("losses"):
        return line
    losses, epoch = told["losses"], f"{len(told['epoch']):,} {told['unit']}"
    return replace(
        line,
        steps=str(len(losses)),
        first_loss=f"{mean(losses[:ENDS]):.2f}",
        last_loss=f"{mean(losses[-ENDS:]):.2f}",
        fed=f"{len(told['fed']):,} of {epoch}: {', '.join(told['fields'])}",
    )


def export_bytes(folder: Path) -> int:
    """Return the bytes of the training split: what lies in `train`, or is called so."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    parts = {path: path.relative_to(folder).parts[0] for path in paths}
    return sum(path.stat().st_size for path, part in parts.items() if part.split(".")[0] == "train")
