"""What every policy of deduplication promises.

Whatever is set (which of some duplicates stays, rules by source, URLs, keys, both similarities), the
real step decides what the rule says in plain loops: the same documents, witnesses, methods, clusters. So
it does for units of any size and for files in any order.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from pipeline.planning.plan import plan_steps
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.dedup import decided_parts, removals
from pipeline.steps.dedup import unit_groups as runs
from stages.dedup.lsh import KEYS_PER_PARTITION
from stages.errors import ConfigError
from tests.campaign import some_of
from tests.conftest import digests, run_small, small_run
from tests.stages.dedup.policy_rule import Decided, Record, decide_plainly

pytestmark = pytest.mark.slow

SEEDS = range(50)
SOME = some_of(SEEDS, 8)
WORDS = [f"w{n}" for n in range(30)]
SOURCES = ["books", "code", "web"]
KEEPS: list[object] = [
    "first",
    "longest",
    {"column": "quality"},
    {"column": "quality", "order": "lowest"},
]


def corpus_of(seed: int) -> list[Record]:
    """Short documents with copies of copies, a little changed, shortened, or of one URL."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    records = []
    for _ in range(int(rng.integers(50, 90))):
        kind = rng.integers(10)
        if kind < 4 or len(texts) < 4:
            text = " ".join(rng.choice(WORDS, int(rng.integers(6, 60))))
        else:
            near = texts[rng.integers(min(len(texts), 12))].split()
            cut = int(rng.integers(len(near)))
            changed = [
                near,
                [*near, "end"],
                near[1:],
                near[: max(6, cut)],
                [*near[:cut], "x", *near[cut:]],
            ]
            text = " ".join(changed[rng.integers(5)])
        texts.append(text)
        fields: dict[str, Any] = {"text": text + " 0123456789 0123456789"}
        if rng.random() < 0.5:
            page = int(rng.integers(20))
            fields["url"] = str(rng.choice([f"http://a.org/{page}", f"https://www.A.org/{page}#x"]))
        if rng.random() < 0.3:
            fields["doi"] = int(rng.integers(15)) if rng.random() < 0.5 else f" {rng.integers(15)}"
        if rng.random() < 0.8:
            fields["quality"] = rng.choice([0, 1, 2.5, -3]) if rng.random() < 0.9 else "good"
            if isinstance(fields["quality"], np.generic):
                fields["quality"] = fields["quality"].item()
        records.append(Record(SOURCES[int(rng.integers(3))], fields))
    return sorted(records, key=lambda record: record.source)


def settings_of(seed: int) -> tuple[dict[str, Any], dict[str, object]]:
    """Return the section and the rules of sources of a trial."""
    rng = np.random.default_rng(seed + 1000)
    dedup: dict[str, Any] = {
        "keep": KEEPS[seed % 4],
        "minhash": {
            "num_perm": int(rng.choice([16, 32])),
            "threshold": float(rng.choice([0.5, 0.7])),
            "size": int(rng.choice([1, 2, 3])),
            "max_candidates": 2 if seed % 5 == 0 else 64,
        },
    }
    if rng.random() < 0.6:
        threshold = float(rng.choice([0.6, 0.9, 1.0]))
        dedup["containment"] = {"threshold": threshold, "max_candidates": int(rng.choice([2, 64]))}
        dedup["near"] = bool(rng.random() < 0.7)
    if rng.random() < 0.5:
        dedup["source_order"] = [["web"], ["code", "books"]][rng.integers(2)]
    if rng.random() < 0.5:
        dedup["url"] = "url"
    if rng.random() < 0.5:
        dedup["keys"] = ["doi"]
    rules: dict[str, object] = {}
    if rng.random() < 0.5:
        rules = {"books": "within"} if rng.random() < 0.5 else {"books": False, "web": "within"}
    return dedup, rules


