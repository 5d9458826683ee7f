r"""What compiled pre-tokenizers promise: the pieces of the library, of every expression that they take.

The expressions are those of well-known models, and made-up ones in which a longer match fails late.
"""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from stages.tokenizer.splitting.automaton import Splits, begin_text, next_pre_token
from stages.tokenizer.splitting.characters import kinds_of
from stages.tokenizer.splitting.pattern import Characters
from stages.tokenizer.splitting.pre_tokenizer import byte_level_splits
from stages.tokenizer.texts import joined_texts
from tests.campaign import FULL, examples, some_of

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
)
MADE_UP = (
    r"a*ab|b{2,3}b|\d",
    r"[ab]*b|a{2,}b?| ",
    r"(?:a|ab)(?:c|bcd)?d|\w",
    r"x(?=y)|y+(?!x)|\P{L}{2}",
    r"(ab?)?\s+|[^a-b]",
    r"(?i:k|'S|a(?:b|x))",
    r"(?:ab|a)+c?|(?:x|xy){2,3}",
    r"a+?b?|x??y|(?:ab){2}",
    r"(?:a|b\s?){2,}(?!d)c|(?=x)\w+|(?!a)\d",
)
LETTERS = (
    "abcdxyksAB'  \n\r\t\x85\u00a0\u2028\u3000129\u00bd\u00b2\u0663.,!/-_\u00e9e\u0301\u01c5\u02b0\u00aa"
    "\u00df\u017f\u212a\u732b\u3042\u30a2\U0001f44d\U0001f3fd\u200d\x00\x7f\u0345\u16ee"
)
TEXTS = (
    st.text(st.sampled_from(LETTERS), max_size=40)
    | st.text(st.sampled_from("abcdxyksS' 12"), max_size=20)
    | st.text(max_size=20)
)


def byte_level(*parts: Any, regex: bool = False) -> Any:
    """Return a pre-tokenizer of some parts and the mapping of bytes behind them."""
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    return pre_tokenizers.Sequence([*parts, last])


def split(pattern: str) -> Any:
    """Return the pre-tokenizer that cuts out what matches an expression."""
    return pre_tokenizers.Split(Regex(pattern), "isolated")


KNOWN = {
    "gpt2": byte_level(regex=True),
    "llama3": byte_level(split(LLAMA3)),
    "qwen": byte_level(split(LLAMA3.replace("{1,3}", ""))),
    "o200k": byte_level(split(O200K)),
    "deepseek": byte_level(*map(split, DEEPSEEK)),
    "starcoder": byte_level(pre_tokenizers.Digits(individual_digits=True), regex=True),
    "digits": byte_level(pre_tokenizers.Digits(individual_digits=False), regex=True),
    "text": byte_level(pre_tokenizers.Split("ab", "isolated"), regex=True),
    "nothing": byte_level(),
    **{f"made-up-{number}": byte_level(split(pattern)) for number, pattern in enumerate(MADE_UP)},
}


