"""What deduplication promises as a whole.

The real steps, over files on disk, decide exactly what the rule of the design says in plain loops over
Python's own sets and strings, however the files are cut into units and the work into pieces.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasketch import MinHash, MinHashLSH
from pydantic import JsonValue

from pipeline.engine.tasks import Function, Task, Worker
from pipeline.inputs.files import Blocks, FoundFile, InputFile
from pipeline.inputs.places import place_status
from pipeline.run_file.config import Ingest
from pipeline.run_file.deduplication import Dedup
from pipeline.state.worker_place import FolderPlace
from pipeline.steps.dedup import decided_parts, members, method, removals
from pipeline.steps.dedup import edges as expand
from pipeline.steps.dedup import hashing as pairs
from pipeline.steps.dedup import unit_groups as dedup
from pipeline.steps.dedup import unit_groups as dedup_runs
from pipeline.steps.dedup.band_keys import cut_keys, find_candidates
from pipeline.steps.dedup.edges import FoundEdges
from pipeline.steps.dedup.equal import cut_digests, find_exact
from pipeline.steps.dedup.hashing import (
    HashingRecord,
    hash_candidates,
    pairs_key,
    verify_pairs,
)
from pipeline.steps.dedup.method import GroupWork, PartitionWork
from pipeline.steps.dedup.resolve import Resolution, ResolveRecord, resolve
from pipeline.steps.dedup.unit_groups import unit_groups
from pipeline.steps.ingest import files
from pipeline.steps.ingest.part import ingest_part
from pipeline.steps.ingest.reading import InputPart
from pipeline.steps.ingest.record import PartRecord
from pipeline.steps.scan.files import ScanRecord, ScanWork, scan_files
from pipeline.steps.selection import KeptCounts
from pipeline.steps.units import Unit
from stages.cleaning.text import clean_text
from stages.dedup import shingle_sets
from stages.dedup.lsh import MinHashConfig
from stages.dedup.shingles import hash32, split_tokens
from stages.identity import document_id
from stages.reading.reader import TextSplit
from stages.reading.records import FieldMapping
from stages.store.digests import xxh3_file
from tests.campaign import FULL

pytestmark = pytest.mark.slow

FOUND = (FoundEdges("exact", "dedup/exact", equal=True), FoundEdges("minhash", "dedup/pairs"))
SEEDS = range(20) if FULL else (0, 1, 4, 6, 8, 9, 12, 13, 16)
"""Of the trials, in the slice, those with most of the cases where a wrong rule would show."""
FILES = (("a", "one.jsonl"), ("a", "two.jsonl"), ("b", "one.jsonl"))
"""Source and path, in canonical order."""
WORDS = (
    ["the", "cat", "sat", "on", "a", "mat", "and", "ran", "off", "with", "my", "hat"],
    ["мир", "дом", "река", "лес", "поле", "окно", "хлеб", "снег"],
    list("猫犬鳥魚山川空海花木"),
    list("กขคงจฉชซญดต"),
    ["def", "f(x):", "return", "x", "+", "1", "#", "{}", "é", "if"],
)


@dataclass(frozen=True)
class Corpus:
    """Raw texts in canonical order, each with its file, and the settings of one trial."""

    texts: list[str]
    files: list[tuple[str, str]]
    minhash: MinHashConfig


@dataclass
class Verdict:
    """What is decided of a corpus; documents are numbers in canonical order."""

    kept: list[bool]
    removed: dict[int, tuple[int, float, str]]
    """Of each that goes: the kept one, their similarity, the method."""
    clusters: dict[int, int]
    """Of each that has a duplicate: the best-ranked of its cluster."""
    edges: dict[int, dict[int, float]]
    """Worse, better and similarity of every verified pair."""
    candidates: int
    """Documents that share a bucket with another one; repeats of a text count once."""


@cache
def corpus_of(seed: int) -> Corpus:
    """Short documents of five scripts, with repeats and with copies of copies, a little changed."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    for _ in range(int(rng.integers(60, 121))):
        kind = rng.integers(10)
        if kind < 4 or len(texts) < 4:
            words = WORDS[rng.integers(len(WORDS))]
            joint = "" if words in WORDS[2:4] and rng.integers(4) else " "
            texts.append(joint.join(rng.choice(words, int(rng.integers(1, 40)))))
        elif kind < 5:
            texts.append(rng.choice(["\ufeff", "\x07", ""]) + texts[rng.integers(len(texts))])
        else:
            near = texts[rng.integers(min(len(texts), 12) if kind < 8 else len(texts))]
            place = int(rng.integers(len(near) + 1))
            change = [near[:place] + " new " + near[place:], near + " end", near[1:], near[:-2]]
            texts.append(change[rng.integers(4)] or near)
    cuts = sorted(rng.integers(0, len(texts) + 1, 2).tolist())
    files = [FILES[sum(cut <= number for cut in cuts)] for number in range(len(texts))]
    config = MinHashConfig(
        num_perm=int(rng.choice([16, 24, 32])),
        threshold=float(rng.choice([0.5, 0.7, 0.8])),
        size=int(rng.choice([1, 2, 3, 5])),
        max_candidates=2 if seed % 4 == 0 else 64,
    )
    return Corpus(texts, files, config)


