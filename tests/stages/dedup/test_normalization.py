"""What normalisation promises: what makes no difference changes no shingle, and all else does."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.config import changed_settings
from stages.dedup import compared_texts as compared
from stages.dedup import normalization, shingle_sets
from stages.dedup.compared_texts import (
    compared_sets,
    compared_signatures,
    compared_winnowed,
    distinct_of,
)
from stages.dedup.containment import winnowed
from stages.dedup.lsh import MinHashConfig
from stages.dedup.minhash import signature, signatures
from stages.dedup.normalization import CHARACTERS, ShingleConfig, compared_texts
from stages.dedup.shingles import shingle_hashes, shingle_set
from tests.campaign import examples
from tests.traced_memory import takes_less

ALL = ("case", "digits", "punctuation", "quotes", "unicode")
TEXTS = st.lists(st.text(alphabet="aB ß\n\t>|.,'-12٣ﬁé\u0301猫\u3000=€", max_size=40), max_size=6)


def columns(texts: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts end to end, and where each begins."""
    data = [text.encode() for text in texts]
    return np.frombuffer(b"".join(data), np.uint8), np.cumsum([0, *map(len, data)])


def sets_of(texts: list[str], config: ShingleConfig) -> list[set[int]]:
    """Return the shingles of texts."""
    found = compared_sets(*columns(texts), config)
    return [
        set(part.values[start:end].tolist())
        for part in found
        for start, end in zip(part.ptr[:-1], part.ptr[1:], strict=True)
    ]


def without_marks(line: str) -> str:
    """Return a line without the marks of quotes before it, if it has any."""
    return line.lstrip(" \t>|") if line.lstrip(" \t")[:1] in (">", "|") else line


