"""What benchmarks/contamination.py promises: items of each kind in a small corpus, judged as by runs."""

import json
from pathlib import Path

import contamination_items
import numpy as np
import pytest
from contamination import measure, score, table_of
from contamination_items import GramCounts, Item, without_collections

WORDS = [f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(400)]
PHRASE = "every common phrase of this small corpus stands in some of its documents by nature today"


def texts(count: int) -> list[str]:
    """Return texts of random words, of which some have a phrase."""
    draw = np.random.default_rng(3)
    found = []
    for number in range(count):
        lines = [" ".join(draw.choice(WORDS, 130)) for _ in range(3)]
        if number % 5 == 1:
            lines.insert(1, f"{PHRASE} number {number}")
        if number % 60 == 2:
            lines.insert(2, " ".join(reversed(PHRASE.split())))
        found.append("\n".join(lines))
    return found


@pytest.mark.campaign
def test_items_of_all_kinds_are_planted_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contamination_items, "PLANTED", 8)
    monkeypatch.setattr(contamination_items, "COPIES", {2: 4})
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(400)))
    quotation = "a quotation that nobody has in any document of this small corpus at all today"
    found = measure(corpus, tmp_path / "work", most=1 << 30, quotations=[quotation], seed=1)
    assert found["run"]["recall"] == 1.0
    assert found["run"]["precision"] == 1.0
    assert found["rules"]["plain"]["precision"] < 1.0
    assert found["rules"]["20 words, or whole"] == found["run"]
    forms = set(found["run"]["items"])
    assert {name for name in forms if name.startswith("planted in 1")} == {
        f"planted in 1: {form}" for form in contamination_items.FORMS
    }
    assert any("more than 10 documents" in name for name in forms)
    assert any("2 to 10 documents" in name for name in forms)
    assert "| the run | 8 |" in table_of(found)


def test_counts_are_of_documents() -> None:
    words = WORDS[:20]
    counts = GramCounts([" ".join(words), " ".join([*words, *words]), "none"])
    assert counts.documents(words).tolist() == [2] * 8
    assert counts.documents(WORDS[100:120]).tolist() == [0] * 8
    assert counts.documents(["too", "few"]).tolist() == []


def test_recall_and_precision_are_of_items_that_are_planted_once() -> None:
    items = [Item("", "planted", "whole")] * 4 + [
        Item("", "planted", "whole", 2),
        Item("", "phrase", "x"),
    ]
    judged = score(items, [True, True, True, False, True, True])
    assert (judged.recall, judged.precision) == (0.75, 0.75)


def test_collections_of_quotations_are_left_out() -> None:
    quotations = [" ".join(WORDS[first : first + 14]) for first in range(0, 140, 14)]
    documents = ["plain text", quotations[0], "\n".join(quotations)]
    assert without_collections(documents, quotations) == documents[:2]