def run(
    root: Path, seed: int, *, unit_size: str = "1MiB", workers: int = 0, keys: int = KEYS_PER_PARTITION
) -> tuple[Path, list[str]]:
    """Run the step over a trial; return where, and the ids of documents by number."""
    dedup, rules = settings_of(seed)
    corpus = root / "corpus"
    for number, record in enumerate(corpus_of(seed)):
        folder = corpus / record.source
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{number // 40}.jsonl").open("a") as file:
            file.write(json.dumps({**record.fields, "name": f"n{number}"}) + "\n")
    order = [["books", "code", "web"], ["web", "books", "code"]][seed % 2]
    sources = [
        {"name": name, "paths": [f"{name}/*"], "id_column": "name", "dedup": rules.get(name, True)}
        for name in order
        if (corpus / name).exists()
    ]
    output = root / "run"
    run_small(
        corpus,
        output,
        sources=sources,
        dedup=dedup,
        ingest={"unit_size": unit_size, "min_chars": 5},
        resources={"keys_per_partition": keys},
        until="dedup",
        workers=workers,
    )
    return output, order


def found_by(output: Path) -> Decided:
    """Return what a run decided."""
    clusters = pq.read_table(output / "dedup/clusters.parquet").to_pylist()
    numbers = {row["id"]: row["number"] for row in clusters}
    removed = {
        numbers[row["id"]]: (numbers[row["kept_id"]], row["similarity"], row["method"])
        for row in pq.read_table(output / "dedup/removed.parquet").to_pylist()
    }
    return Decided(removed, {row["number"]: numbers[row["cluster"]] for row in clusters})


METHODS_SEEN: Counter[str] = Counter()


@pytest.mark.parametrize("seed", SOME)
def test_every_policy_decides_what_the_rule_says_in_plain_loops(seed: int, tmp_path: Path) -> None:
    output, order = run(tmp_path, seed)
    dedup, rules = settings_of(seed)
    expected = decide_plainly(corpus_of(seed), Dedup.model_validate(dedup), rules, order)
    found = found_by(output)
    assert found.removed == expected.removed
    assert found.clusters == expected.clusters
    METHODS_SEEN.update(method for _, _, method in found.removed.values())


def test_the_trials_are_of_every_method() -> None:
    if sum(METHODS_SEEN.values()) < 2 * len(SOME):
        pytest.skip("the trials were not run before, in this process")
    assert (
        min(METHODS_SEEN[name] for name in ("exact", "minhash", "containment", "url", "key:doi"))
        > len(SOME) // 5
    )


@pytest.mark.parametrize("seed", some_of(SEEDS, 3))
def test_units_and_pieces_change_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removals, "EVIDENCE_ROWS", 4)
    whole, _ = run(tmp_path / "whole", seed)
    monkeypatch.setattr(runs, "GROUP_BYTES", 1000)
    monkeypatch.setattr(decided_parts, "PART_BYTES", 2000)
    small, _ = run(tmp_path / "small", seed, unit_size="1KiB", keys=16)
    names = ("dedup/removed.parquet", "dedup/clusters.parquet")
    assert [digests(whole, "dedup")[name] for name in names] == [
        digests(small, "dedup")[name] for name in names
    ]
    assert len(list((small / "ingest").rglob("documents.parquet"))) > len(
        list((whole / "ingest").rglob("documents.parquet"))
    )
    parts = {name: len(list((small / "dedup" / name).iterdir())) for name in ("names", "rows/removed")}
    assert min(parts.values()) > 2, parts
    assert not (whole / "dedup/rows/removed").exists()
    largest = [json.loads((one / "commits/dedup/largest.json").read_text()) for one in (whole, small)]
    assert largest[0]["record"] == largest[1]["record"] != {}
    assert found_by(small).removed


