"""What growth promises of sides: no document of a cluster that was held out comes back in training.

Documents are chains of near-duplicates over the dumps, each a generation, or each a run against those
before it. A plain loop joins the documents of all rows of `clusters.parquet` and `removed.parquet`
of all dumps, and follows them to whatever any dump held out.

A campaign asks for 24 corpora instead of 1, each by near-duplicates and by values of fields.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from tests.campaign import FULL, some_of
from tests.laws.tiny_run import tiny_run

pytestmark = pytest.mark.slow

SEEDS = some_of(range(24), 1)
WORDS = 120
STEP, EVERY = 6, 14
"""Words that change from one document of a chain to the next, and how far apart these places are. Of
116 shingles of 5 words, neighbours share 106 (a similarity of 0.84), others at most 96 (0.71)."""
THRESHOLD = 0.76
CHAINS = 24
METHODS: dict[str, dict[str, object]] = {
    "minhash": {"minhash": {"threshold": THRESHOLD}},
    "values": {"near": False, "url": "url", "keys": ["key"]},
}
CASES = [("minhash", False), ("values", True)]
"""How documents are one, and whether a dump is a generation; a campaign has all four."""
if FULL:
    CASES = [(method, grown) for method in METHODS for grown in (True, False)]


def word(name: str) -> str:
    """Return letters that stand for a name."""
    return hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


def chain(name: int, length: int) -> list[str]:
    """Return texts of which each is a near-duplicate of its neighbours alone."""
    words = [word(f"{name} {place}") for place in range(WORDS)]
    texts = []
    for number in range(length):
        texts.append(" ".join(words))
        for place in range(number * EVERY + 4, number * EVERY + 4 + STEP):
            words[place] = word(f"{name} {place} {number}")
    return texts


def values_of(chain: int, dump: int, method: str) -> dict[str, str]:
    """Return the fields by which a document is one with the next of its chain, beside its text.

    By the url of dumps 0 and 1, by the key of dumps 1 and 2, and so on by turns.
    """
    if method != "values":
        return {}
    return {"url": f"https://a.example/{chain}-{dump // 2}", "key": f"{chain}-{(dump + 1) // 2}"}


def dumps_of(seed: int, method: str) -> list[list[dict[str, str]]]:
    """Return the documents of three to five dumps; a dump has 8 of no chain."""
    rng = np.random.default_rng([seed, 11])
    count = 3 + seed % 3
    dumps = [
        [
            {
                "text": " ".join(word(f"own {n} {own} {m}") for m in range(60)),
                "lang": "en",
                "url": f"https://own.example/{n}-{own}",
                "key": f"own {n} {own}",
            }
            for own in range(8)
        ]
        for n in range(count)
    ]
    for name in range(CHAINS):
        first = int(rng.integers(0, count)) if name % 4 == 0 else 0
        for dump, text in enumerate(chain(name, count - first), start=first):
            if dump <= first + 2 or rng.random() < 0.9:
                dumps[dump].append({"text": text, "lang": "en", **values_of(name, dump, method)})
    return dumps


def run_dumps(
    folder: Path, dumps: list[list[dict[str, str]]], method: str, *, grown: bool
) -> list[Path]:
    """Run dump after dump up to the split, and return the folder of each."""
    (folder / "in").mkdir(parents=True)
    found: list[Path] = []
    for number, documents in enumerate(dumps):
        name = f"{number}.jsonl"
        lines = [json.dumps(document) for document in documents]
        (folder / "in" / name).write_text("\n".join([*lines, ""]))
        source = {"name": "s", "paths": ["in/*.jsonl" if grown else f"in/{name}"], "root": "in"}
        dedup = {
            **METHODS[method],
            "against": [] if grown else [str(one) for one in found],
        }
        file = tiny_run(
            sources=[source],
            dedup=dedup,
            validation={"fraction": 0.5, "max_tokens": 3000},
            tokenizer={"train": {"vocab_size": 560, "sample_size": "1MiB"}},
        )
        output = folder / "out" if grown else folder / f"out{number}"
        request = RunRequest(file, folder, output, 0, until=None if grown else "split")
        run_session(request, stream=None)
        inside = output / "generations" / f"{number:04d}"
        found.append(inside if grown and number else output)
    return found


def joined(folders: list[Path]) -> dict[str, str]:
    """Return of each document the name of the documents that evidence joins it with, in plain loops."""
    parent: dict[str, str] = {}

    def find(one: str) -> str:
        while parent.setdefault(one, one) != one:
            one = parent[one]
        return one

    for folder in folders:
        for row in pq.read_table(folder / "dedup/clusters.parquet").to_pylist():
            parent[find(row["id"])] = find(row["cluster"])
        for row in pq.read_table(folder / "dedup/removed.parquet").to_pylist():
            parent[find(row["id"])] = find(row["kept_id"])
    return {one: find(one) for one in list(parent)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("method", "grown"), CASES)
def test_no_document_of_a_cluster_that_was_held_out_is_in_training(
    seed: int, method: str, *, grown: bool, tmp_path: Path
) -> None:
    folders = run_dumps(tmp_path, dumps_of(seed, method), method, grown=grown)
    group = joined(folders)
    held, trained = set[str](), set[str]()
    came_back = followed = strayed = stayed = 0
    for folder in folders:
        own = {
            bytes(row["cluster"]).hex()
            for row in pq.read_table(folder / "split/validation.parquet").to_pylist()
        }
        for row in pq.read_table(folder / "dedup/clusters.parquet").to_pylist():
            if row["kept"] and group[row["id"]] in held:
                followed += 1
                came_back += row["cluster"] not in own
            elif row["kept"] and group[row["id"]] in trained:
                stayed += 1
                strayed += row["cluster"] in own
        held |= {group.get(name, name) for name in own}
        trained |= set(group.values()) - held
    assert came_back == strayed == 0
    assert followed
    assert stayed
