"""What law 2 promises: nothing is lost in silence, from the input's records to the rows.

Faults are planted into finished runs: into committed files as they are, and into evidence whose commit
then vouches for it, so that digests pass and only the sums can give the fault away.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.session.verifying import verify_session
from pipeline.state.ledger import checked_flow, read_flows
from pipeline.steps.run_folder import RunFolder
from stages.errors import DataError, ShardmillError, VerificationError
from stages.ledger import Flow, Tally
from tests.campaign import some_of
from tests.conftest import digests, run_small
from tests.material.commit_seals import vouched

DATASETS = [
    {"name": "clm", "materialized_epochs": 1},
    {"name": "sop", "objective": {"kind": "sop"}},
]
SETTINGS: dict[str, Any] = {
    "datasets": DATASETS,
    "tokenizer": {"train": {"vocab_size": 1024, "sample_size": "256KiB"}},
    "verify": {"learning": False},
}
UNITS = ("dedup", "split", "tokenize", "sentences")
"""Steps whose units are those of ingest."""


@pytest.fixture(scope="module")
def finished(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run through every step, for reading only."""
    output = tmp_path_factory.mktemp("finished") / "run"
    assert again(small_corpus, output)["passed"]
    return output


def again(corpus: Path, output: Path, **options: Any) -> Any:
    """Run, or run again, through every step unless told otherwise."""
    until = options.pop("until", None)
    return run_small(corpus, output, **SETTINGS, until=until, **options)


