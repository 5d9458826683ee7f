"""What measuring growth promises: corpora of a size, whose laps are no duplicates of each other."""

import json
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from growth import MB, ORDERS, Point, make_corpus, markdown, reworded

from stages.dedup.jaccard import jaccard
from stages.dedup.shingles import shingle_set

SPACED = " ".join(f"word{number}" for number in range(200))
UNSPACED = "".join(chr(0x4E00 + number) for number in range(200))


@pytest.mark.parametrize("text", [SPACED, UNSPACED, "one", "one two", ""])
def test_a_lap_has_the_same_words_in_another_order(text: str) -> None:
    assert reworded(text, 0) == text
    for lap in range(1, len(ORDERS) + 1):
        assert Counter(reworded(text, lap).split(" ")) == Counter(text.split(" ")) or text == UNSPACED
        assert Counter(reworded(text, lap)) == Counter(text)


@pytest.mark.parametrize("text", [SPACED, UNSPACED])
def test_no_two_laps_are_near_duplicates(text: str) -> None:
    sets = [shingle_set(reworded(text, lap), size=5) for lap in range(len(ORDERS) + 1)]
    for number, one in enumerate(sets):
        assert all(jaccard(one, other, threshold=0.0) < 0.2 for other in sets[:number])


def test_a_corpus_is_a_sample_or_several_laps(tmp_path: Path) -> None:
    texts = [f"{number} " + SPACED for number in range(400)]
    lines = [json.dumps({"id": f"own-{n}", "text": text, "lang": "en"}) for n, text in enumerate(texts)]
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress("\n".join(lines).encode()))
    whole = sum(map(len, texts))
    part = make_corpus([path], tmp_path / "part", size=whole // 4, whole=whole)
    assert 60 <= part.documents <= 140
    same = make_corpus([path], tmp_path / "same", size=whole, whole=whole)
    assert (same.documents, same.text_bytes) == (400, whole)
    more = make_corpus([path], tmp_path / "more", size=5 * whole // 2, whole=whole)
    records = [
        json.loads(line)
        for file in sorted(more.folder.iterdir())
        for line in zstandard.decompress(file.read_bytes()).splitlines()
    ]
    assert len(records) == more.documents
    assert 1000 <= more.documents <= 1002  # the first ones of a lap have the shorter numbers
    for key in ("id", "text"):
        assert len({record[key] for record in records}) == more.documents
    own = {record["id"]: record["text"] for record in records}
    again = [text for own_id, text in own.items() if own_id.count("-") == 2 and text.endswith(" 1")]
    assert 5 <= len(again) <= 45
    assert all(text.removesuffix(" 1") in texts for text in again)


def test_the_table_has_a_line_for_each_point() -> None:
    point = Point(2, 64, 100 * MB, 7, 12.5, 9.0, 512.0, {}, 33, 2.0, {}, {}, {})
    assert (
        markdown([point, point]).splitlines()[2:]
        == ["| 100 | 7 | 64 | 2 | 12.5 | 0.125 | 9.0 | 512 | 33 |"] * 2
    )
