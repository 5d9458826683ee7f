"""What the plan promises: a change makes stale what depends on it and no more, and says so first."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.inputs.files import InputFile
from pipeline.planning.plan import State, StepStatus, plan_steps
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session
from pipeline.state.journal import read_log
from stages.config import canonical_json
from stages.errors import ConfigError
from tests.conftest import digests, run_small, small_run

STEPS = ("ingest", "dedup", "tokenizer", "split", "tokenize", "shard-clm", "decode", "verify-clm")
FILES = (
    InputFile("mixed", "a.jsonl", Path("/here/a.jsonl"), 10_000, "aa"),
    InputFile("mixed", "b.jsonl", Path("/here/b.jsonl"), 20_000, "bb"),
)
INGEST = {"unit_size": "400KiB", "min_chars": 20}
SOURCE = {"name": "mixed", "paths": ["*.jsonl*"], "id_column": "id", "language": {"column": "lang"}}
TRAIN = {"vocab_size": 4096, "sample_size": "1MiB"}
PACKING = {"seq_len": 256, "shards": 2}


def changed_steps(files: tuple[InputFile, ...] = FILES, **changes: Any) -> tuple[str, ...]:
    """Return the steps whose fingerprint a change moves."""
    before = {step.name: step.fingerprint for step in plan_steps(small_run(), FILES)}
    after = {step.name: step.fingerprint for step in plan_steps(small_run(**changes), files)}
    return tuple(name for name in STEPS if before[name] != after[name])


def test_what_a_plan_keeps_of_settings_is_plain_values() -> None:
    normal = small_run(dedup={"minhash": {"normalize": ["case"]}})
    kept = {step.name: json.loads(canonical_json(step.config)) for step in plan_steps(normal, FILES)}
    assert kept["ingest"]["signatures"][0]["normalize"] == ["case"]


@pytest.fixture(scope="module")
def ingested(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small run up to ingest, for reading only."""
    output = tmp_path_factory.mktemp("ingested") / "run"
    run_small(small_corpus, output, until="ingest")
    return output


@pytest.fixture
def own(ingested: Path, tmp_path: Path) -> Path:
    """A copy of the ingested run that a test may change."""
    return Path(shutil.copytree(ingested, tmp_path / "run"))


