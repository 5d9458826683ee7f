"""What the benchmark of filters promises: verdicts are the same if both drop, or keep the same text."""

import json
from pathlib import Path

from filters import Compared, draw, our_verdicts, same_share, table, words_of, write_lines

from stages.filtering.words import split_words


def test_verdicts_are_compared_by_what_stays() -> None:
    ours = ["kept a", "c4.few_sentences", "kept b", "kept c"]
    theirs = ["kept a", "too_few_sentences", "kept x", "curly_bracket"]
    assert same_share(ours, theirs) == 0.5


def test_documents_are_drawn_alike_and_once_whatever_their_order(tmp_path: Path) -> None:
    texts = [f"{number} " + "word " * 60 for number in range(20)]
    for name, some in (("a.jsonl", texts), ("b.jsonl", [*texts[::-1], texts[0]])):
        write_lines(tmp_path / name, ({"text": text} for text in some))
    drawn = draw([tmp_path / "a.jsonl"], 7)
    assert drawn == draw([tmp_path / "b.jsonl"], 7)
    assert len(set(drawn)) == 7


def test_the_peer_is_given_our_words_and_the_sentences_of_every_line() -> None:
    given = words_of("One. Two[1].\n three ")
    assert given["words"] == split_words("One. Two[1].\n three ")
    assert given["sentences"] == {"One. Two[1].": 2, "One. Two.": 2, "three": 1}
    assert json.dumps(given)


def test_our_verdicts_and_the_table() -> None:
    verdicts, seconds = our_verdicts("c4", ["One two three. " * 5, "nothing"])
    assert verdicts[0].startswith("kept ")
    assert verdicts[1] == "c4.few_sentences"
    assert seconds >= 0
    row = Compared("c4", 2, 1, 1.0, 0.5, ours=30.0, theirs=0.5)
    assert table([row]).splitlines()[-1] == "| `c4` | 1 | 100.00% | 50.00% | 30.0 | 0.50 | 60 |"