@cache
def rule_of(seed: int) -> Verdict:
    """Return what the rule decides of a trial."""
    return rule(corpus_of(seed))


def rule(corpus: Corpus) -> Verdict:
    """The rule of the design: exact repeats collapse, buckets give pairs, ranks decide."""
    texts = [clean_text(text) for text in corpus.texts]
    first_of: dict[str, int] = {}
    for number, text in enumerate(texts):
        first_of.setdefault(text, number)
    edges, candidates = verified_edges({n: text for text, n in first_of.items()}, corpus.minhash)
    removed: dict[int, tuple[int, float, str]] = {}
    for number, text in enumerate(texts):
        first = first_of[text]
        witnesses = [better for better in sorted(edges.get(number, {})) if better not in removed]
        if first < number:
            removed[number] = removed.get(first, (first, 1.0, "exact"))
        elif witnesses:
            removed[number] = (witnesses[0], edges[number][witnesses[0]], "minhash")
    links = {(better, worse) for worse, found in edges.items() for better in found}
    links |= {(first_of[text], number) for number, text in enumerate(texts)}
    kept = [number not in removed for number in range(len(texts))]
    return Verdict(kept, removed, clusters_by_links(links), edges, candidates)


def verified_edges(
    texts: dict[int, str], config: MinHashConfig
) -> tuple[dict[int, dict[int, float]], int]:
    """Return worse -> better -> similarity, of pairs that share a bucket and reach the threshold.

    With it comes the number of documents that share a bucket at all.
    """
    index = MinHashLSH(threshold=config.threshold, num_perm=config.num_perm, weights=(0.1, 0.9))
    shingles: dict[int, set[str]] = {}
    buckets: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, text in sorted(texts.items()):
        tokens = split_tokens(text)
        ends = range(min(config.size, len(tokens)), len(tokens) + 1)
        shingles[number] = {" ".join(tokens[max(0, end - config.size) : end]) for end in ends}
        sketch = MinHash(num_perm=config.num_perm, seed=1, scheme="affine32", hashfunc=hash32)
        sketch.update_batch([shingle.encode() for shingle in shingles[number]])
        for band in range(index.b):
            rows = sketch.hashvalues[band * index.r : (band + 1) * index.r]
            buckets[(band, *rows.tolist())].append(number)
    edges: dict[int, dict[int, float]] = {}
    for bucket in buckets.values():
        for place, worse in enumerate(bucket):
            for better in bucket[: min(place, config.max_candidates)]:
                a, b = shingles[better], shingles[worse]
                similarity = len(a & b) / len(a | b)
                if similarity >= config.threshold:
                    edges.setdefault(worse, {})[better] = similarity
    return edges, len({number for bucket in buckets.values() if len(bucket) > 1 for number in bucket})


def clusters_by_links(links: set[tuple[int, int]]) -> dict[int, int]:
    """Return the least member of every connected component of more than one, by repeated passes."""
    least = {number: number for link in links for number in link}
    changed = True
    while changed:
        changed = False
        for a, b in links:
            low = min(least[a], least[b])
            changed |= least[a] != low or least[b] != low
            least[a] = least[b] = low
    sizes = Counter(least.values())
    return {number: low for number, low in least.items() if sizes[low] > 1}


