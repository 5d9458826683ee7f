"""What growth promises under every policy: old documents outrank, and within a dump the policy ranks.

The rule in plain loops is that of `tests.stages.dedup.policy_rule`, over all dumps at once: by dump
first and then as the policy says.

A campaign asks for 24 corpora instead of 2.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.run_file.deduplication import Dedup
from pipeline.steps.dedup import decided_parts, removals
from tests.campaign import some_of
from tests.conftest import run_small
from tests.stages.dedup import policy_rule
from tests.stages.dedup.policy_rule import Record, decide_plainly
from tests.stages.dedup.test_policies import corpus_of, settings_of

pytestmark = pytest.mark.slow

SEEDS = some_of(range(24), 2)
Removal = tuple[str, float | None, str]


def trial(seed: int) -> tuple[list[Record], list[int], dict[str, Any], dict[str, object]]:
    """Return documents dump by dump, each dump's in canonical order, their dumps, and settings."""
    rng = np.random.default_rng([seed, 7])
    records = corpus_of(seed)
    dumps = rng.integers(0, 3, len(records))
    order = sorted(range(len(records)), key=lambda n: (dumps[n], records[n].source, n))
    dedup, rules = settings_of(seed)
    dedup.pop("url", None)
    dedup.pop("keys", None)
    return [records[n] for n in order], sorted(dumps.tolist()), dedup, rules


@pytest.mark.parametrize("seed", SEEDS)
def test_dumps_are_decided_as_all_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decided_parts, "PART_BYTES", 1)  # each unit is decided as a part of its own
    monkeypatch.setattr(removals, "EVIDENCE_ROWS", 4)
    records, dumps, dedup, rules = trial(seed)
    plain = policy_rule.ranks
    monkeypatch.setattr(
        policy_rule,
        "ranks",
        lambda *given: [(dumps[n], *one) for n, one in enumerate(plain(*given))],
    )
    names = ["books", "code", "web"]
    wanted = decide_plainly(records, Dedup.model_validate(dedup), rules, names)
    expected = {f"n{n}": (f"n{kept}", s, m) for n, (kept, s, m) in wanted.removed.items()}
    found: dict[str, Removal] = {}
    before: list[str] = []
    for dump in range(3):
        corpus = tmp_path / f"corpus{dump}"
        for number, record in enumerate(records):
            if dumps[number] == dump:
                (corpus / record.source).mkdir(parents=True, exist_ok=True)
                with (corpus / record.source / "0.jsonl").open("a") as file:
                    file.write(json.dumps({**record.fields, "name": f"n{number}"}) + "\n")
        sources = [
            {"name": name, "paths": [f"{name}/*"], "id_column": "name", "dedup": rules.get(name, True)}
            for name in names
            if (corpus / name).exists()
        ]
        there = [name for name in dedup.get("source_order", []) if (corpus / name).exists()]
        run_small(
            corpus,
            tmp_path / f"run{dump}",
            sources=sources,
            dedup={**dedup, "source_order": there, "against": before},
            ingest={"min_chars": 5},
            until="dedup",
        )
        for row in pq.read_table(tmp_path / f"run{dump}/dedup/removed.parquet").to_pylist():
            found[row["own_id"]] = (row["kept_own_id"], row["similarity"], row["method"])
        before.append(f"../run{dump}")
    assert found == expected
    assert found


def test_urls_of_earlier_documents_count_and_a_dump_need_not_have_any(tmp_path: Path) -> None:
    texts = [f"document {n} " + " ".join(f"word{n}x{place}" for place in range(30)) for n in range(6)]
    dumps: list[list[tuple[str, str | None]]] = [
        [(texts[0], "http://a.org/1"), (texts[1], "http://www.a.org/1"), (texts[2], "http://a.org/2")],
        [(texts[1], None), (texts[3], "https://a.org/2#top"), (texts[4], "http://a.org/4")],
        [(texts[4], None), (texts[5], None)],
    ]
    found: dict[str, tuple[str, str]] = {}
    for number, dump in enumerate(dumps):
        corpus = tmp_path / f"corpus{number}"
        corpus.mkdir()
        lines = [
            json.dumps({"text": text, "url": url, "name": f"{number}{row}"})
            for row, (text, url) in enumerate(dump)
        ]
        (corpus / "a.jsonl").write_text("\n".join(lines))
        run_small(
            corpus,
            tmp_path / f"run{number}",
            sources=[{"name": "a", "paths": ["*.jsonl"], "id_column": "name"}],
            dedup={"url": "url", "against": [f"../run{n}" for n in range(number)]},
            ingest={"min_chars": 5},
            until="dedup",
        )
        for row in pq.read_table(tmp_path / f"run{number}/dedup/removed.parquet").to_pylist():
            found[row["own_id"]] = (row["kept_own_id"], row["method"])
    # 10 has the text of a document that went for its URL alone
    assert found == {"01": ("00", "url"), "11": ("02", "url"), "20": ("12", "exact")}
