"""What the offer of a family's framing promises.

It names what the file's models expect around each text and the line that sets it, and says nothing where
the default is that or the file does not tell.
"""

import pytest

from stages.errors import FormatError
from stages.tokenizer.framing import FrameIds
from stages.tokenizer.post_processor import framing_offer
from stages.tokenizer.roles import SpecialPieces, TokenizerDescription, find_roles

LLAMA = {"<s>": 1, "</s>": 2}
BERT = {"[CLS]": 3, "[SEP]": 4}


def offer(
    marks: dict[str, int], frame: FrameIds | None = None, declared: dict[str, int] | None = None
) -> str | None:
    """Return the offer of a file."""
    found = TokenizerDescription(
        9, marks, marks, frozenset(marks.values()), declared or {}, lambda: frame
    )
    return framing_offer(found, find_roles(found, SpecialPieces(), name="x"))


@pytest.mark.parametrize(
    ("marks", "frame", "said"),
    [
        (LLAMA, None, '<s> before each text: set framing.begin = "bos"'),
        (LLAMA, FrameIds(1, None), '<s> before each text: set framing.begin = "bos"'),
        (LLAMA, FrameIds(1, 2), '<s> before and </s> behind each text: set framing.begin = "bos"'),
        (BERT, None, '[CLS] before and [SEP] behind each text: set framing.preset = "bert"'),
        (
            BERT | {"<s>": 1},
            None,
            '[CLS] before and [SEP] behind each text: set framing.preset = "bert"',
        ),
        (BERT, FrameIds(3, 4), '[CLS] before and [SEP] behind each text: set framing.preset = "bert"'),
        ({"<x>": 1}, FrameIds(1, None), '<x> before each text: set framing.preset = "tokenizer"'),
        ({"<x>": 1}, FrameIds(7, None), '7 before each text: set framing.preset = "tokenizer"'),
    ],
)
def test_what_models_expect_is_offered(marks: dict[str, int], frame: FrameIds | None, said: str) -> None:
    assert offer(marks, frame) == f"its models expect {said}"


@pytest.mark.parametrize(
    ("marks", "frame"),
    [
        ({"</s>": 2}, None),
        ({"</s>": 2}, FrameIds(None, 2)),
        (LLAMA, FrameIds(None, None)),
        ({"<|endoftext|>": 1}, None),
    ],
)
def test_nothing_is_offered_where_the_default_is_right(
    marks: dict[str, int], frame: FrameIds | None
) -> None:
    assert offer(marks, frame) is None


def test_one_piece_for_both_ends_and_a_frame_of_several_ids_give_no_wrong_offer() -> None:
    assert offer({"<|endoftext|>": 1}, None, {"bos": 1, "eos": 1}) is None

    def several() -> FrameIds | None:
        raise FormatError("several ids on a side")

    found = TokenizerDescription(9, LLAMA, LLAMA, frozenset({1, 2}), {}, several)
    said = framing_offer(found, find_roles(found, SpecialPieces(), name="x"))
    assert said == 'its models expect <s> before each text: set framing.begin = "bos"'