class Run:
    """The dedup steps of the pipeline over a corpus on disk, without Ray and without commits."""

    def __init__(self, root: Path, corpus: Corpus, *, unit_size: int, pieces: int) -> None:
        self._root = root / "run"
        self._input = root / "input"
        self._corpus = corpus
        self._unit_size = unit_size
        self._pieces = pieces
        self._worker = Worker(FolderPlace(self._root, self._root / "tmp/a"))
        self._tasks = 0
        self._candidates = 0

    def verdict(self) -> tuple[Verdict, int]:
        """Run all steps; give what they decided and the number of units."""
        numbers = self._write_inputs()
        units = self._ingest()
        assert sum(unit.documents for unit in units) == len(self._corpus.texts)
        total = self._dedup(units).total
        kept = [np.load(self._root / unit.keep_mask) for unit in units]
        removed = pq.read_table(self._root / "dedup/removed.parquet").to_pylist()
        clusters = pq.read_table(self._root / "dedup/clusters.parquet").to_pylist()
        for row in removed:
            assert row["own_id"] == f"n{numbers[row['id']]}"
            assert row["kept_own_id"] == f"n{numbers[row['kept_id']]}"
            assert row["source"] == self._corpus.files[numbers[row["id"]]][0]
            assert row["kept_source"] == self._corpus.files[numbers[row["kept_id"]]][0]
        cluster_of = {row["id"]: row["cluster"] for row in clusters}
        assert [row["cluster"] for row in removed] == [cluster_of[row["id"]] for row in removed]
        gone = {name: tally.documents for name, tally in total.gone.items()}
        assert gone == Counter(row["method"] for row in removed)
        assert total.output.documents == int(np.concatenate(kept).sum())
        found = Verdict(
            np.concatenate(kept).tolist(),
            {
                numbers[row["id"]]: (numbers[row["kept_id"]], row["similarity"], row["method"])
                for row in removed
            },
            {row["number"]: numbers[row["cluster"]] for row in clusters},
            self._edges(units),
            self._candidates,
        )
        assert [row["kept"] for row in clusters] == [found.kept[row["number"]] for row in clusters]
        assert all(numbers[row["id"]] == row["number"] for row in clusters)
        return found, len(units)

    def _edges(self, units: tuple[Unit, ...]) -> dict[int, dict[int, float]]:
        edges: dict[int, dict[int, float]] = {}
        for number in range(len(unit_groups(units))):
            folder = self._root / pairs_key(number)
            found, similarities = np.load(folder / "edges.npy"), np.load(folder / "similarity.npy")
            for (better, worse), similarity in zip(found.tolist(), similarities.tolist(), strict=True):
                edges.setdefault(worse, {})[better] = similarity
        return edges

    def _write_inputs(self) -> dict[str, int]:
        """Write the files; give the number of each document by its id."""
        numbers, contents = {}, dict.fromkeys(FILES, b"")
        for number, (text, file) in enumerate(zip(self._corpus.texts, self._corpus.files, strict=True)):
            numbers[document_id(*file, len(contents[file])).hex()] = number
            record = {"text": text, "name": f"n{number}"}
            contents[file] += json.dumps(record, ensure_ascii=False).encode() + b"\n"
        for (source, path), content in contents.items():
            (self._input / source).mkdir(parents=True, exist_ok=True)
            (self._input / source / path).write_bytes(content)
        return numbers

    def _ingest(self) -> tuple[Unit, ...]:
        units: list[Unit] = []
        first = 0
        for source, path in FILES:
            number: int | None = 0
            place = self._input / source / path
            status = place_status(place, key=source)
            unit_size = Ingest.model_validate({"unit_size": self._unit_size}).unit_size
            fields = FieldMapping(id_column="name")
            found = FoundFile(source, path, place, status, fields, TextSplit.FILE, unit_size)
            work = ScanWork(f"{source}-{path}", [found], [""])
            (scanned,) = ScanRecord.model_validate(self._do(scan_files, work)).files
            xxh3 = xxh3_file(self._root / work.blocks)
            while number is not None:
                blocks = Blocks(work.blocks, xxh3, 0, scanned.blocks)
                part = InputPart(
                    source=source,
                    files=(InputFile(source, path, place, scanned.size, "", blocks=blocks),),
                    label=path,
                    key=f"{source}/{path}",
                    number=number,
                    fields=fields,
                    ingest=Ingest.model_validate({"unit_size": self._unit_size}),
                    minhash=self._corpus.minhash,
                )
                record = PartRecord.model_validate(self._do(ingest_part, part))
                count, size = record.documents, record.text_bytes
                units.append(Unit(part.name, source, path, first, count, size))
                first += count
                number = record.next
        return tuple(units)

    def _dedup(self, units: tuple[Unit, ...]) -> KeptCounts:
        pieces, runs = self._pieces, unit_groups(units)
        firsts, settings = tuple(run.first for run in runs), Dedup(minhash=self._corpus.minhash)
        corpus = method.Corpus(firsts, units[-1].last, pieces, settings)
        works = [GroupWork(corpus, run) for run in runs]
        for work in works:
            self._do(cut_digests, work)
        for piece in range(pieces):
            self._do(find_exact, PartitionWork(corpus, piece))
        for work in works:
            self._do(cut_keys, work)
        for band in range(corpus.shape[0]):
            for piece in range(pieces):
                self._do(find_candidates, PartitionWork(corpus, piece, band))
        hashed = [self._do(hash_candidates, work) for work in works]
        self._candidates = sum(HashingRecord.model_validate(record).candidates for record in hashed)
        for work in works:
            self._do(verify_pairs, work)
        return self._decide(Resolution(units, pieces, FOUND))

    def _decide(self, work: Resolution) -> KeptCounts:
        """Decide, write masks and evidence."""
        record = ResolveRecord.model_validate(self._do(resolve, work))
        counts = KeptCounts(work.units, work.methods)
        for part in work.parts:
            own = self._do(members.describe_members, members.MembersWork(part, work.methods))
            counts.include([members.MembersRecord.model_validate(own)])
        firsts = tuple(part.first for part in work.parts)
        known = removals.EvidenceTables(firsts, 0, work.methods, work.unmeasured)
        rows = {"removed": record.removed, "clusters": record.members}
        for table in removals.TABLES:
            works = removals.rows_works(known, table, rows[table])
            for one in works:
                self._do(removals.write_rows, one)
            if len(works) > 1:
                keys = tuple(one.key for one in works)
                self._do(removals.join_rows, removals.JoinWork(table, keys))
        return counts

    def _do(self, function: Function, payload: object) -> dict[str, JsonValue]:
        """Do one task and put its files where a commit would."""
        self._tasks += 1
        outcome = self._worker.run(
            Task("dedup", f"task-{self._tasks:04d}", function, payload, "fingerprint")
        )
        for key in outcome.files:
            (self._root / key).parent.mkdir(parents=True, exist_ok=True)
            (outcome.folder / key).rename(self._root / key)
        return outcome.record