def test_a_run_that_was_stopped_goes_on_with_the_partitions_that_it_began_with(tmp_path: Path) -> None:
    output, _ = run(tmp_path, 3, keys=16)
    pieces = len(list((output / "dedup/exact").iterdir()))
    names = ("dedup/removed.parquet", "dedup/clusters.parquet")
    before = [digests(output, "dedup")[name] for name in names]
    for unit in ("_step", "largest", "decide", "rows-removed-00000"):
        (output / f"commits/dedup/{unit}.json").unlink()
    (output / "dedup/removed.parquet").unlink()
    shutil.rmtree(tmp_path / "corpus")
    run(tmp_path, 3)
    assert [digests(output, "dedup")[name] for name in names] == before
    assert len(list((output / "dedup/exact").iterdir())) == pieces > 1


@pytest.mark.parametrize("seed", [2, 11])
@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_ray_changes_nothing(seed: int, tmp_path: Path) -> None:
    plain, _ = run(tmp_path / "plain", seed, unit_size="1KiB")
    on_ray, _ = run(tmp_path / "ray", seed, unit_size="1KiB", workers=2)
    assert digests(plain, "ingest", "dedup") == digests(on_ray, "ingest", "dedup")
    assert found_by(plain).removed


def test_a_source_need_not_have_a_field_that_is_compared(tmp_path: Path) -> None:
    def text(number: int) -> str:
        return " ".join(f"w{number}x{place}" for place in range(30))

    for name in ("arrow", "csv", "json", "parquet", "txt"):
        (tmp_path / name).mkdir()
    urls = ["http://a.org/1", "http://a.org/2"]
    pq.write_table(pa.table({"text": [text(1), text(2)], "url": urls}), tmp_path / "parquet/a.parquet")
    pq.write_table(pa.table({"text": [text(3), text(4)]}), tmp_path / "parquet/b.parquet")
    feather.write_feather(
        pa.table({"text": [text(5), text(6)], "url": ["https://a.org/1", None]}),
        tmp_path / "arrow/a.arrow",
    )
    feather.write_feather(pa.table({"text": [text(7)]}), tmp_path / "arrow/b.arrow")
    (tmp_path / "txt/a.txt").write_text(text(8))
    (tmp_path / "json/a.jsonl").write_text(json.dumps({"text": text(9), "when": "2024-01-01"}))
    (tmp_path / "csv/a.csv").write_text(f"text,url\n{text(10)},http://www.a.org/2#top\n{text(11)},\n")
    names = ("arrow", "csv", "json", "parquet", "txt")
    run_small(
        tmp_path,
        tmp_path / "run",
        sources=[{"name": name, "paths": [f"{name}/*"]} for name in names],
        dedup={"url": "url", "keep": {"column": "when"}, "containment": {}},
        ingest={"min_chars": 5},
        until="dedup",
    )
    rows = pq.read_table(tmp_path / "run/dedup/removed.parquet").to_pylist()
    assert [(row["source"], row["kept_source"], row["method"], row["similarity"]) for row in rows] == [
        ("parquet", "arrow", "url", None),
        ("parquet", "csv", "url", None),
    ]


def test_a_field_that_no_document_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a text of some words", "url": ""}))
    sources = [{"name": "a", "paths": ["*.jsonl"]}]
    options: dict[str, Any] = {"sources": sources, "ingest": {"min_chars": 5}, "until": "dedup"}
    with pytest.raises(ConfigError, match="no document of any source has a usable value"):
        run_small(tmp_path, tmp_path / "run", dedup={"url": "url"}, **options)


@pytest.mark.parametrize(
    "dedup",
    [
        {"keep": "longest"},
        {"keep": {"column": "quality"}},
        {"source_order": ["mixed"]},
        {"url": "url"},
        {"keys": ["doi"]},
        {"containment": {}},
    ],
)
def test_a_policy_makes_dedup_stale_and_a_default_does_not(dedup: dict[str, Any]) -> None:
    plain, same, other = (
        {step.name: step.fingerprint for step in plan_steps(small_run(dedup=one), [])}
        for one in ({}, {"keep": "first", "keys": []}, dedup)
    )
    assert plain == same
    assert plain["dedup"] != other["dedup"]
    reads = "url" in dedup or "keys" in dedup or isinstance(dedup.get("keep"), dict)
    assert (plain["ingest"] != other["ingest"]) == reads