@pytest.fixture
def own(finished: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def committed(run: Path) -> dict[str, tuple[Path, str]]:
    """Return every committed file by its key: the commit that names it, and its step."""
    return {
        key: (path, path.parent.name)
        for path in sorted((run / "commits").rglob("*.json"))
        for key in json.loads(path.read_bytes())["files"]
    }


def vouch(run: Path, key: str) -> None:
    """Make the commit of a file vouch for it as it is now."""
    for path, data in vouched(run, {key}).items():
        path.write_bytes(data)


def named(run: Path) -> set[tuple[str, str]]:
    """Verify in this process; return the (file, check) of every finding about the run's files."""
    report = verify_session(run, workers=0, address=None, stream=None)
    assert report["passed"] is False
    assert report["audit"] is not None
    return {(finding["file"], finding["check"]) for finding in report["audit"]["findings"]}


def kinds(run: Path) -> Iterator[str]:
    """Yield one committed file of each kind: of each step and each name."""
    seen = set()
    for key, (_, step) in committed(run).items():
        kind = (step, key.split("/")[0], key.split("/")[1] if step == "dedup" else "", Path(key).name)
        if kind not in seen:
            seen.add(kind)
            yield key


def test_every_step_has_flows_and_takes_what_the_one_before_let_out(finished: Path) -> None:
    plan = RunFolder(finished).plan.steps
    flows = {name: read_flows(finished, name) for name in ("ingest", *UNITS)}
    for name, before in zip(UNITS, ("ingest", "dedup", "dedup", "tokenize"), strict=True):
        let_out = {unit: flow.output for unit, flow in flows[before].items()}
        assert checked_flow(name, flows[name], let_out).input.documents > 200
    for name in ("shard-clm", "shard-sop", "draw-clm", "draw-sop"):
        assert name in plan
        assert checked_flow(name, read_flows(finished, name)).faults() == []
    dropped = checked_flow("ingest", flows["ingest"]).gone
    assert {"bad_json", "missing_text", "empty"} <= dropped.keys()
    assert checked_flow("dedup", flows["dedup"]).gone["exact"].documents > 10


@pytest.mark.parametrize("amount", ["documents", "bytes", "tokens", "ids"])
def test_a_step_that_takes_something_else_than_was_let_out_fails(finished: Path, amount: str) -> None:
    flows = read_flows(finished, "tokenize")
    before = {unit: flow.output for unit, flow in read_flows(finished, "dedup").items()}
    unit = next(unit for unit, flow in flows.items() if flow.input.documents > 1)
    other = "1" * 32 if amount == "ids" else (getattr(flows[unit].input, amount) or 0) + 1
    if amount == "tokens":
        flows = read_flows(finished, "sentences")
        before = {name: flow.output for name, flow in read_flows(finished, "tokenize").items()}
    before[unit] = before[unit].model_copy(update={amount: other})
    with pytest.raises(VerificationError, match=f"unit {unit}: received"):
        checked_flow("tokenize", flows, before)


def test_a_unit_that_one_of_two_steps_does_not_know_fails(finished: Path) -> None:
    flows = read_flows(finished, "tokenize")
    before = {unit: flow.output for unit, flow in flows.items()}
    unit = next(iter(before))
    with pytest.raises(VerificationError, match="unknown to the step before"):
        checked_flow("tokenize", flows, {name: tally for name, tally in before.items() if name != unit})
    with pytest.raises(VerificationError, match="unknown to tokenize"):
        checked_flow("tokenize", {name: flow for name, flow in flows.items() if name != unit}, before)


def test_a_flow_of_a_unit_that_does_not_add_up_fails() -> None:
    lost = Flow(input=Tally(documents=3), output=Tally(documents=2))
    with pytest.raises(VerificationError, match="step x, unit u: received 3 documents, not 2"):
        checked_flow("x", {"u": lost})


def zero_masks(run: Path) -> list[str]:
    """Let no document through; return the masks."""
    masks = sorted((run / "dedup" / "keep").rglob("*.npy"))
    for path in masks:
        np.save(path, np.zeros_like(np.load(path)))
    return [path.relative_to(run).as_posix() for path in masks]


def test_masks_that_let_nothing_through_stop_the_next_step(small_corpus: Path, tmp_path: Path) -> None:
    deduplicated = tmp_path / "run"
    again(small_corpus, deduplicated, until="dedup")
    zeroed = zero_masks(deduplicated)
    with pytest.raises(DataError, match=r"dedup/keep/.*XXH3 .*--replace"):
        again(small_corpus, deduplicated)
    for key in zeroed:
        vouch(deduplicated, key)
    with pytest.raises(
        VerificationError, match=r"received 0 documents, not .*that the step before let out"
    ):
        again(small_corpus, deduplicated)


def test_a_finished_run_names_each_missing_or_cut_file(small_corpus: Path, own: Path) -> None:
    keys = list(kinds(own))
    assert len(keys) > 30
    for number, key in enumerate(some_of(keys, 11)):
        place = own / key
        data = place.read_bytes()
        place.unlink()
        if number % 2:
            place.write_bytes(data[:-1])
        if key.startswith("scan/"):  # what is known of the inputs is found out again
            assert again(small_corpus, own)["passed"]
            assert place.read_bytes() == data
            continue
        with pytest.raises(DataError, match="committed with") as error:
            again(small_corpus, own)
        assert str(place) in str(error.value)
        place.write_bytes(data)
    assert again(small_corpus, own)["passed"]


def test_replace_makes_damaged_files_and_all_after_them_anew(
    small_corpus: Path, finished: Path, own: Path
) -> None:
    (own / "dedup" / "removed.parquet").unlink()
    zero_masks(own)
    for flipped in (next((own / "tokens").rglob("ids.npy")), next((own / "scan").rglob("*.npy"))):
        data = bytearray(flipped.read_bytes())
        data[-1] ^= 1
        flipped.write_bytes(bytes(data))
    assert again(small_corpus, own, replace=True)["passed"]
    assert digests(own) == digests(finished)


def test_each_file_that_a_later_step_reads_is_compared_before_it_is_read(
    small_corpus: Path, own: Path
) -> None:
    """Later steps are forgotten, so that they read the files of the earlier ones again."""
    for name in ("shard-clm", "shard-sop", "draw-clm", "draw-sop", "verify-clm", "verify-sop", "decode"):
        shutil.rmtree(own / "commits" / name)
    read = ("ingest/", "dedup/keep/", "dedup/clusters", "tokenizer/", "split/", "tokens/", "sentences/")
    keys = [key for key in kinds(own) if key.startswith(read)]
    assert len(keys) > 12
    for key in some_of(keys, 5):
        place = own / key
        data = bytearray(place.read_bytes())
        data[-1] ^= 1
        place.write_bytes(bytes(data))
        with pytest.raises(DataError, match="committed with XXH3") as error:
            again(small_corpus, own, until="shard")
        assert str(place) in str(error.value)
        data[-1] ^= 1
        place.write_bytes(bytes(data))


def row_lost(table: pa.Table) -> pa.Table:
    return table.slice(1)


def row_made_up(table: pa.Table) -> pa.Table:
    """Repeat the first row."""
    return pa.concat_tables([table.slice(0, 1), table])


def row_exchanged(table: pa.Table) -> pa.Table:
    """Repeat the first row in the place of the last."""
    return pa.concat_tables([table.slice(0, 1), table.slice(0, table.num_rows - 1)])


EVIDENCE = (
    "ingest/*/*/drops.parquet",
    "ingest/*/*/documents.parquet",
    "dedup/removed.parquet",
    "dedup/clusters.parquet",
    "split/validation.parquet",
    "tokens/*/*/documents.parquet",
    "datasets/clm/train/epoch-0000/*/documents.parquet",
)


CHANGES: tuple[Callable[[pa.Table], pa.Table], ...] = (row_lost, row_made_up, row_exchanged)


def evidence_of(run: Path) -> list[Path]:
    """Return a table of each kind of evidence, of two rows or more."""
    return [
        next(path for path in sorted(run.glob(pattern)) if pq.read_metadata(path).num_rows > 1)
        for pattern in EVIDENCE
    ]


def change_evidence(run: Path, turn: int) -> list[str]:
    """Change all tables, each in one of three ways, and vouch for them; return their keys."""
    tables = evidence_of(run)
    for number, path in enumerate(tables):
        change = CHANGES[(turn + number) % len(CHANGES)]
        pq.write_table(change(pq.read_table(path)), path, compression="zstd")
        vouch(run, path.relative_to(run).as_posix())
    return [path.relative_to(run).as_posix() for path in tables]


@pytest.mark.campaign
def test_evidence_is_held_to_the_sums_however_it_was_changed(own: Path) -> None:
    for turn in range(1, len(CHANGES)):
        kept = {path: path.read_bytes() for path in (own / "commits").rglob("*.json")}
        kept |= {path: path.read_bytes() for path in evidence_of(own)}
        damaged = change_evidence(own, turn)
        assert {(key, "ledger") for key in damaged} <= named(own)
        for path, data in kept.items():
            path.write_bytes(data)
    assert verify_session(own, workers=0, address=None, stream=None)["passed"]


def exchange_special_ids(run: Path) -> str:
    path = run / "tokenizer" / "special_ids.json"
    content = json.loads(path.read_text())
    content["mask"], content["cls"] = content["cls"], content["mask"]
    path.write_text(json.dumps(content, indent=1) + "\n")
    return "tokenizer/special_ids.json"


def change_fairness(run: Path) -> str:
    path = run / "tokenizer" / "fairness.json"
    path.write_text(path.read_text().replace("1", "2"))
    return "tokenizer/fairness.json"


def link_to_a_copy(run: Path) -> str:
    place = next((run / "tokens").rglob("ids.npy"))
    place.rename(run / "elsewhere.npy")
    place.symlink_to(run / "elsewhere.npy")
    return place.relative_to(run).as_posix()


def add_a_stray_shard(run: Path) -> str:
    shard = run / "datasets" / "clm" / "train" / "epoch-0000"
    shutil.copytree(shard / "00000", shard / "00007")
    return "datasets/clm/train/epoch-0000/00007/input_ids.npy"


def test_verify_names_evidence_that_is_off_the_sums_and_what_no_dataset_speaks_of(own: Path) -> None:
    """All at once, each in a file of its own; a user's own files beside them are no findings.

    A campaign changes each table of evidence in each way.
    """
    wanted = {(key, "ledger") for key in change_evidence(own, 0)}
    plants = (exchange_special_ids, change_fairness, link_to_a_copy)
    wanted |= {(plant(own), "files") for plant in plants} | {(add_a_stray_shard(own), "stray")}
    users = {"datasets/clm/README.md", "notes.txt"}
    for name in users:
        (own / name).write_text("mine")
    found = named(own)
    assert wanted <= found, wanted - found
    assert not users & {file for file, _ in found}


def test_verify_names_damage_to_a_dataset_that_is_planned_no_more(small_corpus: Path, own: Path) -> None:
    fewer = {**SETTINGS, "datasets": DATASETS[:1]}
    run_small(small_corpus, own, **fewer, until="draw", replace=True)
    key = "datasets/sop/train/dataset.json"
    (own / key).unlink()
    assert named(own) == {(key, "files")}


def test_verify_names_settings_that_do_not_give_the_run_s_own_fingerprints(own: Path) -> None:
    path = own / "run.json"
    content = json.loads(path.read_text())
    content["run"]["dedup"]["minhash"]["threshold"] = 0.7
    path.write_text(json.dumps(content))
    with pytest.raises(
        ShardmillError, match=r"run\.json: plan: it was changed: the fingerprint of step dedup does not"
    ):
        verify_session(own, workers=0, address=None, stream=None)