CASES = {
    "case": ("The Straße ΣΑΣ is long", "the strasse σασ is long"),
    "punctuation": ("Don't stop, (3.14) it-self = x", "dont stop 314 itself  x"),
    "digits": ("on 12.03.2024 at 7", "on 1.99.3 at 123456"),
    "unicode": ("ﬁn Ⅳ Ａ e\u0301 ½", "fin IV A é 1⁄2"),
    "quotes": ("> > as he said\n>| so it is\n  > no", "as he said\nso it is\nno"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_makes_no_difference_changes_no_shingle(name: str) -> None:
    texts = list(CASES[name])
    if name == "punctuation":
        texts[0] = texts[0].replace("Don", "don")
    plain, own = ShingleConfig(size=2), ShingleConfig(size=2, normalize=(name,))
    a, b = sets_of(texts, plain)
    assert a != b
    a, b = sets_of(texts, own)
    assert a == b
    others = tuple(other for other in ALL if other != name)
    a, b = sets_of(texts, ShingleConfig(size=2, normalize=others))
    assert a != b or name == "quotes"  # whose marks are punctuation too


@given(TEXTS, st.sets(st.sampled_from(ALL)), st.sampled_from(["word", "char"]), st.integers(1, 6))
@settings(deadline=None)
def test_texts_are_compared_as_plain_python_says(
    texts: list[str], names: set[str], unit: str, size: int
) -> None:
    config = ShingleConfig.model_validate({"shingle": unit, "size": size, "normalize": sorted(names)})
    expected = []
    for text in texts:
        compared = text
        if "quotes" in names:
            compared = "\n".join(map(without_marks, compared.split("\n")))
        if "unicode" in names:
            compared = unicodedata.normalize("NFKC", compared)
        if "case" in names:
            compared = compared.casefold()
        if "punctuation" in names:
            compared = "".join(c for c in compared if unicodedata.category(c)[0] not in "PS")
        if "digits" in names:
            compared = "".join("0" if c.isdecimal() else c for c in compared)
            while "00" in compared:
                compared = compared.replace("00", "0")
        if unit == "word":
            expected.append(set(shingle_set(compared, size=size).tolist()))
            continue
        letters = "\u2423".join(compared.split())
        expected.append(set(shingle_set(" ".join(letters), size=size).tolist()))
    assert sets_of(texts, config) == expected


def test_the_order_in_the_run_file_makes_no_difference() -> None:
    config = ShingleConfig(normalize=("punctuation", "case", "quotes"))
    assert config.normalize == ("quotes", "case", "punctuation")


def test_nothing_is_copied_where_nothing_is_normalised() -> None:
    data, offsets = columns(["a b", "c"])
    same = compared_texts(data, offsets, ShingleConfig())
    assert same[0] is data
    assert same[1] is offsets


@pytest.mark.parametrize("config", [ShingleConfig(normalize=ALL), ShingleConfig(shingle="char", size=3)])
def test_a_long_text_is_normalised_in_parts(
    config: ShingleConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "> Straße 12\n> 1234 e\u0301 猫が" * 40 + "x" * 300 + "12 34\n" * 50
    text += "座１２る34。ｶﾞが\u3099ไป\u0e33" * 60
    whole = sets_of([text], config)
    monkeypatch.setattr(normalization, "_CHUNK", 64)
    assert sets_of([text], config) == whole
    assert len(list(normalization.chunks(columns([text])[0], config))) > 5


PARTS = ["a", "ß", "ﷺ", "ﷻ", "ﷲ", "㌖", "①", "½", "ﬁ", "e", "\u0301", "\u1161", "\u1100", "\u11a8", "가"]
PARTS += ["\u3099", "か", "猫", "12", ".", "3", ",", "😀", ">", " >", "\n>", " ", "\n"]
PARTS += ["\u3000", "␣", "\u0b3e", "\u0b47"]


@given(
    st.lists(st.sampled_from(PARTS), min_size=20, max_size=120),
    st.sets(st.sampled_from(ALL)),
    st.sampled_from(["word", "char"]),
    st.integers(1, 7),
)
@settings(deadline=None, max_examples=examples(100))
def test_parts_of_a_text_are_compared_as_the_whole(
    parts: list[str], names: set[str], unit: str, size: int
) -> None:
    """Parts of 8 bytes, blocks of 3 tokens: signatures, sets and selected hashes are the same."""
    config = ShingleConfig.model_validate({"shingle": unit, "size": size, "normalize": sorted(names)})
    data, offsets = columns(["".join(parts)])
    whole = shingle_hashes(compared_texts(data, offsets, config)[0], size=size)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(normalization, "_CHUNK", 8)
        patched.setattr(normalization, "_LOOK", 5)
        patched.setattr("stages.dedup.shingles._BLOCK_TOKENS", 3)
        patched.setattr(compared, "LONG_TEXT", 16)
        patched.setattr(shingle_sets, "LONG_TEXT", 16)
        patched.setattr(compared, "_ROOM", 2)
        assert sets_of(["".join(parts)], config) == [set(whole.tolist())]
        signed = compared_signatures(data, offsets, config, num_perm=8)[0]
        selected = compared_winnowed(data, config)
    np.testing.assert_array_equal(signed, signature(whole, num_perm=8))
    np.testing.assert_array_equal(selected, winnowed(whole))


@pytest.mark.parametrize("unit", ["word", "char"])
def test_what_becomes_many_times_as_long_is_not_held(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 32 KiB of U+FDFA, NFKC makes 352 KiB, or 608 with a space behind each character."""
    config = ShingleConfig.model_validate({"shingle": unit, "normalize": ALL})
    monkeypatch.setattr(normalization, "_CHUNK", 1 << 8)
    monkeypatch.setattr("stages.dedup.shingles._BLOCK_TOKENS", 1 << 10)
    for module in (compared, shingle_sets):
        monkeypatch.setattr(module, "LONG_TEXT", 1 << 12)
    monkeypatch.setattr(compared, "_ROOM", 1 << 10)
    long, short = (columns(["ﷺ" * count]) for count in ((32 << 10) // 3, 40))
    list(compared_sets(*long, config))  # compiled before memory is counted
    assert takes_less(256 << 10, lambda: list(compared_sets(*long, config)))
    (sets,) = compared_sets(*long, config)
    np.testing.assert_array_equal(sets.values, next(compared_sets(*short, config)).values)
    signed = compared_signatures(*long, config, num_perm=16)
    np.testing.assert_array_equal(signed, compared_signatures(*short, config, num_perm=16))


def test_distinct_hashes_are_those_of_numpy() -> None:
    rng = np.random.default_rng(5)
    for most in (3, 10**6, 1 << 62):
        sizes = rng.integers(0, 40_000, 9).tolist()
        blocks = [rng.integers(0, most, size).astype(np.uint64) for size in sizes]
        np.testing.assert_array_equal(distinct_of(blocks), np.unique(np.concatenate(blocks)))
    assert not len(distinct_of([]))


def test_characters_that_begin_no_part_do_not_become_much_longer() -> None:
    """So a text in which no part can begin is no larger than what is planned for."""
    config = ShingleConfig(normalize=("unicode", "case"))
    grown = [
        (len(normalization.compared_text(one, config).encode()) / len(one.encode()), one)
        for one in map(chr, range(0x30000))
        if not 0xD800 <= ord(one) < 0xE000 and not normalization.begins_anew(one, config)
    ]
    assert max(grown)[0] <= 4.0


@pytest.mark.parametrize("unit", ["word", "char"])
def test_texts_of_marks_alone_are_like_no_other(unit: str) -> None:
    config = ShingleConfig.model_validate({"shingle": unit, "normalize": ("punctuation",)})
    texts = ["... !", "***", " . ", "\n--\n--\n"]
    assert sets_of(texts, config) == [set()] * len(texts)
    found = signatures(*compared_texts(*columns(texts), config), size=5, num_perm=16)
    assert (found == 0xFFFFFFFF).all()


def test_numbers_that_are_written_with_marks_are_one() -> None:
    config = ShingleConfig(size=1, normalize=("digits", "punctuation"))
    one, *others = sets_of(["at 3.14", "at 314", "at 1,250.00", "at 12/03/2024"], config)
    assert others == [one] * 3


def test_spaces_at_the_ends_of_a_text_make_no_difference() -> None:
    one, other = sets_of([" ab  c\n", "ab c"], ShingleConfig(shingle="char", size=2))
    assert one == other
    assert len(one) == 3  # "ab", "b ", " c"


def test_shingles_of_characters_are_longer_unless_their_size_is_given() -> None:
    assert ShingleConfig().size == 5
    assert ShingleConfig(shingle="char").size == CHARACTERS
    assert MinHashConfig.model_validate({"shingle": "char"}).size == CHARACTERS
    assert ShingleConfig(shingle="char", size=5).size == 5
    assert changed_settings(ShingleConfig(shingle="char")) == {"shingle": "char", "size": CHARACTERS}


def test_marks_are_those_of_unicodes_categories_of_every_character() -> None:
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    kept = "".join(one for one in every if unicodedata.category(one)[0] not in "PS")
    assert len(kept) < len(every) - 8_000
    config = ShingleConfig(normalize=("punctuation",))
    assert normalization.compared_text("".join(every), config) == kept
    mixed = "".join(every[place % len(every)] for place in range(0, 200 * 7_919, 7_919))
    expected = "".join(one for one in mixed if unicodedata.category(one)[0] not in "PS")
    assert normalization.compared_text(mixed, config) == expected != mixed


@given(
    st.text(max_size=8),
    st.sampled_from(["\n", " ", "猫", "が", "ぁ", "\u5000", "\u8fff", "ก", "ฮ"]),
    st.text(),
)
@settings(deadline=None, max_examples=examples(300))
def test_a_text_may_be_cut_before_what_a_cut_looks_for(before: str, first: str, after: str) -> None:
    assert normalization.CUTS.match(first.encode())
    whole = unicodedata.normalize("NFKC", before + first + after)
    assert whole == "".join(unicodedata.normalize("NFKC", part) for part in (before, first + after))


def test_every_character_before_which_a_text_may_be_cut_joins_nothing_before_it() -> None:
    firsts = [one for one in map(chr, range(0xD800)) if normalization.CUTS.match(one.encode())]
    assert len(firsts) > 16_000
    for before in ("a", "か", "\u3099", "\u1100", "\u0e33", "\uff76"):
        for first in firsts:
            assert unicodedata.normalize("NFKC", before + first).endswith(first)
