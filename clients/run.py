"""Every export, read by the real client, and trained on by trainers: `make clients`.

    python clients/run.py --cache CACHE [--only NAME]

Runs the pipeline on a part of the bundled corpus, exports its datasets in every format, makes an
environment for each client, lets the client read the files, and holds what it found to what the dataset
holds: sequences, documents, the SHA-256 of all ids in order, and documents and tokens by source. These
two are also held to the plan, if the dataset has a mix. Then trainers train some steps with their own
loaders, see training.py. Prints two tables; the exit code is 1 if anything differs or nothing was
compared. Exports are always made anew. A client or a trainer that cannot be installed here is named,
with the reason.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from environments import NotInstalledError, make_environment
from native import NativeSplit
from sources import count_found, describe_counts, find_source_faults
from table import CLIENTS, TRAINERS, Client, Trainer
from training import NATIVE, Trained, describe_training, export_bytes, let_train

from stages.export.format import FormatContents
from stages.export.table import FORMATS

HERE = Path(__file__).resolve().parent
ROWS = ("clm", "t5", "sop", "simcse")
"""The datasets of whose rows columns are compared: one for each layout of columns."""
ROW_FORMATS = [known.name for known in FORMATS.values() if known.holds is FormatContents.ROWS]
DATASETS = {"megatron-sentences": ("sop",)} | dict.fromkeys(ROW_FORMATS, ROWS)
"""Which datasets are exported in a format, where it is not clm alone."""
EXTRA_TOKEN = {"datatrove", "litdata"}
"""Formats whose trainers read windows of one token more than the model sees."""
CUT = ("stream", "segment_ids")
"""What a client cuts into documents, or into pieces of them, whose lengths are counted by source."""
TITLES = (
    "client",
    "version",
    "format",
    "compared, of train; validation likewise",
    "by source, of train",
    "sha256 and counts",
)
TRAINED_TITLES = (
    "trainer",
    "version",
    "format",
    "steps",
    "first loss",
    "last loss",
    "fed, of an epoch of its loader",
    "bytes a token",
    "rows and loss",
)
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    client: str
    version: str
    format: str
    compared: str
    sources: str
    verdict: str


def main() -> int:
    """Compare everything, print the table, and give the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cache", type=Path, required=True, help="folder of runs and environments")
    parser.add_argument("--only", help="one client or trainer, by its script's name")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    command(
        "run", str(HERE / "clients.toml"), "--output", str(cache / "run"), "--workers", "0", "--replace"
    )
    lines = []
    for client in CLIENTS:
        if arguments.only in (None, client.reader):
            lines += [*announced(check_client(client, cache))]
    trained = []
    for trainer in TRAINERS:
        if arguments.only in (None, trainer.script, trainer.name):
            trained += [*announced(check_trainer(trainer, cache))]
    print_table(TITLES, lines)
    print_table(TRAINED_TITLES, trained)
    verdicts = [line.verdict for line in (*lines, *trained)]
    return int(any(verdict.startswith("DIFFERS") for verdict in verdicts) or "equal" not in verdicts)


def announced(lines: Iterator[Line | Trained]) -> Iterator[Line | Trained]:
    """Yield lines, each printed in short when it is there."""
    for line in lines:
        print(f"{line.client} {line.version}: {line.format}: {line.verdict}", flush=True)
        yield line


def command(*words: str) -> None:
    """Run Shardmill's command line."""
    subprocess.run([sys.executable, "-m", "pipeline.main", *words], check=True, stdout=sys.stderr)


def check_client(client: Client, cache: Path) -> Iterator[Line]:
    """Yield a line for each export that a client reads."""
    name = client.name or client.reader
    try:
        python = install(cache, client.reader, client)
    except NotInstalledError as error:
        yield Line(name, "", ", ".join(client.formats), "", "", f"could not be installed: {error}")
        return
    version = find_version(python, client.name)
    for format_ in client.formats:
        for dataset in DATASETS.get(format_, ("clm",)):
            to = export(cache, format_, dataset)
            found = compare(python, client, format_, to, cache / "run" / "datasets" / dataset)
            yield Line(name, version, f"{format_} of {dataset}", *found)


def check_trainer(trainer: Trainer, cache: Path) -> Iterator[Trained]:
    """Yield a line for each training."""
    formats = ", ".join(f"{format_} of {name}" for format_, name in trainer.cases)
    refused = Trained(trainer.name, format=formats)
    if trainer.cannot:
        yield replace(refused, verdict=f"cannot run here: {trainer.cannot}")
        return
    try:
        python = install(cache, f"train-{trainer.script}", trainer)
    except NotInstalledError as error:
        yield replace(refused, verdict=f"could not be installed: {error}")
        return
    version = find_version(python, trainer.name)
    for format_, name in trainer.cases:
        dataset = cache / "run" / "datasets" / name
        folder = dataset if format_ == NATIVE else export(cache, format_, name)
        size = export_bytes(folder)  # before trainers write beside it what they make of it
        scratch = cache / "scratch" / f"{trainer.script}-{format_}-{name}"
        told = let_train(python, trainer.script, folder=folder, dataset=dataset, scratch=scratch)
        line = Trained(trainer.name, version, f"{format_} of {name}")
        yield describe_training(line, told, NativeSplit(dataset / "train"), size)


