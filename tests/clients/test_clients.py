"""What the comparison with real clients promises: it knows every format, and finds every difference.

`make clients` itself installs packages, so it is no test; the client here is nanoGPT, which is in none.
"""

import importlib
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from stages.export.source import open_source
from stages.export.table import FORMATS
from tests.conftest import run_small
from tests.stages.export.rows_on_disk import write_export

CLIENTS = Path(__file__).resolve().parents[2] / "clients"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `clients/run.py`, imported as its own folder lets it."""
    monkeypatch.syspath_prepend(CLIENTS)
    return importlib.import_module("run")


def write_nanogpt(dataset: Path, folder: Path) -> None:
    """Write nanoGPT's files of both splits."""
    for split in ("train", "validation"):
        write_export(FORMATS["nanogpt"], open_source(dataset, split=split), folder / split)
        (path,) = (folder / split).glob("*.bin")
        path.rename(folder / path.name)


@pytest.fixture(scope="module")
def mixed(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with copies of one source and a part of another, and nanoGPT's files in it."""
    output = tmp_path_factory.mktemp("mixed") / "run"
    common = {"id_column": "id", "language": {"column": "lang"}}
    sources = [
        {"name": "repeated", "paths": ["a.jsonl"], **common},
        {"name": "cut", "paths": ["b.jsonl.gz"], **common},
    ]
    shares = {"repeated": {"epochs": 2.5}, "cut": {"share": 0.2}}
    mix = {"tolerance": 0.2, "sources": shares}
    run_small(small_corpus, output, sources=sources, datasets=[{"name": "clm", "mix": mix}])
    (output / "export").mkdir()
    write_nanogpt(output / "datasets" / "clm", output / "export")
    return output


def compare_mix(scripts: ModuleType, run: Path) -> tuple[str, str]:
    """Return what nanoGPT found by source, and the verdict."""
    (client,) = (client for client in scripts.CLIENTS if client.reader == "nanogpt")
    dataset = run / "datasets" / "clm"
    _, found, verdict = scripts.compare(Path(sys.executable), client, "nanogpt", run / "export", dataset)
    return found, verdict


def borders(run: Path) -> tuple[list[str], list[int]]:
    """Return the source of each training document, and where in the stream it ends."""
    tables = [
        pq.read_table(path, columns=["source", "tokens"])
        for path in sorted((run / "datasets" / "clm" / "train").glob("*/*/documents.parquet"))
    ]
    documents = pa.concat_tables(tables)
    return documents["source"].to_pylist(), np.cumsum(documents["tokens"].to_numpy()).tolist()


def say(run: Path, source: str, *, documents: int = 0, tokens: int = 0) -> str:
    """Return the counts of a source by the plan of the mix, with a change, in words."""
    plan = pq.read_table(run / "mix" / "clm.parquet")
    rows = plan.filter(pc.equal(plan["source"], source))
    number, size = (pc.sum(rows[name]).as_py() for name in ("documents", "tokens"))
    return f"{number + documents:,} documents, {size + tokens:,} tokens"


def test_every_format_is_read_by_a_client(scripts: ModuleType) -> None:
    read = [format_ for client in scripts.CLIENTS for format_ in client.formats]
    assert sorted(read) == sorted(FORMATS)


def test_every_client_has_its_reader_and_every_reader_its_client(scripts: ModuleType) -> None:
    readers = {path.stem for path in (CLIENTS / "readers").glob("*.py")} - {"answers"}
    assert readers == {client.reader for client in scripts.CLIENTS}


def test_every_client_is_installed_in_one_version(scripts: ModuleType) -> None:
    for client in scripts.CLIENTS:
        pins = [
            pin for pin in (*client.alone, *client.requirements) if pin.startswith(f"{client.name}==")
        ]
        assert len(pins) == bool(client.name), client


@pytest.mark.slow
def test_documents_and_tokens_of_a_mix_are_counted_by_source(scripts: ModuleType, mixed: Path) -> None:
    plan = pq.read_table(mixed / "mix" / "clm.parquet").to_pylist()
    more = {row["source"]: 0 for row in plan}
    for row in plan:
        more[row["source"]] += row["documents"] - row["available_documents"]
    assert more["repeated"] > 0 > more["cut"]
    assert compare_mix(scripts, mixed) == (
        f"cut {say(mixed, 'cut')}; repeated {say(mixed, 'repeated')}",
        "equal",
    )


@pytest.mark.campaign
@pytest.mark.slow
def test_a_copy_that_an_export_lacks_is_missed_in_its_source(
    scripts: ModuleType, mixed: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(mixed, tmp_path / "run")
    sources, ends = borders(run)
    last = sources[-1]
    ids = np.fromfile(run / "export" / "train.bin", "<u2")
    ids[: ends[-2]].tofile(run / "export" / "train.bin")
    _, verdict = compare_mix(scripts, run)
    found = say(run, last, documents=-1, tokens=ends[-2] - ends[-1])
    for whose in ("the dataset", "the plan of its mix"):
        assert f"train stream: {last} {found}, not {say(run, last)} as {whose} has" in verdict


@pytest.mark.campaign
@pytest.mark.slow
def test_a_token_that_goes_to_a_document_of_another_source_is_found(
    scripts: ModuleType, mixed: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(mixed, tmp_path / "run")
    sources, ends = borders(run)
    at = next(at for at, source in enumerate(sources) if source != sources[at + 1])
    ids = np.fromfile(run / "export" / "train.bin", "<u2")
    ids[[ends[at] - 1, ends[at]]] = ids[[ends[at], ends[at] - 1]]
    ids.tofile(run / "export" / "train.bin")
    _, verdict = compare_mix(scripts, run)
    for source, tokens in ((sources[at], 1), (sources[at + 1], -1)):
        found = say(run, source, tokens=tokens)
        assert f"train stream: {source} {found}, not {say(run, source)} as the dataset has" in verdict


@pytest.mark.slow
def test_tokens_that_differ_and_a_dataset_that_is_not_what_its_plan_promises_are_found(
    scripts: ModuleType, mixed: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(mixed, tmp_path / "run")
    for name, place in {"train.bin": -3, "val.bin": 5}.items():
        ids = np.fromfile(run / "export" / name, "<u2")
        ids[place] ^= 1
        ids.tofile(run / "export" / name)
    path = run / "mix" / "clm.parquet"
    plan = pq.read_table(path)
    place = plan.column_names.index("documents")
    more = pc.add(plan["documents"], pa.array([1] + [0] * (len(plan) - 1)))
    pq.write_table(plan.set_column(place, "documents", more), path)
    source = plan["source"][0].as_py()
    _, verdict = compare_mix(scripts, run)
    train, mix, validation = verdict.removeprefix("DIFFERS: ").split("; ")
    wanted = f"not {say(run, source)} as the plan of its mix has"
    assert mix == f"train stream: {source} {say(mixed, source)}, {wanted}"
    assert train.startswith("train stream: sha256 ")
    assert validation.startswith("validation stream: sha256 ")


def test_two_of_the_datasets_that_clients_read_have_a_mix_of_two_sources() -> None:
    content = tomllib.loads((CLIENTS / "clients.toml").read_text())
    mixes = {each["name"]: each.get("mix") for each in content["datasets"]}
    assert {name for name, mix in mixes.items() if mix} == {"clm", "sop"}
    assert {source["name"] for source in content["sources"]} == {"help", "books"}


def test_every_trainer_has_its_script_one_version_and_known_formats(scripts: ModuleType) -> None:
    shared = {"hugging_face", "stubs", "watched"}
    names = {path.stem for path in (CLIENTS / "trainers").glob("*.py")} - shared
    assert names == {trainer.script for trainer in scripts.TRAINERS if not trainer.cannot}
    for trainer in scripts.TRAINERS:
        pins = [
            pin for pin in (*trainer.alone, *trainer.requirements) if pin.startswith(f"{trainer.name}==")
        ]
        assert len(pins) == (not trainer.cannot), trainer
        assert {format_ for format_, _ in trainer.cases} <= {*FORMATS, scripts.NATIVE}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda told: told, None),
        (lambda told: told | {"losses": told["losses"][::-1]}, "the loss does not fall"),
        (lambda told: told | {"losses": told["losses"][1:]}, "19 steps, not 20"),
        (lambda told: told | {"fed": ["0" * 16, *told["fed"][1:]]}, "1 of the 160 rows fed are not"),
        (lambda told: told | {"fed": told["fed"][1:]}, "159 rows were fed, not 160"),
        (lambda told: told | {"epoch": [*told["epoch"], told["epoch"][0]]}, "of an epoch are not"),
        (lambda told: told | {"epoch": told["epoch"][8:]}, "are missing from an epoch"),
        (lambda told: told | {"error": "KeyError: 'labels'"}, "KeyError: 'labels'"),
    ],
)
def test_a_training_on_other_rows_is_found(
    change: Callable[[dict[str, Any]], dict[str, Any]],
    fault: str | None,
    scripts: ModuleType,
    reference: Path,
) -> None:
    native = scripts.NativeSplit(reference / "datasets" / "clm" / "train")
    training = importlib.import_module("training")
    fields = ["input_ids", "labels"]
    rows = training.wanted_digests(native, "rows", fields, None)
    losses = [8 - step / 10 for step in range(training.STEPS)]
    fed = rows[: training.STEPS * training.BATCH_SIZE]
    assert len(fed) == 160
    told = {"unit": "rows", "fields": fields, "losses": losses, "fed": fed, "epoch": rows, "order": None}
    faults = "; ".join(training.find_faults(change(told), native))
    assert fault in faults if fault else not faults
