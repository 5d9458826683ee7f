"""What the steps from the tokenizer to the token store promise.

Texts pass a slice at a time and change nothing by it; the split is that of a plain loop; rows decode to
the normalised text and to no other; a sample is drawn again only if what decides it changed.
"""

import io
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sentencepiece
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.planning.plan import State
from pipeline.report.terminal import print_plan
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.journal import read_log
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode import check as decode
from pipeline.steps.decode import step as sample
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.records import FoundIn
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.split import choice as split
from pipeline.steps.split.choice import HeldOutClusters, ValidationChoice, choose_validation
from pipeline.steps.tokenize.encode import TokenizeUnit
from pipeline.steps.tokenizer.load import CHECK, load_tokenizer
from pipeline.steps.tokenizer.training import FAIRNESS
from pipeline.steps.unit_clusters import Clusters
from pipeline.steps.units import Unit, kept_groups, text_slices, units_of
from pipeline.steps.verify import check as verify
from pipeline.steps.verify.settings import Settings
from stages.errors import ConfigError
from stages.identity import content_digest
from stages.mixing.placement import ValidationConfig, num_shards, validation_hash
from stages.objectives.clm.config import CausalLM
from stages.packing.layout import PackingConfig
from stages.store.token_store import TokenUnit
from stages.tokenizer.encode import load_trained
from stages.tokenizer.sampling import balanced_targets
from tests.campaign import FULL
from tests.conftest import run_small, small_run

pytestmark = pytest.mark.slow

TRAIN = {"vocab_size": 2048, "sample_size": "128KiB"}
NORMALISED = {"train": {**TRAIN, "normalization": "nmt_nfkc"}}
UNIGRAM = {"model": "unigram", "vocab_size": 1536}
"""Of more pieces and text its training takes many seconds."""
KINDS = {
    "bpe, identity": {"train": TRAIN},
    "bpe, nmt_nfkc": NORMALISED,
    "unigram, identity": {"train": {**TRAIN, **UNIGRAM}},
    "unigram, nmt_nfkc": {"train": {**NORMALISED["train"], **UNIGRAM}},
}


def units(output: Path) -> tuple[Unit, ...]:
    """Return the units of a run."""
    commits = dict(Commits(LocalStorage(output)).all("ingest"))
    return units_of(commits[STEP_COMMIT].read(IngestRecord).units)


def workspace(output: Path, folder: Path) -> Workspace:
    """Return a task's view of a run."""
    return Workspace(output, folder)


def dispatched(output: Path, since: int) -> list[str]:
    """Return the units that were given out after some events."""
    log = list(read_log(output))[since:]
    return [event["unit"] for event in log if event["event"] == "dispatch"]


