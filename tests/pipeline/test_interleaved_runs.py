"""What a run with `mix.interleave = "exact"` promises.

Every row is of one source, whatever the objective and the packing, and windows of an epoch have the
sources' shares. Rows held out, and datasets without it, are as they would be without. Numbers of rows
that are not those of the shards are found.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from pipeline.engine.tasks import Workspace
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.records import CheckRecord
from pipeline.steps.shard.merge import Copies
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.units import units_of
from pipeline.steps.verify.check import checks_of
from pipeline.steps.verify.settings import Settings
from stages.export.rows import row_notes
from stages.export.source import open_source
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.clm.config import CausalLM
from stages.store.manifest import MANIFEST_NAME, Manifest, read_manifest, write_manifest
from tests.conftest import bundled_lines, digests
from tests.laws.tiny_run import tiny_run

SOURCES = [
    {"name": "prose", "paths": ["prose.jsonl"], "language": {"column": "lang"}},
    {"name": "code", "paths": ["code.jsonl"], "language": {"column": "lang"}, "epochs": 2},
]
EXACT, SHUFFLED = {"interleave": "exact"}, {"interleave": "shuffle"}
DATASETS: list[dict[str, Any]] = [
    {"name": "clm", "mix": EXACT},
    {"name": "document", "packing": {"seq_len": 64, "shards": 2, "strategy": "document"}},
    {"name": "ul2", "objective": {"kind": "ul2"}},
    {"name": "permuted", "objective": {"kind": "bart", "permute_probability": 0.5}},
    {"name": "shuffled", "mix": SHUFFLED},
]


def file_of(**changes: Any) -> RunFile:
    """Return a run whose datasets are dealt, but for one."""
    whole = [{"objective": {"kind": "clm"}, "materialized_epochs": 1, **one} for one in DATASETS]
    return tiny_run(**{"sources": SOURCES, "mix": EXACT, "datasets": whole, **changes})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some bundled texts and programs."""
    folder = tmp_path_factory.mktemp("interleaved")
    for name, pattern in (("prose", "text/*"), ("code", "code/*")):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(bundled_lines(pattern, 14)[:14]))
    return folder


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over them that was verified."""
    output = tmp_path_factory.mktemp("run") / "run"
    report = run_session(RunRequest(file_of(), corpus, output, 0), stream=None)
    assert report["passed"], report["verify"]
    return output


@pytest.mark.parametrize(("name", "said"), [("clm", "of train are dealt"), ("shuffled", "shuffle them")])
def test_an_export_of_rows_says_what_shuffling_them_loses(made: Path, name: str, said: str) -> None:
    splits = [open_source(made / "datasets" / name, split=split) for split in ("train", "validation")]
    assert said in row_notes(splits)[0]


def tokens_by_source(rows: ShardDataset) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the tokens of each source in each stored row, (R, 2), as the shards list documents."""
    found = []
    for shard in rows.manifest.shards:
        folder = rows.folder / shard.path
        sources = pq.read_table(folder / "documents.parquet").column("source").to_pylist()
        code = np.array([source == "code" for source in sources])
        ptr, doc, length = (
            np.load(folder / "segments" / f"{name}.npy") for name in ("row_ptr", "doc", "length")
        )
        tokens = np.zeros((shard.rows, 2), np.int64)
        np.add.at(
            tokens, (np.repeat(np.arange(shard.rows), np.diff(ptr)), code[doc].astype(int)), length
        )
        found.append(tokens)
    return np.concatenate(found)


@pytest.mark.parametrize("name", ["clm", "document", "ul2", "permuted"])
def test_every_row_is_of_one_source_and_every_window_has_the_shares(made: Path, name: str) -> None:
    rows = open_dataset(made / "datasets" / name)
    tokens = tokens_by_source(rows)
    assert ((tokens > 0).sum(axis=1) == 1).all()
    order = rows._orders.get(0, rows._order).rows(np.arange(len(rows)))  # noqa: SLF001  # as it is read
    assert sorted(order.tolist()) == list(range(len(rows)))
    window = len(rows) // 2
    code = np.concatenate([[0], np.cumsum(tokens[order, 1] > 0)])
    off = code[window:] - code[:-window] - window * code[-1] / len(rows)
    assert np.abs(off).max() < 2
    said = [shard.source_rows or {} for shard in rows.manifest.shards]
    assert sum(sum(one["code"]) for one in said if "code" in one) == code[-1]


def test_held_out_rows_and_other_datasets_have_no_sources(made: Path) -> None:
    for folder in (made / "datasets" / "clm" / "validation", made / "datasets" / "shuffled" / "train"):
        manifest = read_manifest(folder)
        assert manifest.interleave == "shuffle"
        assert {shard.source_rows for shard in manifest.shards} == {None}
    held_out = [
        digests(made / "datasets" / name, "validation/epoch-0000") for name in ("clm", "shuffled")
    ]
    assert held_out[0] == held_out[1]


def _exchanged(manifest: Manifest) -> Iterator[Manifest]:
    """Yield manifests whose numbers of rows are not those of the shard, but add up."""
    shard = manifest.shards[0]
    rows = shard.source_rows or {}
    first, second = sorted(rows)
    for said in (
        {first: rows[second], second: rows[first]},
        {"elsewhere": rows[first], second: rows[second]},
        {first: rows[first][::-1], second: rows[second]},
    ):
        changed = shard.model_copy(update={"source_rows": said})
        shards = (changed, *manifest.shards[1:])
        yield manifest.model_copy(update={"shards": shards}).signed()


def test_numbers_of_rows_that_are_not_those_of_the_shards_are_found(made: Path, tmp_path: Path) -> None:
    commits = {step: dict(Commits(LocalStorage(made)).all(step)) for step in ("ingest", "split")}
    units = units_of(commits["ingest"][STEP_COMMIT].read(IngestRecord).units)
    shards = commits["split"][STEP_COMMIT].read(SplitRecord).shards
    file = file_of()
    rows = RowSettings(CausalLM(), file.packing, file.seed, interleave="exact")
    settings = Settings(rows, 1, copies=Copies("clm", {}, file.seed))
    checks = {name: (check, of) for name, check, of in checks_of("clm", settings, units, shards)}
    check, of = checks["shard-train-00000"]
    folder, space = made / "datasets" / "clm" / "train", Workspace(made, tmp_path)
    sound = read_manifest(folder)
    try:
        for manifest in (sound, *_exchanged(sound)):
            write_manifest(folder / MANIFEST_NAME, manifest)
            record = check(space, of)
            assert isinstance(record, CheckRecord)
            found = {one.check for one in record.findings} - {
                "manifest"
            }  # epochs on disk name the old one
            assert found == (set() if manifest is sound else {"source_rows"})
    finally:
        write_manifest(folder / MANIFEST_NAME, sound)


def test_objectives_that_pair_documents_are_refused() -> None:
    for kind in ("nsp", "sop"):
        with pytest.raises(
            ValidationError, match=r'interleave = "exact": kind = .* lays out whole shards'
        ):
            file_of(datasets=[{"name": "pairs", "objective": {"kind": kind}, "materialized_epochs": 1}])