def install(cache: Path, folder: str, client: Client | Trainer) -> Path:
    """Return the python of an environment."""
    constraints = cache / "constraints.txt"
    pins = (HERE.parent / "constraints.txt").read_text().splitlines()
    constraints.write_text("".join(f"{pin}\n" for pin in pins if pin.startswith("torch==")))
    return make_environment(cache / folder, client.alone, client.requirements, constraints=constraints)


def export(cache: Path, format_: str, dataset: str) -> Path:
    """Export a dataset anew; return the folder."""
    to = cache / "exports" / f"{format_}-{dataset}"
    for old in (to, to.with_name(f"{to.name}.partial")):  # of an earlier version, maybe
        shutil.rmtree(old, ignore_errors=True)
    place = ("--dataset", dataset, "--format", format_, "--to", str(to))
    command("export", str(cache / "run"), *place)
    return to


def find_version(python: Path, name: str) -> str:
    """Return the version that is installed, as the client's own environment says."""
    if not name:
        return "its get_batch"
    program = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run(
        [python, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def compare(python: Path, client: Client, format_: str, to: Path, dataset: Path) -> tuple[str, str, str]:
    """Let a client read an export; give what was compared, its sources, and whether all is the same."""
    splits = {path.parent.name: NativeSplit(path.parent) for path in dataset.glob("*/dataset.json")}
    manifest = splits["train"].manifest
    facts = {
        "folder": str(to),
        "format": format_,
        "splits": sorted(splits),
        "seq_len": manifest["seq_len"],
        "id_bytes": int(manifest["columns"]["input_ids"]["dtype"][-1]),
        "special_ids": manifest["special_ids"],
        "vocab_size": manifest["vocab_size"],
    }
    script = HERE / "readers" / f"{client.reader}.py"
    done = subprocess.run(
        [python, "-W", "ignore", script, json.dumps(facts)],
        capture_output=True,
        text=True,
        check=False,
        env={**OFFLINE, "PATH": "/usr/bin:/bin", "HOME": str(to.parent)},
    )
    if done.returncode:
        return "", "", f"DIFFERS: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    answers = json.loads(done.stdout.splitlines()[-1])
    faults = [fault for answer in answers for fault in find_faults(answer, splits, format_)]
    read = {answer["what"] for answer in answers}
    for split, native in splits.items():
        wanted = native.columns(format_) if format_ in ROW_FORMATS else ["stream"]
        faults += [f"{split} {what} was not read" for what in wanted if f"{split} {what}" not in read]
    verdict = "DIFFERS: " + "; ".join(faults) if faults else "equal"
    return describe(answers), describe_sources(answers, splits["train"]), verdict


def find_faults(answer: dict[str, Any], splits: dict[str, NativeSplit], format_: str) -> Iterator[str]:
    """Yield how an answer differs from what the dataset holds."""
    split, what = answer["what"].split(" ", 1)
    native = splits[split]
    window = int(native.manifest["seq_len"]) + (format_ in EXTRA_TOKEN)
    sequences, documents, sha256 = native.answer(what, answer["order"], window=window)
    if what == "stream" and answer["sequences"] is not None:
        sequences = native.num_sentences() if format_ == "megatron-sentences" else documents
    wanted = {"sequences": sequences, "documents": documents, "sha256": sha256}
    for key, value in wanted.items():
        if answer[key] != value:
            yield f"{answer['what']}: {key} {answer[key]}, not {value}"
    if what != "stream" and not answer["sequences"]:
        yield f"{answer['what']}: nothing was read"
    if what in CUT:
        yield from find_source_faults(answer, native)


def describe(answers: list[dict[str, Any]]) -> str:
    """Return what of the train split was compared."""
    parts = []
    for answer in answers:
        split, what = answer["what"].split(" ", 1)
        counts = [f"{answer[key]:,} {key}" for key in ("sequences", "documents") if answer[key]]
        if split == "train":
            parts.append(f"{what} ({', '.join(counts)}) {answer['sha256'][:8]}")
    return "; ".join(parts)


def describe_sources(answers: list[dict[str, Any]], train: NativeSplit) -> str:
    """Return the documents and tokens by source that a client found of the train split."""
    cut = [answer for answer in answers if answer["what"] in {f"train {what}" for what in CUT}]
    return "; ".join(describe_counts(count_found(train, answer)) for answer in cut)


def print_table(titles: tuple[str, ...], lines: Sequence[Line | Trained]) -> None:
    """Print lines as a table in Markdown."""
    print("\n| " + " | ".join(titles) + " |")
    print("|" + "---|" * len(titles))
    for line in lines:
        print("| " + " | ".join(str(getattr(line, field.name)) for field in fields(line)) + " |")


if __name__ == "__main__":
    sys.exit(main())