@pytest.fixture(scope="module", params=KINDS if FULL else ["bpe, identity", "unigram, nmt_nfkc"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return each algorithm with each normalisation."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def tokenized(kind: str, small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the small run up to its shards, with that tokenizer."""
    output = tmp_path_factory.mktemp("tokenized") / "run"
    run_small(small_corpus, output, tokenizer=KINDS[kind])
    return output


def kept_texts(output: Path, unit: Unit) -> dict[bytes, str]:
    """Return the cleaned texts that dedup kept of a unit."""
    return {
        row["id"]: row["text"]
        for table in kept_groups(workspace(output, output), unit, ["id", "text"])
        for row in table.to_pylist()
    }


def test_the_token_store_decodes_to_the_normalised_text_and_names_its_digest(
    kind: str, tokenized: Path
) -> None:
    rule = kind.split(", ")[1]
    library = sentencepiece.SentencePieceNormalizer(
        rule_name=rule, add_dummy_prefix=False, remove_extra_whitespaces=False, escape_whitespaces=False
    )
    tokenizer = load_trained(tokenized / "tokenizer" / "tokenizer.model")
    documents = changed = 0
    for unit in units(tokenized):
        texts = kept_texts(tokenized, unit)
        folder = tokenized / unit.tokens
        store, table = TokenUnit.open(folder), pq.read_table(folder / "documents.parquet")
        for number, row in enumerate(table.to_pylist()):
            ids = np.asarray(store.ids[slice(*store.places[number])])
            parts = map(library.normalize, texts[row["id"]].split("\u2581"))
            expected = "\u2581".join(parts)
            assert tokenizer.decode([ids[:-1]]) == [expected]
            assert ids[-1] == tokenizer.eos
            assert row["digest"] == content_digest(expected)
            documents, changed = documents + 1, changed + (expected != texts[row["id"]])
    assert documents > 200
    assert (changed > 100) == (rule == "nmt_nfkc")


def findings(output: Path, folder: Path) -> list[FoundIn]:
    """Return what verify finds in the token store and in the shards."""
    space, every = workspace(output, folder), units(output)
    texts = [
        decode.check_texts(space, decode.DecodeUnit(TokenizeUnit(unit, 2, 1, 11), sentences=False))
        for unit in every
    ]
    settings = Settings(RowSettings(CausalLM(), PackingConfig(seq_len=256, shards=2), 11), 0)
    shards = [
        verify.check_shard(space, verify.ShardCheck(every, "clm", "train", number, number, 2, settings))
        for number in range(2)
    ]
    assert sum(unit.documents for unit in texts) + sum(shard.documents for shard in shards) > 400
    return [finding for record in (*texts, *shards) for finding in record.findings]


def test_verify_finds_nothing_in_a_sound_run(tokenized: Path, tmp_path: Path) -> None:
    assert findings(tokenized, tmp_path) == []


def test_verify_holds_the_store_to_the_normalised_text(
    kind: str, tokenized: Path, tmp_path: Path
) -> None:
    unit = units(tokenized)[0]
    place = tokenized / unit.tokens / "documents.parquet"
    sound, table = place.read_bytes(), pq.read_table(place)
    texts = kept_texts(tokenized, unit)
    other = "another text" if "identity" in kind else texts[table.column("id")[0].as_py()]
    digests = [content_digest(other), *table.column("digest").to_pylist()[1:]]
    column = table.schema.get_field_index("digest")
    place.write_bytes(b"")
    pq.write_table(
        table.set_column(column, table.schema.field("digest"), pa.array(digests, pa.binary(16))), place
    )
    try:
        found = findings(tokenized, tmp_path)
    finally:
        place.write_bytes(sound)
    assert [f.check for f in found] == ["documents_kept"]


def test_verify_holds_the_ids_of_the_store_to_the_text(tokenized: Path, tmp_path: Path) -> None:
    unit = units(tokenized)[0]
    place = tokenized / unit.tokens / "ids.npy"
    sound, ids = place.read_bytes(), np.load(place)
    ids[[0, 1]] = ids[[1, 0]]
    np.save(place, ids)
    try:
        found = findings(tokenized, tmp_path)
    finally:
        place.write_bytes(sound)
    assert "text" in {f.check for f in found if f.file == f"{unit.tokens}/ids.npy"}
    assert "tokens" in {f.check for f in found}, "the rows of a dataset are held to the store"


def test_the_library_encodes_enough_documents_of_every_language(
    kind: str, tokenized: Path, tmp_path: Path
) -> None:
    space, every = workspace(tokenized, tmp_path), units(tokenized)
    tables = [tokenized / unit.tokens / "documents.parquet" for unit in every]
    stored = sum(pq.read_metadata(table).num_rows for table in tables)
    languages = {name for table in tables for name in pq.read_table(table)["language"].to_pylist()}
    for share, most in ((1.0, stored), (0.01, stored // 10)):
        shares = dict.fromkeys(languages, share)
        found = [sample.check_sample(space, sample.SampledUnit(unit, shares)) for unit in every]
        assert not any(one.findings for one in found)
        assert 0 < sum(one.documents for one in found) <= most, kind
        assert share < 1 or sum(one.documents for one in found) == stored


def test_other_ids_than_the_librarys_are_found(tokenized: Path, tmp_path: Path) -> None:
    space, unit = workspace(tokenized, tmp_path), units(tokenized)[0]
    place = tokenized / unit.tokens / "ids.npy"
    sound, ids = place.read_bytes(), np.load(place)
    ids[0] ^= 1
    np.save(place, ids)
    shares = dict.fromkeys(pq.read_table(tokenized / unit.table)["language"].to_pylist(), 1.0)
    try:
        found = sample.check_sample(space, sample.SampledUnit(unit, shares)).findings
    finally:
        place.write_bytes(sound)
    assert [(one.file, one.check) for one in found] == [(f"{unit.tokens}/ids.npy", "library")]


def test_what_checks_remembers_nothing_of_what_was_made(tokenized: Path, tmp_path: Path) -> None:
    space = workspace(tokenized, tmp_path)
    made = load_tokenizer(space)
    assert load_tokenizer(space) is made
    assert load_tokenizer(space, use=CHECK) is not made


def test_slices_hold_every_document_once_and_about_a_mebibyte() -> None:
    rng = random.Random(3)  # noqa: S311  # sizes, drawn the same every time
    sizes = [rng.choice([10, 1000, 300_000, 5 << 20]) for _ in range(200)]
    table = pa.table({"text_bytes": sizes, "number": range(len(sizes))})
    parts = text_slices(table)
    assert pa.concat_tables(parts).equals(table)
    assert len(parts) > 50
    for part in parts:
        bytes_ = part.column("text_bytes").to_pylist()
        assert sum(bytes_) <= max(2 << 20, max(bytes_) + (1 << 20))
    assert text_slices(table.slice(0, 0)) == []


def write_counts(space: Workspace, rows: dict[str, list[tuple[bytes, int, int]]]) -> tuple[Unit, ...]:
    """Write the counts of some units as `count_candidates` does; their names are those given."""
    every = []
    for name, counts in rows.items():
        unit = Unit(name, "mixed", name, 0, len(counts), 0)
        table = pa.table(list(map(list, zip(*counts, strict=True))) or [[], [], []], schema=COUNTS)
        path = space.root / "work" / "split" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        every.append(unit)
    return tuple(every)


COUNTS = pa.schema([("cluster", pa.binary(16)), ("tokens", pa.int64()), ("text_bytes", pa.int64())])


def plain_choice(
    rows: Iterator[tuple[bytes, int, int]], seed: int, max_tokens: int
) -> dict[bytes, tuple[int, int]]:
    """Return the clusters held out, by a loop over dicts."""
    counts: dict[bytes, tuple[int, int]] = {}
    for cluster, tokens, size in rows:
        before = counts.get(cluster, (0, 0))
        counts[cluster] = (before[0] + tokens, before[1] + size)
    chosen: dict[bytes, tuple[int, int]] = {}
    for cluster in sorted(counts, key=lambda name: (validation_hash(name, seed), name)):
        if sum(tokens for tokens, _ in chosen.values()) + counts[cluster][0] > max_tokens:
            break
        chosen[cluster] = counts[cluster]
    return chosen


@pytest.mark.parametrize("max_tokens", [1, 50, 3_000, 1 << 40])
def test_the_split_is_that_of_a_plain_loop(max_tokens: int, tmp_path: Path) -> None:
    rng = random.Random(max_tokens)  # noqa: S311  # likewise
    names = [rng.randbytes(14) + rng.choice([b"\0\0", b"\0\1", b"\xff\0"]) for _ in range(90)]
    rows = {
        f"unit-{number}": [
            (name, rng.randint(1, 99), rng.randint(1, 999)) for name in rng.sample(names, size)
        ]
        for number, size in enumerate((60, 0, 45, 1))
    }
    space = workspace(tmp_path, tmp_path)
    work = ValidationChoice(
        write_counts(space, rows), ValidationConfig(max_tokens=max_tokens), PackingConfig(), 7, 1 << 30
    )
    record = choose_validation(space, work)
    expected = plain_choice((row for part in rows.values() for row in part), 7, max_tokens)
    table = pq.read_table(tmp_path / split.VALIDATION)
    found = {row["cluster"]: (row["tokens"], row["text_bytes"]) for row in table.to_pylist()}
    assert found == expected
    assert list(found) == sorted(found)
    assert (record.clusters, record.tokens) == (
        len(expected),
        sum(t for t, _ in expected.values()),
    )
    assert record.candidates == len({row[0] for part in rows.values() for row in part}) > 70
    clusters = Clusters(as_rows(names[:1]), as_rows(names[1:2]))
    held_out = HeldOutClusters.read(space).holds(clusters.of(as_rows(names)))
    assert held_out.tolist() == [name in expected for name in [names[1], *names[1:]]]


def as_rows(names: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return names of sixteen bytes as (N, 16) uint8."""
    return np.frombuffer(b"".join(names), np.uint8).reshape(-1, 16)


def test_the_number_of_shards_is_that_of_the_bytes_that_are_left(tmp_path: Path) -> None:
    space, packing = workspace(tmp_path, tmp_path), PackingConfig()
    units_ = write_counts(space, {"unit-0": [(b"a" * 16, 10, 3 << 30), (b"b" * 16, 10, 2 << 30)]})
    work = ValidationChoice(units_, ValidationConfig(max_tokens=1 << 40), packing, 7, 7 << 30, 1000)
    shards = {
        size: num_shards(size << 30, shard_size=packing.shard_size, documents=1000) for size in (2, 7)
    }
    record = choose_validation(space, work)
    assert shards[2] < shards[7]
    assert record.shards["train"] == shards[2]
    assert record.shards["validation"] == num_shards(5 << 30, shard_size=packing.shard_size)


def test_shares_of_languages_are_those_of_the_bytes_drawn_and_asked_for(reference: Path) -> None:
    rates = json.loads((reference / FAIRNESS).read_text())
    drawn: Counter[str] = Counter()
    repeated = 0
    for path in (reference / "work" / "sample").rglob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            drawn[row["language"]] += len(row["piece"].encode()) * row["copies"]
            repeated += row["copies"] > 1
    record = json.loads((reference / "commits" / "dedup" / "_step.json").read_bytes())["record"]
    sizes = {name: counts["bytes"] for name, counts in record["languages"].items()}
    targets = balanced_targets(sizes, small_run().tokenizer.train)
    for name, row in rates.items():
        assert row["sample_share"] == pytest.approx(drawn[name] / drawn.total(), abs=1e-6)
        assert row["target_share"] == pytest.approx(targets[name] / sum(targets.values()), abs=1e-6)
    assert len(rates) > 3
    assert repeated > 0
    assert sum(targets.values()) != drawn.total()


def test_without_candidates_nothing_is_held_out(tmp_path: Path) -> None:
    space = workspace(tmp_path, tmp_path)
    units_ = write_counts(space, {"unit-0": []})
    record = choose_validation(
        space, ValidationChoice(units_, ValidationConfig(), PackingConfig(), 7, 1 << 20)
    )
    assert (record.candidates, record.clusters, record.tokens) == (0, 0, 0)
    assert record.shards["validation"] == 1, "a shard of no rows"
    assert not HeldOutClusters.read(space).holds(as_rows([b"a" * 16])).any()


def test_a_vocabulary_that_failed_is_mended_without_replace_and_without_new_samples(
    small_corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    wrong = {"train": {"vocab_size": 1 << 20, "sample_size": "1MiB"}}
    with pytest.raises(ConfigError, match="vocab_size"):
        run_small(small_corpus, output, until="tokenizer", tokenizer=wrong)
    since = len(list(read_log(output)))
    planned = plan_session(RunRequest(small_run(), small_corpus, output, workers=0))
    found = next(one for one in planned if one.step.name == "tokenizer")
    assert (found.step.name, found.state) == ("tokenizer", State.PARTIAL)
    assert found.commits == len(units(output))
    run_small(small_corpus, output, until="tokenizer")
    assert dispatched(output, since) == ["train", "measure"]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"tokenizer": {"train": {**TRAIN, "vocab_size": 4000}}}, False),
        ({"tokenizer": NORMALISED}, False),
        ({"tokenizer": {"train": {**TRAIN, "alpha": 0.5}}}, True),
        ({"validation": {"fraction": 0.06}}, True),
        ({"seed": 12}, True),
    ],
)
def test_samples_are_stale_only_if_what_draws_them_changed(
    changes: dict[str, Any], *, again: bool, small_corpus: Path, tokenized: Path, kind: str
) -> None:
    request = RunRequest(
        small_run(**{"tokenizer": KINDS[kind], **changes}), small_corpus, tokenized, workers=0
    )
    found = next(one for one in plan_session(request) if one.step.name == "tokenizer")
    samples = [name for name in found.stale if name.startswith("sample-")]
    assert len(samples) == (len(units(tokenized)) if again else 0)


def test_what_a_normalisation_loses_is_said_by_plan_run_and_report(
    small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    stream = io.StringIO()
    file = small_run(tokenizer=NORMALISED)
    report = run_session(RunRequest(file, small_corpus, output, 0, until="tokenizer"), stream=stream)
    (line,) = (line for line in report["warnings"] if "normalization" in line)
    assert line.startswith('tokenizer.train.normalization = "nmt_nfkc" changes line feeds, tabs, ')
    assert f"warning: {line}\n" in stream.getvalue()
    assert "changes line feeds" in (output / "report" / "index.html").read_text()
    print_plan(plan_session(RunRequest(file, small_corpus, output, 0)), as_json=False)
    assert f"warning: {line}\n" in capsys.readouterr().out
    print_plan(plan_session(RunRequest(small_run(), small_corpus, output, 0)), as_json=False)
    assert "warning" not in capsys.readouterr().out