def written(pre_tokenizer: Any) -> Any:
    """Return a pre-tokenizer as a file has it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizer
    return json.loads(made.to_str())["pre_tokenizer"]


def splits_of(pre_tokenizer: Any) -> Splits:
    """Return the programs of a pre-tokenizer."""
    found = byte_level_splits(written(pre_tokenizer))
    assert found is not None
    return found


def pieces_of(text: str, splits: Splits) -> list[str]:
    """Return the pieces of a text, in compiled code."""
    data, found, place = joined_texts([text.encode()]).data, [], 0
    end = len(text.encode())
    begin_text(0, end, splits)
    while place < end:
        begin, place = place, next_pre_token(place, data, splits)
        found.append(data[begin:place].tobytes().decode())
    return found


def library_pieces(text: str, pre_tokenizer: Any) -> list[str]:
    """Return the pieces of a text as the library cuts it."""
    return [text[begin:end] for _, (begin, end) in pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", KNOWN)
def test_pieces_are_the_librarys(name: str) -> None:
    splits = splits_of(KNOWN[name])

    @settings(deadline=None, derandomize=True, max_examples=examples(300))
    @given(TEXTS)
    @example("it's IT'S he'LL 've'Re'\u017f 1234567 \n\n  x\t\n  ")
    @example("  a   b\r\n\r\n   \n c     ")
    @example("aaab xxy xy aab")
    def cuts(text: str) -> None:
        assert pieces_of(text, splits) == library_pieces(text, KNOWN[name])

    cuts()


@pytest.mark.parametrize("name", some_of(["gpt2", "llama3", "o200k", "deepseek", "starcoder"], 3))
def test_every_character_is_cut_as_by_the_library(name: str) -> None:
    splits = splits_of(KNOWN[name])
    in_use = [*range(1, 0xD800), *range(0xE000, 0x34000)]
    rare = [*range(0x34000, 0xE0000, 97), *range(0xE0000, 0xE1000), *range(0xE1000, 0x110000, 97)]
    points = [*in_use[:: 1 if FULL else 13], *rare]
    for start in range(0, len(points), 20_000):
        text = "".join(f"a{chr(point)}1{chr(point)} " for point in points[start : start + 20_000])
        assert pieces_of(text, splits) == library_pieces(text, KNOWN[name])


TABLES = {r"\p{L}", r"[^\r\n\p{L}\p{N}]"}
"""Sets that are held to the library at every character in use."""


@pytest.mark.parametrize(
    "pattern",
    [r"\p{L}", r"\s", r"\D", r"\P{Lu}", r"[^\r\n\p{L}\p{N}]", "(?i:s)", "(?i:K)", "[a-f\u4e00-\u9fa5]"],
)
def test_sets_are_those_of_the_library(pattern: str) -> None:
    program = splits_of(byte_level(split(f"{pattern}x")))
    inside = program.moves[program.starts[0] + program.kinds] != 0
    assert inside.shape == (0x110000,)
    in_use = 0x34000 if FULL or pattern in TABLES else 0x2130
    rare = [*range(0x4DFE, 0x4E02), 0x1F44D, 0x50000, 0x9FFFF, 0xE0001, 0x10FFFF]
    points = np.array([*range(min(in_use, 0xD800)), *range(0xE000, in_use), *rare])
    taken_out = pre_tokenizers.Split(Regex(pattern), "removed")
    expected = np.ones(len(points), np.bool_)
    for _, (begin, end) in taken_out.pre_tokenize_str("".join(map(chr, points))):
        expected[begin:end] = False
    assert 0 < np.count_nonzero(expected) < len(points)
    np.testing.assert_array_equal(points[inside[points] != expected], [])


@pytest.mark.parametrize(
    "pattern",
    [
        "a*",
        "(?:a|b?)",
        "a{2}+",
        "a{2,3}?",
        "a++",
        "(?:a*)*b",
        "a{5000}",
        "(?:a|b)*a(?:a|b){12}",
        "a{,3}",
        "(?<=a)b",
        "^a",
        "a$",
        ".",
        r"\bword",
        r"\x41",
        "[[:alpha:]]",
        "[a-z&&[^b]]",
        "[a&&b]",
        "(?i:[a-z])",
        "(?i:ss)",
        "(?i:\u00e9)",
        "(?<name>a)",
        r"a\1",
        "(a",
        "a)",
        "[a",
        "[]",
        "[z-a]",
        "a{3,2}",
        "a|",
        "",
    ],
)
def test_other_expressions_are_left_to_the_library(pattern: str) -> None:
    split_by = {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {"Regex": pattern}}
    last = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    assert byte_level_splits({"type": "Sequence", "pretokenizers": [split_by, last]}) is None


def test_other_pre_tokenizers_are_left_to_the_library() -> None:
    mapping = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    cut = {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {"Regex": "a"}}
    assert byte_level_splits(mapping) is not None
    others: tuple[object, ...] = (
        None,
        [],
        {"type": "Whitespace"},
        cut,
        mapping | {"add_prefix_space": True},
        {"type": "Sequence", "pretokenizers": []},
        {"type": "Sequence", "pretokenizers": [mapping, cut]},
        {"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, mapping]},
        {"type": "Sequence", "pretokenizers": [cut | {"behavior": "Removed"}, mapping]},
        {"type": "Sequence", "pretokenizers": [cut | {"invert": True}, mapping]},
        {"type": "Sequence", "pretokenizers": [cut | {"pattern": "a"}, mapping]},
    )
    for other in others:
        assert byte_level_splits(other) is None, other


def test_sets_of_characters_are_as_many_as_a_word_has_bits() -> None:
    sets = [Characters(frozenset({chr(0x4E00 + number)})) for number in range(65)]
    kinds = kinds_of(sets[:64])
    assert len(kinds.sets) == 65, "each character of a set is of a kind, and all others are of one"
    for number in range(64):
        assert kinds.sets[kinds.of[0x4E00 + number]] == 1 << number
    with pytest.raises(ValueError, match="65 sets of characters"):
        kinds_of(sets)