@pytest.mark.parametrize("seed", SEEDS)
def test_the_steps_decide_what_the_rule_says_in_plain_loops(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of(seed)
    expected = rule_of(seed)
    methods = [method for _, _, method in expected.removed.values()]
    assert {"exact", "minhash"} == set(methods)
    assert any(expected.kept)
    small, small_units = Run(tmp_path / "small", corpus, unit_size=2500, pieces=1).verdict()
    monkeypatch.setattr(files, "BATCH_BYTES", 900)  # several row groups in a unit
    monkeypatch.setattr(dedup, "BLOCK_KEYS", 7)  # and several blocks in a piece
    monkeypatch.setattr(removals, "EVIDENCE_ROWS", 4)
    monkeypatch.setattr(decided_parts, "PART_BYTES", 2_000)  # and several parts
    monkeypatch.setattr(dedup_runs, "GROUP_BYTES", 3_000)
    monkeypatch.setattr(expand, "BATCH_DOCUMENTS", 5)
    monkeypatch.setattr(expand, "BATCH_PAIRS", 9)
    monkeypatch.setattr(pairs, "BATCH_PAIRS", 9)
    monkeypatch.setattr(expand, "MAX_HEADS", 20)
    monkeypatch.setattr(shingle_sets, "LONG_TEXT", 60)  # some texts are longer
    large, large_units = Run(tmp_path / "large", corpus, unit_size=1 << 20, pieces=2).verdict()
    assert small_units > large_units == len(FILES)
    assert small == expected
    assert large == expected


def test_the_trials_hold_the_cases_where_a_wrong_rule_would_show() -> None:
    trials = [(corpus_of(seed), rule_of(seed)) for seed in SEEDS]
    spared = sum(
        verdict.kept[worse] for _, verdict in trials for worse, found in verdict.edges.items() if found
    )
    second_best = sum(
        removed[0] != min(verdict.edges[worse])
        for _, verdict in trials
        for worse, removed in verdict.removed.items()
        if worse in verdict.edges
    )
    followed = sum(
        similarity < 1.0 and number not in verdict.edges
        for _, verdict in trials
        for number, (_, similarity, _) in verdict.removed.items()
    )
    few = [(corpus, found) for corpus, found in trials if corpus.minhash.max_candidates == 2]
    unlimited = [
        rule(Corpus(c.texts, c.files, c.minhash.model_copy(update={"max_candidates": 64})))
        for c, _ in few
    ]
    limited = sum(u.edges != v.edges for u, (_, v) in zip(unlimited, few, strict=True))
    assert spared >= 5, "documents kept although they resemble a removed one: no chains"
    assert second_best >= 5, "documents whose best-ranked likeness was itself removed"
    assert followed >= 5, "exact repeats whose text went as a near-duplicate"
    assert limited >= 3, "corpora where two candidates a bucket give fewer pairs"
