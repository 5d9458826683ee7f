"""What the length filter promises.

Documents without visible text always go; others go if they have fewer visible characters than the
bound; the verdict is that of the plain definition.
"""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.filtering import length
from stages.filtering.length import EMPTY, TOO_SHORT, LengthFilter, length_verdict, length_verdicts
from tests.campaign import examples

TEXTS = st.text(st.sampled_from("ab é猫\n\t\u00a0\u3000\u200b"), max_size=12) | st.text(max_size=8)


def reasons(texts: list[str], min_chars: int) -> list[str | None]:
    """Return the reason of each verdict."""
    verdicts = length_verdicts(texts, LengthFilter(min_chars=min_chars))
    return [verdict and verdict[0] for verdict in verdicts]


def plain_reason(text: str, min_chars: int) -> str | None:
    """Return the reason by the definition: characters that are not white space, counted."""
    visible = sum(not character.isspace() for character in text)
    if visible == 0:
        return EMPTY
    return TOO_SHORT if visible < min_chars else None


def test_verdicts_are_as_written_out() -> None:
    assert length_verdicts(["", "ab cd", "abcdef"], LengthFilter(min_chars=5)) == [
        (EMPTY, "no character but white space"),
        (TOO_SHORT, "4 characters; min_chars = 5"),
        None,
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t\u00a0\u3000", " " * 100])
def test_white_space_alone_is_empty_under_every_bound(text: str) -> None:
    assert [reasons([text], bound)[0] for bound in (1, 2, 100)] == [EMPTY] * 3


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(st.lists(TEXTS, max_size=6), st.integers(1, 6))
def test_verdicts_equal_the_plain_definition(texts: list[str], min_chars: int) -> None:
    assert reasons(texts, min_chars) == [plain_reason(text, min_chars) for text in texts]


def test_every_short_text_equals_the_plain_definition() -> None:
    texts = ["".join(letters) for size in range(8) for letters in product("a ", repeat=size)]
    assert len(texts) == 255
    for min_chars in range(1, 5):
        assert reasons(texts, min_chars) == [plain_reason(text, min_chars) for text in texts]


def test_the_least_bound_is_one() -> None:
    assert LengthFilter().min_chars == 1
    with pytest.raises(ValidationError, match="min_chars"):
        LengthFilter(min_chars=0)


@settings(deadline=None, derandomize=True, max_examples=examples(200))
@given(TEXTS, st.integers(1, 6), st.integers(1, 3))
def test_a_text_that_is_read_in_stretches_has_the_verdict_of_the_whole(
    text: str, min_chars: int, stretch: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length, "_FIRST_BYTES", stretch)
        patch.setattr(length, "_BYTES", stretch)
        verdict = length_verdict(text.encode(), LengthFilter(min_chars=min_chars))
    assert (verdict and verdict[0]) == plain_reason(text, min_chars)
