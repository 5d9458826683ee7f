"""What the split promises where nothing is removed: equal texts are on one side, whatever the seed.

The corpus repeats most of its texts, within a file and from file to file. The steps are called as the
runner calls them: the sample of the tokenizer, the count of candidates, the choice, the groups of the
token store, and what decode says of them.
"""

import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.planning.plan import plan_steps
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode.check import DecodeUnit, check_texts
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.split.choice import (
    VALIDATION,
    CandidateUnit,
    ValidationChoice,
    choose_validation,
    count_candidates,
)
from pipeline.steps.tokenize.encode import TokenizeUnit, groups_of, tokenize_unit
from pipeline.steps.tokenizer.training import SampleUnit, sample_key, sample_unit
from pipeline.steps.units import Unit, fixed_bytes, units_of
from stages.mixing.placement import ValidationConfig
from stages.packing.layout import PackingConfig
from stages.tokenizer.sampling import sample_parts
from tests.campaign import FULL
from tests.conftest import bundled_lines, run_small, small_run

SEEDS = range(30)
SHARES = (0.05, 0.3, 0.5)
PACKING = PackingConfig(seq_len=64, shards=3)
SOURCE = {"name": "mixed", "paths": ["*.jsonl"], "id_column": "id", "language": {"column": "lang"}}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run up to its tokenizer, of texts that stand up to five times in three files."""
    corpus = tmp_path_factory.mktemp("equal")
    records = [json.loads(line) for line in bundled_lines("text/*", 8)]
    texts = [{**record, "text": record["text"][:300]} for record in records[:36]]
    for name, places in {"a": [0, 1, 1], "b": [0, 2, 2], "c": [1, 0, 3]}.items():
        lines = [text for place in places for text in texts[place * 9 : place * 9 + 9]]
        (corpus / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_small(
        corpus,
        corpus / "run",
        sources=[SOURCE],
        dedup={"exact": False, "near": False},
        tokenizer={"train": {"vocab_size": 1000, "character_coverage": 0.98}},
        until="tokenizer",
    )
    return corpus / "run"


@pytest.fixture(scope="module")
def units(output: Path) -> tuple[Unit, ...]:
    """Of its ingest."""
    commits = dict(Commits(LocalStorage(output)).all("ingest"))
    return units_of(commits[STEP_COMMIT].read(IngestRecord).units)


def workspace_of(output: Path, folder: Path) -> Workspace:
    """Return a workspace with the run's texts, whose tasks read what they have written."""
    for name in ("ingest", "dedup", "tokenizer"):
        if not (folder / name).exists():
            (folder / name).symlink_to(output / name)
    return Workspace(folder, folder)


def split_of(workspace: Workspace, units: tuple[Unit, ...], seed: int, share: float) -> dict[str, int]:
    """Choose what is held out; give the numbers of shards."""
    validation = ValidationConfig(fraction=share, max_tokens=3_000)
    for unit in units:
        count_candidates(workspace, CandidateUnit(unit, validation, seed))
    return choose_validation(
        workspace, ValidationChoice(units, validation, PACKING, seed, 1 << 20, 81)
    ).shards


def sides_of(
    workspace: Workspace, units: tuple[Unit, ...], shards: dict[str, int], seed: int
) -> dict[bytes, list[bool]]:
    """Give, for each text by its digest, of each of its documents whether it is held out."""
    sides: defaultdict[bytes, list[bool]] = defaultdict(list)
    for unit in units:
        table = pq.read_table(workspace.path(unit.table), columns=["id", "digest"])
        work = TokenizeUnit(unit, shards["train"], shards["validation"], seed)
        groups = groups_of(workspace, work, fixed_bytes(table.column("id"), 16))
        for digest, group in zip(table.column("digest").to_pylist(), groups.tolist(), strict=True):
            sides[digest].append(group >= shards["train"])
    return sides


