"""What growth promises of decontamination: a phrase is as common as all documents so far make it."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import run_small

pytestmark = pytest.mark.slow

PHRASE = (
    "permission is hereby granted to any person who obtains a copy of these words to use them freely"
)
LEAK = "which metal melts first if a candle is held under five coins of different countries for an hour"


def found_in(folder: Path, output: str, dumps: str, against: str = "") -> list[tuple[Any, ...]]:
    """Run over some dumps against others; return the evidence of the documents of the last."""
    source = {"name": "s", "paths": [f"{name}.jsonl" for name in dumps], "id_column": "name"}
    run_small(
        folder,
        folder / output,
        sources=[source],
        dedup={"near": False, "against": [f"run-{name}" for name in against]},
        ingest={"min_chars": 5, "unit_size": "2KiB"},
        decontamination={"sets": [{"name": "quiz", "paths": ["eval.txt"]}]},
        until="decontaminate",
    )
    rows = pq.read_table(folder / output / "decontaminate/contaminated.parquet").to_pylist()
    names = ("own_id", "item", "begin", "end", "documents", "verdict")
    return [tuple(row[name] for name in names) for row in rows if row["own_id"][0] == dumps[-1]]


def test_each_dump_is_judged_as_in_one_run_over_it_and_all_before(tmp_path: Path) -> None:
    (tmp_path / "eval.txt").write_text(f"{PHRASE}\n\n{LEAK}\n")
    for name, count in (("a", 9), ("b", 3), ("c", 2)):
        texts = [f"text {name}{n} begins here and goes on. {PHRASE}" for n in range(count)]
        texts[0] = f"another text {name}. {LEAK}"
        texts.append(f"and text {name} has nothing of them")
        records = [{"text": text, "name": f"{name}{n}"} for n, text in enumerate(texts)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    found_in(tmp_path, "run-a", "a")
    alone = found_in(tmp_path, "alone", "c")
    assert [row[-1] for row in alone] == ["dropped"] * 2
    for name, before in (("b", "a"), ("c", "ab")):
        new = found_in(tmp_path, f"run-{name}", name, before)
        assert new == found_in(tmp_path, f"whole-{name}", before + name)
        assert {row[-1] for row in new} != {"dropped"}, "the phrase is common in all dumps together"