@pytest.fixture
def own_corpus(small_corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus that a test may change."""
    return Path(shutil.copytree(small_corpus, tmp_path / "corpus"))


def status(corpus: Path, output: Path, **changes: Any) -> dict[str, StepStatus]:
    """Return what a run would do, by step."""
    planned = plan_session(RunRequest(small_run(**changes), corpus, output, workers=0))
    return {one.step.name: one for one in planned}


def dispatched(output: Path, since: int = 0) -> dict[str, list[str]]:
    """Return the units that were given out after some events, by step, but what scans them.

    Which files are scanned again depends on where they lie: a copy of the corpus is.
    """
    units: dict[str, list[str]] = {}
    for event in list(read_log(output))[since:]:
        if event["event"] == "dispatch" and event["step"] != "scan":
            units.setdefault(event["step"], []).append(event["unit"])
    return units


def events(output: Path) -> int:
    """Return how many events a run has logged."""
    return len(list(read_log(output)))


def units_by_file(output: Path) -> dict[str, list[str]]:
    """Return the committed units of ingest by the path of their file."""
    units: dict[str, list[str]] = {}
    for path in sorted((output / "commits" / "ingest").glob("mixed*.json")):
        record = json.loads(path.read_bytes())["record"]
        units.setdefault(record["label"], []).append(path.stem)
    return units


def test_the_same_run_and_files_have_the_same_plan() -> None:
    assert plan_steps(small_run(), FILES) == plan_steps(small_run(), FILES)
    assert tuple(step.name for step in plan_steps(small_run(), FILES)) == STEPS
    assert changed_steps() == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "another"},
        {"resources": {"memory": "3GiB"}},
        {"ingest": {**INGEST, "max_bad_fraction": 0.5}},
        {"sources": [{**SOURCE, "license": "CC0-1.0"}]},
        {"sources": [{**SOURCE, "paths": ["a.jsonl", "b.jsonl"]}]},
    ],
)
def test_what_decides_no_byte_makes_nothing_stale(changes: Mapping[str, Any]) -> None:
    assert changed_steps(**changes) == ()


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        ("ingest", {"ingest": {**INGEST, "min_chars": 21}}),
        ("ingest", {"dedup": {"minhash": {"num_perm": 64}}}),
        ("ingest", {"dedup": {"minhash": {"size": 4}}}),
        ("ingest", {"dedup": {"near": False}}),
        ("ingest", {"sources": [{**SOURCE, "text_column": "body"}]}),
        ("ingest", {"sources": [{**SOURCE, "language": "en"}]}),
        ("dedup", {"dedup": {"minhash": {"threshold": 0.7}}}),
        ("dedup", {"dedup": {"minhash": {"max_candidates": 8}}}),
        ("tokenizer", {"seed": 12}),
        ("tokenizer", {"tokenizer": {"train": {**TRAIN, "vocab_size": 5000}}}),
        ("tokenizer", {"validation": {"fraction": 0.06}}),
        ("split", {"validation": {"fraction": 0.05, "max_tokens": 1000}}),
        ("split", {"packing": {**PACKING, "shards": 3}}),
        ("shard-clm", {"packing": {**PACKING, "seq_len": 128}}),
        ("shard-clm", {"packing": {**PACKING, "strategy": "concat"}}),
        ("shard-clm", {"datasets": [{"name": "clm", "objective": {"mask_first_token": True}}]}),
        ("verify-clm", {"verify": {"labelled_tokens": 80_001}}),
    ],
)
def test_a_change_makes_stale_the_first_step_that_reads_it_and_all_later_ones(
    first: str, changes: Mapping[str, Any]
) -> None:
    moved = STEPS[STEPS.index(first) :]  # but the store is decoded whatever is packed from it
    assert changed_steps(**changes) == tuple(s for s in moved if first != "shard-clm" or s != "decode")


def test_a_file_s_bytes_make_all_stale_but_the_units_of_other_files() -> None:
    other = (FILES[0], InputFile("mixed", "b.jsonl", Path("/here/b.jsonl"), 20_000, "b2"))
    assert changed_steps(other) == STEPS
    before, after = (plan_steps(small_run(), files)[0].units for files in (FILES, other))
    assert before[FILES[0].key] == after[FILES[0].key]
    assert before[FILES[1].key] != after[FILES[1].key]


def test_a_file_s_place_and_the_order_of_sources_are_no_part_of_the_plan() -> None:
    moved = tuple(InputFile(f.source, f.path, Path("/there"), f.size, f.digest) for f in FILES)
    assert changed_steps(moved) == ()
    second = {"name": "second", "paths": ["*"]}
    plans = [plan_steps(small_run(sources=two), FILES) for two in ([SOURCE, second], [second, SOURCE])]
    assert [s.fingerprint for s in plans[0]] == [s.fingerprint for s in plans[1]]


def test_a_dataset_s_own_packing_makes_only_its_own_steps_stale() -> None:
    first, second = {"name": "clm"}, {"name": "long"}
    longer = {**second, "packing": {"seq_len": 512}}
    before, after = (
        {step.name: step.fingerprint for step in plan_steps(small_run(datasets=two), FILES)}
        for two in ([first, second], [first, longer])
    )
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"shard-long", "verify-long"}


def test_a_finished_step_is_done_and_those_after_it_are_new(small_corpus: Path, ingested: Path) -> None:
    found = status(small_corpus, ingested)
    assert {name: one.state for name, one in found.items()} == {
        name: State.DONE if name in ("scan", "ingest") else State.NEW for name in ("scan", *STEPS)
    }
    assert found["ingest"].commits >= 3
    assert (found["ingest"].why, found["ingest"].stale) == ("", ())
    assert found["dedup"].commits == 0


def test_a_step_without_its_own_commit_is_partial(small_corpus: Path, own: Path) -> None:
    whole = status(small_corpus, own)["ingest"].commits
    (own / "commits" / "ingest" / "_step.json").unlink()
    found = status(small_corpus, own)["ingest"]
    assert (found.state, found.commits, found.why) == (State.PARTIAL, whole, "stopped before its end")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ingest": {**INGEST, "min_chars": 21}}, "ingest.min_chars: 20 -> 21"),
        ({"dedup": {"minhash": {"num_perm": 64}}}, "signatures.num_perm: 128 -> 64"),
        (
            {"sources": [{**SOURCE, "id_column": None}]},
            "sources.mixed.id_column: id -> absent",
        ),
    ],
)
def test_a_stale_step_says_which_setting_went_from_what_to_what(
    changes: Mapping[str, Any], why: str, small_corpus: Path, ingested: Path
) -> None:
    found = status(small_corpus, ingested, **changes)["ingest"]
    assert (found.state, found.why) == (State.STALE, why)
    assert len(found.stale) == found.commits + 1, "every unit, and the step as a whole"


def test_a_folder_that_kept_no_plan_still_knows_that_it_is_stale(small_corpus: Path, own: Path) -> None:
    (own / "run.json").unlink()
    found = status(small_corpus, own, ingest={"min_chars": 21})["ingest"]
    assert (found.state, found.why) == (State.STALE, "made with other settings")


def test_planning_writes_nothing(small_corpus: Path, own: Path) -> None:
    before = digests(own, ".")
    status(small_corpus, own, ingest={"min_chars": 21})
    assert digests(own, ".") == before


def test_a_run_over_another_config_is_refused_and_changes_nothing(small_corpus: Path, own: Path) -> None:
    before = digests(own, "commits", "ingest")
    with pytest.raises(ConfigError) as caught:
        run_small(small_corpus, own, until="ingest", ingest={**INGEST, "min_chars": 21})
    message = str(caught.value)
    assert "ingest would be made anew (" in message
    assert "ingest.min_chars: 20 -> 21" in message
    assert "--replace" in message
    assert digests(own, "commits", "ingest") == before


def test_replace_redoes_what_is_stale_and_nothing_before_it(small_corpus: Path, own: Path) -> None:
    run_small(small_corpus, own, until="dedup")
    before, count = digests(own, "ingest"), events(own)
    run_small(small_corpus, own, until="dedup", replace=True, dedup={"minhash": {"threshold": 0.7}})
    assert set(dispatched(own, count)) == {"dedup"}
    assert digests(own, "ingest") == before
    assert status(small_corpus, own)["dedup"].why == "dedup.minhash.threshold: 0.7 -> 0.8"


def test_a_file_that_came_is_all_that_ingest_reads(own_corpus: Path, own: Path) -> None:
    before, count = digests(own, "ingest"), events(own)
    (own_corpus / "new.jsonl").write_text('{"text": "A document that nobody has seen before."}\n')
    run_small(own_corpus, own, until="ingest", replace=True)
    units = units_by_file(own)
    assert len(units) == 4
    assert dispatched(own, count) == {"ingest": units["new.jsonl"]}
    assert before.items() < digests(own, "ingest").items()


def test_a_file_whose_bytes_changed_is_all_that_is_read_again(own_corpus: Path, own: Path) -> None:
    count = events(own)
    with (own_corpus / "a.jsonl").open("a") as file:
        file.write('{"text": "One more line, at the very end of it."}\n')
    run_small(own_corpus, own, until="ingest", replace=True)
    assert dispatched(own, count) == {"ingest": units_by_file(own)["a.jsonl"]}


def test_a_file_that_went_takes_its_units_along_and_nothing_is_read(own_corpus: Path, own: Path) -> None:
    count = events(own)
    (own_corpus / "c.jsonl.zst").unlink()
    run_small(own_corpus, own, until="ingest", replace=True)
    assert dispatched(own, count) == {}
    assert set(units_by_file(own)) == {"a.jsonl", "b.jsonl.gz"}
    kept = {key.split("/")[2].rpartition("-")[0] for key in digests(own, "ingest")}
    assert len(kept) == 2


def test_every_unit_of_a_run_is_given_out_once(ingested: Path) -> None:
    counts = Counter(unit for units in dispatched(ingested).values() for unit in units)
    assert set(counts.values()) == {1}
    assert sorted(counts) == sorted(unit for units in units_by_file(ingested).values() for unit in units)