@pytest.mark.parametrize("share", SHARES)
def test_equal_texts_are_on_one_side_of_the_split(
    share: float, output: Path, units: tuple[Unit, ...], tmp_path: Path
) -> None:
    workspace, seen = workspace_of(output, tmp_path), [0, 0]
    for seed in SEEDS if FULL or share < 0.1 else SEEDS[::3]:
        shards = split_of(workspace, units, seed, share)
        sides = sides_of(workspace, units, shards, seed)
        assert len(sides) == 36
        assert max(map(len, sides.values())) == 3
        assert all(len(set(side)) == 1 for side in sides.values()), seed
        for side in sides.values():
            seen[side[0]] += len(side) > 1
    assert min(seen) > 20, "repeated texts are held out, and train"


def test_no_text_that_may_be_held_out_is_in_the_sample(
    output: Path, units: tuple[Unit, ...], tmp_path: Path
) -> None:
    workspace, held_back = workspace_of(output, tmp_path), 0
    for seed in SEEDS[:8]:
        shards = split_of(workspace, units, seed, 0.3)
        sides = sides_of(workspace, units, shards, seed)
        sampled: set[str] = set()
        rates: defaultdict[str, Fraction] = defaultdict(lambda: Fraction(1))
        for unit in units:
            work = SampleUnit(unit, rates, ValidationConfig(fraction=0.3, max_tokens=3_000), seed)
            sample_unit(workspace, work)
            sampled |= set(pq.read_table(workspace.path(sample_key(unit))).column("piece").to_pylist())
        assert sampled
        for unit in units:
            for row in pq.read_table(workspace.path(unit.table)).to_pylist():
                pieces = {
                    piece
                    for piece, _ in sample_parts(row["text"], row["id"], rate=Fraction(1), seed=seed)
                }
                if sides[row["digest"]][0]:
                    assert not pieces & sampled
                    held_back += 1
    assert held_back > 20


def test_decode_holds_the_groups_to_the_same_split(
    output: Path, units: tuple[Unit, ...], tmp_path: Path
) -> None:
    workspace = workspace_of(output, tmp_path)
    shards = split_of(workspace, units, 5, 0.3)
    chosen = pq.read_table(workspace.path(VALIDATION))
    assert chosen.num_rows > 2
    made = [TokenizeUnit(unit, shards["train"], shards["validation"], 5) for unit in units]
    for work in made:
        tokenize_unit(workspace, work)
    found = [check_texts(workspace, DecodeUnit(work, sentences=False)) for work in made]
    assert [one.findings for one in found] == [()] * len(units)
    pq.write_table(chosen.slice(1), workspace.path(VALIDATION))
    found = [check_texts(workspace, DecodeUnit(work, sentences=False)) for work in made]
    assert {finding.check for one in found for finding in one.findings} == {"placement"}


def test_nothing_is_removed_and_each_repeated_text_is_a_cluster(
    output: Path, units: tuple[Unit, ...]
) -> None:
    table = pq.read_table(output / "dedup" / "clusters.parquet").to_pylist()
    digests: dict[str, bytes] = {}
    firsts: dict[bytes, str] = {}
    for unit in units:
        for row in pq.read_table(output / unit.table).to_pylist():
            digests[row["id"].hex()] = row["digest"]
            firsts.setdefault(row["digest"], row["id"].hex())
    repeated = [name for name, digest in digests.items() if list(digests.values()).count(digest) > 1]
    assert [row["id"] for row in table] == repeated
    assert len(repeated) > 60
    assert all(row["cluster"] == firsts[digests[row["id"]]] and row["kept"] for row in table)
    assert pq.read_table(output / "dedup" / "removed.parquet").num_rows == 0


def test_only_runs_without_deduplication_have_another_fingerprint() -> None:
    on, off = (
        {step.name: step for step in plan_steps(small_run(dedup=dedup), [])}
        for dedup in ({}, {"exact": False, "near": False})
    )
    assert "equal_texts" in off["dedup"].config
    assert "equal_texts" not in on["dedup"].config
