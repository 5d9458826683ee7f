"""What report, status and verify say of documents that joined validation with earlier ones."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.report.evidence import joined_warning
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.steps.split.choice import JoinedCluster, JoinedDocuments, SplitRecord
from stages.ledger import Tally
from tests.called import called
from tests.laws.test_growth_sides import THRESHOLD, chain, word
from tests.laws.tiny_run import tiny_run

CHAINS, DUMPS = 12, 3


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run of two sources that grew by two dumps of the next documents of its chains; its report."""
    folder = tmp_path_factory.mktemp("joined")
    (folder / "in").mkdir()
    for dump in range(DUMPS):
        for source in ("a", "b"):
            texts = [
                chain(number, DUMPS)[dump]
                for number in range(CHAINS)
                if (number % 3 == 0) == (source == "b")
            ]
            texts += [
                " ".join(word(f"{source} {dump} {own} {place}") for place in range(60))
                for own in range(6)
            ]
            lines = [json.dumps({"text": text, "lang": "en"}) for text in texts]
            (folder / "in" / f"{source}{dump}.jsonl").write_text("\n".join([*lines, ""]))
        file = tiny_run(
            sources=[{"name": one, "paths": [f"in/{one}*.jsonl"], "root": "in"} for one in ("a", "b")],
            dedup={"minhash": {"threshold": THRESHOLD}},
            validation={"fraction": 0.5, "max_tokens": 4000},
            tokenizer={"train": {"vocab_size": 560, "sample_size": "1MiB"}},
            datasets=[{"name": "clm", "objective": {"kind": "clm"}}],
        )
        run_session(RunRequest(file, folder, folder / "out", 0), stream=None)
    report = folder / "out" / "generations" / f"{DUMPS - 1:04d}" / "report" / "report.json"
    return folder / "out", json.loads(report.read_text())


def counted(output: Path) -> dict[str, dict[str, int]]:
    """Count by source the last documents of the chains whose first documents are held out."""
    held = set(texts_of(output, "validation"))
    starts = {chain(number, 1)[0]: number for number in range(CHAINS)}
    chains = {starts[text] for text in held if text in starts}
    wanted = {chain(number, DUMPS)[DUMPS - 1] for number in chains}
    last = output / "generations" / f"{DUMPS - 1:04d}"
    found: dict[str, dict[str, int]] = {}
    for text, (source, tokens) in texts_of(last, "validation").items():
        if text in wanted:
            one = found.setdefault(source, {"documents": 0, "tokens": 0})
            one["documents"] += 1
            one["tokens"] += tokens
    return found


def texts_of(folder: Path, split: str) -> dict[str, tuple[str, int]]:
    """Return source and tokens of the documents of a split, by text."""
    texts = {
        row["id"].hex(): row["text"]
        for path in folder.glob("ingest/*/*/documents.parquet")
        for row in pq.read_table(path, columns=["id", "text"]).to_pylist()
    }
    return {
        texts[row["id"]]: (row["source"], row["tokens"])
        for path in (folder / "datasets" / "clm" / split).rglob("documents.parquet")
        for row in pq.read_table(path, columns=["id", "source", "tokens"]).to_pylist()
    }


def test_documents_and_tokens_that_joined_are_counted_by_source(grown: tuple[Path, Any]) -> None:
    output, report = grown
    right = counted(output)
    assert right.keys() == {"a", "b"}
    assert report["split"]["joined"] == right
    assert any(
        line.startswith("validation: ") and "more than 1%" in line and "The largest cluster is" in line
        for line in report["warnings"]
    )
    status = called("status", str(output), "--json", cwd=output.parent)
    (last,) = [one for name, one in json.loads(status.stdout)["generations"].items() if name == "0002"]
    assert last["joined"] == right
    for command in ("status", "verify"):
        workers = ["--workers", "0"] if command == "verify" else []
        said = called(command, str(output), *workers, cwd=output.parent)
        assert said.returncode == 0
        for source, one in right.items():
            assert f"{source}: {one['documents']:,} document" in said.stdout
            assert f"{one['tokens']:,} tokens" in said.stdout


def test_a_warning_comes_above_one_percent_of_the_tokens() -> None:
    largest = JoinedCluster(documents=2, tokens=90, cluster="ab", document="cd")
    split = SplitRecord(
        candidates=1,
        clusters=1,
        tokens=100,
        held_out=Tally(),
        shards={},
        joined={"s": JoinedDocuments(documents=3, tokens=100)},
        largest_joined=largest,
    )
    assert joined_warning(split, 10_000) is None
    assert joined_warning(split, 0) is None
    said = joined_warning(split, 9_999)
    assert said is not None
    assert "3 documents, 100 tokens (1.00% of this generation, more than 1%)" in said
    assert "The largest cluster is ab with 2 documents, 90 tokens" in said
    assert "inspect DIR --document cd" in said
    assert joined_warning(split.model_copy(update={"joined": {}}), 9_999) is None
