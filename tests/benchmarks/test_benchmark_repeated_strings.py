"""What benchmarks/repeated_strings.py counts, beside a plain loop over all windows."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from repeated_strings import Repeated, count_repeated, texts_of


def plain_count(texts: list[str], size: int) -> Repeated:
    """Compare every window with every other, as the definition says it."""
    documents = [text.split() for text in texts]
    windows = [
        (number, start, words[start : start + size])
        for number, words in enumerate(documents)
        for start in range(len(words) - size + 1)
    ]
    inside, of_first = set(), set()
    for at, (number, start, window) in enumerate(windows):
        earlier = any(window == other for _, _, other in windows[:at])
        later = any(window == other for _, _, other in windows[at + 1 :])
        own = {(number, start + word) for word in range(size)}
        inside |= own if earlier or later else set()
        of_first |= own if later and not earlier else set()
    return Repeated(sum(map(len, documents)), len(inside), len(inside - of_first))


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=25).map(" ".join), max_size=6),
    st.integers(1, 9),
)
@example([], 3)
@example(["", "a b", "a b"], 3)
@example(["a b c d e"] * 3, 5)
@example(["a a a a a a"], 3)
@example(["a b", "c a b c"], 3)
def test_it_counts_as_a_plain_loop_does(texts: list[str], size: int) -> None:
    assert count_repeated(texts, size) == plain_count(texts, size)


def test_a_string_of_fifty_words_counts_in_both_copies_and_one_of_forty_nine_does_not() -> None:
    own = [" ".join(f"{name}{number}" for number in range(30)) for name in "xyz"]
    said = " ".join(f"s{number}" for number in range(50))
    assert count_repeated([f"{own[0]} {said} {own[1]}", f"{own[2]} {said}"]) == (190, 100, 50)
    short = said.rsplit(" ", 1)[0]
    assert count_repeated([f"{own[0]} {short} {own[1]}", f"{own[2]} {short}"]) == (188, 0, 0)


def test_folders_of_files_are_read_in_order_of_name(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "third"}) + "\n", "utf-8")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ("first", "zwöter"))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert list(texts_of(tmp_path)) == ["first", "zwöter", "third"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="neither a run nor a folder"):
        list(texts_of(tmp_path / "empty"))


def test_of_a_run_the_kept_documents_are_read(reference: Path) -> None:
    kept = list(texts_of(reference))
    masks = [np.load(path) for path in (reference / "dedup" / "keep").rglob("*.npy")]
    assert len(kept) == sum(int(mask.sum()) for mask in masks) > 100
