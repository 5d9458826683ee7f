"""What sentences promise.

Ends rise to the end of the text; a sentence is no white space alone unless the text is; tokens of any
sizes get the ends of the sentences they lie in; each document's tokens are all in a sentence.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.tokenizer.sentences import sentence_ends, split_sentences, token_ends
from tests.campaign import examples

SENTENCES = [
    ("en", "Mr. Jones left.  Who saw him? I did!\n\nThe end", [15, 29, 36, 45]),
    ("de", "Am 3. Mai z. B. kam er. Dann ging er.", [23, 37]),
    ("ja", "日本語です。二つ目。", [6, 10]),
    ("hi", "यह एक है। दूसरा।", [9, 16]),
    ("en", "no stop", [7]),
    ("en", "", []),
    ("en", " \n ", [3]),
    (None, "One. Two.", [4, 9]),
    ("xx-Unknown", "One. Two.", [4, 9]),
]


@pytest.mark.parametrize(("language", "text", "ends"), SENTENCES)
def test_sentences_end_where_readers_say(language: str | None, text: str, ends: list[int]) -> None:
    assert sentence_ends(text, language).tolist() == ends


any_text = st.text(st.sampled_from('aB. !?\n\t。é猫👍\u0301"(1)'), max_size=60)


@settings(deadline=None, max_examples=examples(300))
@given(any_text, st.sampled_from(["en", "fr", "ja", None]))
def test_ends_rise_to_the_end_of_any_text(text: str, language: str | None) -> None:
    ends = sentence_ends(text, language).tolist()
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(text)] if text else [])
    parts = [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    assert not text.strip() or all(part.strip() for part in parts)


@settings(deadline=None, max_examples=examples(300))
@given(any_text, st.data())
def test_tokens_belong_to_the_sentence_in_which_they_begin(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cuts = data.draw(st.sets(st.integers(1, max(1, len(raw) - 1))))
    bounds = sorted({cut for cut in cuts if cut < len(raw)} | {len(raw)}) if raw else []
    sizes = np.diff([0, *bounds])
    ends = sentence_ends(text, "en")
    found = token_ends(text, ends, sizes).tolist()
    begins = [bound - size for bound, size in zip(bounds, sizes, strict=True)]
    limits = [len(text[:end].encode()) for end in ends]
    expected = sorted({sum(begin < limit for begin in begins) for limit in limits})
    assert found == expected
    assert found[-1:] == ([len(sizes)] if raw else [])


def test_an_eos_belongs_to_the_last_sentence() -> None:
    pieces = [b"", b"One", b".", b" Two", b"\xe7", b"\x8c", b"\xab"]
    assert split_sentences(np.array([1, 2, 3, 2, 0]), "en", pieces).tolist() == [2, 5]
    assert split_sentences(np.array([4, 5, 6, 0]), "en", pieces).tolist() == [4]
    assert split_sentences(np.array([0]), "en", pieces).tolist() == [1]
    assert split_sentences(np.array([], np.int64), "en", pieces).tolist() == []
