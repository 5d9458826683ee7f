"""What filters that change documents promise to a run: what stays is what every later step sees.

Personal data is replaced before the text's digest is taken, and missing languages are filled in, so that
duplicates, languages of the token store and what `verify` decodes are those of the changed documents.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.session.verifying import verify_session
from stages.identity import content_digest
from tests.conftest import digests, run_small

FRENCH = "Tous les êtres humains naissent libres et égaux en dignité et en droits, écrit {} à tous."
ENGLISH = "All human beings are born free and equal in dignity and rights, writes {} to everybody."
OPTIONS: dict[str, Any] = {
    "sources": [
        {"name": "mixed", "paths": ["a.jsonl"], "language": {"column": "lang"}},
        {"name": "mail", "paths": ["mail.jsonl"]},
    ],
    "filters": [
        {"kind": "pii", "find": ["email", "ip"]},
        {"kind": "language", "languages": ["en", "fr"], "sources": ["mail"], "fill": True},
    ],
    "ingest": {"max_document_bytes": "1MiB"},
    "verify": {"learning": False},
}


@pytest.fixture(scope="module")
def folder(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with some mails, two of which are the same but for an address."""
    folder = tmp_path_factory.mktemp("mail")
    (folder / "a.jsonl").write_bytes((small_corpus / "a.jsonl").read_bytes())
    texts = [
        ENGLISH.format("me@example.org"),
        ENGLISH.format("you@example.org"),
        FRENCH.format("8.8.8.8"),
    ]
    texts += ["Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw."]
    (folder / "mail.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return folder


@pytest.fixture(scope="module")
def changed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run by a plain loop, and its report."""
    output = tmp_path_factory.mktemp("changed") / "run"
    return output, run_small(folder, output, until=None, **OPTIONS)


@pytest.mark.slow
def test_what_stays_is_changed_before_its_digest_is_taken(changed: tuple[Path, Any]) -> None:
    run, report = changed
    rows = pq.read_table(next((run / "ingest" / "mail").rglob("documents.parquet"))).to_pylist()
    same = ENGLISH.format("[EMAIL]")
    assert [(row["text"], row["language"]) for row in rows] == [
        (same, "en"), (same, "en"), (FRENCH.format("[IP]"), "fr"),
    ]  # fmt: skip
    assert [row["digest"] for row in rows] == [content_digest(row["text"]) for row in rows]
    assert report["documents"]["removed"]["exact"] >= 1, "the two mails are equal now"


@pytest.mark.slow
def test_changes_and_drops_are_counted(changed: tuple[Path, Any]) -> None:
    documents = changed[1]["documents"]
    assert documents["dropped"]["language.other_language"] == 1
    found = documents["changed"]
    assert found["pii.email"] >= 2
    assert found["pii.ip"] >= 1
    assert found["language.filled"] == found["language.documents"] == 3
    assert changed[1]["passed"]
    checked = verify_session(changed[0], workers=0, address=None, stream=None)
    assert checked["passed"]
    assert checked["audit"] is not None
    assert checked["audit"]["findings"] == []


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_two_workers_give_the_bytes_of_a_plain_loop(
    folder: Path, changed: tuple[Path, Any], tmp_path: Path
) -> None:
    again = run_small(folder, tmp_path / "run", workers=2, **OPTIONS)
    folders = ("ingest", "dedup", "tokenizer", "tokens", "datasets")
    assert digests(tmp_path / "run", *folders) == digests(changed[0], *folders)
    assert again["documents"] == changed[1]["documents"]
