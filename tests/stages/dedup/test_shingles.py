"""What shingles and signatures promise.

Both equal a plain reading: tokens by white space or, in unspaced scripts, by character; a hash of
each window's bytes; and datasketch's own MinHash over those bytes, bit for bit.
"""

import unicodedata

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.dedup import shingles
from stages.dedup.minhash import permutations, signature, signature_of
from stages.dedup.normalization import ShingleConfig
from stages.dedup.shingles import (
    hash32,
    shingle_blocks,
    shingle_hashes,
    shingle_set,
    split_tokens,
)
from tests.campaign import examples
from tests.traced_memory import takes_less

TEXTS = {
    "english": "the cat sat on the mat and the cat sat on the mat again",
    "japanese": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    "thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다",
    "mixed": "Tokyo\u3000東京2024年 ｶﾅ nfc\u00e9 𠀀𠀁 x\u00a0y z\u2003w",
    "code": "def f(x):\n    return x + 1  # one\n\n\tif f(2) == 3: pass\n",
    "emoji": "👍🏽 👨‍👩‍👧 ok 👍🏽",
    "one word": "word",
    "fewer words than a shingle": "two words",
    "long word": "x" * 5_000,
    "long": " ".join(f"w{number % 97}" for number in range(5_000)),
}
UNSPACED = (
    *("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC ITERATION", "VERTICAL IDEOGRAPHIC"),
    *("HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "HENTAIGANA"),
    *("THAI", "LAO ", "KHMER", "MYANMAR"),
)
"""How Unicode's names of the letters of scripts without spaces begin."""
MASK = (1 << 64) - 1
GOLDEN_HASH32 = 3318561699
GOLDEN_HASHES = [9203169755258502051, 8271544614612818858]
GOLDEN_PERMUTATIONS = [[3582191691, 4270784983], [1704103302, 4018109721]]
WORDS = st.sampled_from(["a", "b", "the", "猫", "ก", "é", "x猫y", "👍", "ｶ", "\u3007"])
SPACES = st.sampled_from([" ", "\n", "\t", "  ", "\u00a0", "\u3000", "\u1680", "", ""])
PLAUSIBLE = st.lists(st.tuples(WORDS, SPACES).map("".join), max_size=40).map("".join)


def plain_fnv1a(data: bytes) -> int:
    """Return FNV-1a, 64 bits, as its authors publish it."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def plain_hash64(tokens: list[str]) -> int:
    """Return the hash of one shingle by the formula of the module."""
    value = 0
    for token in tokens:
        value = (value * 0x9E3779B97F4A7C15 + plain_fnv1a(token.encode())) & MASK
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return value ^ value >> 33


def windows(text: str, size: int) -> list[list[str]]:
    """Return the shingles of a text; fewer tokens make one."""
    tokens = split_tokens(text)
    if not tokens:
        return []
    return [tokens[n : n + size] for n in range(max(1, len(tokens) - size + 1))]


def reference_signature(text: str, num_perm: int, size: int) -> list[int]:
    """Return datasketch's signature of a text's shingles."""
    sketch = MinHash(num_perm=num_perm, seed=1, scheme="affine32", hashfunc=hash32)
    sketch.update_batch([" ".join(window).encode() for window in windows(text, size)])
    return [int(value) for value in sketch.hashvalues]


def our_signature(text: str, num_perm: int, size: int) -> list[int]:
    """Return our signature of a text."""
    found: list[int] = signature(shingle_hashes(text, size=size), num_perm=num_perm).tolist()
    return found


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the cat\tsat\non  it", ["the", "cat", "sat", "on", "it"]),
        ("猫が座る", ["猫", "が", "座", "る"]),
        ("iPhoneを2台買う", ["iPhone", "を", "2", "台", "買", "う"]),
        ("ไป มา", ["ไ", "ป", "ม", "า"]),
        ("ໄປ ខ្ញុំ မြ", [*"ໄປ", *"ខ្ញុំ", *"မြ"]),
        ("한국어 말", ["한국어", "말"]),
        ("a\u3000b\u00a0c", ["a", "b", "c"]),
        ("𠀀𠀁", ["𠀀", "𠀁"]),
        ("二\u3007二四々a", ["二", "\u3007", "二", "四", "々", "a"]),
        ("。猫。", ["。", "猫", "。"]),
        (" \n\t ", []),
        ("", []),
    ],
)
def test_tokens_are_words_or_characters_of_unspaced_scripts(text: str, tokens: list[str]) -> None:
    assert split_tokens(text) == tokens


def test_unspaced_scripts_are_those_that_unicode_names() -> None:
    alone, joined = 0, 0
    for code in range(0x110000):
        character = chr(code)
        name = unicodedata.name(character, "")
        if not name or unicodedata.category(character)[0] != "L":
            continue
        expected = name.startswith(UNSPACED)
        assert len(split_tokens(f"a{character}b")) == (3 if expected else 1), name
        alone, joined = alone + expected, joined + (not expected)
    assert alone > 90_000
    assert joined > 30_000


@pytest.mark.parametrize(("data", "expected"), [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C)])
def test_the_reference_hash_is_the_published_fnv1a(data: bytes, expected: int) -> None:
    assert plain_fnv1a(data) == expected


def test_hashes_are_golden() -> None:
    assert hash32(b"the cat sat on the") == GOLDEN_HASH32
    assert shingle_hashes("the cat sat on the mat", size=5).tolist() == GOLDEN_HASHES


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [1, 3, 5])
def test_shingle_hashes_equal_the_plain_reading(name: str, size: int) -> None:
    expected = [plain_hash64(window) for window in windows(TEXTS[name], size)]
    assert expected
    assert shingle_hashes(TEXTS[name], size=size).tolist() == expected
    assert shingle_set(TEXTS[name], size=size).tolist() == sorted(set(expected))


@given(st.lists(st.integers(0, 9), max_size=60))
def test_the_set_of_a_text_has_each_of_its_shingles_once(numbers: list[int]) -> None:
    text = " ".join(map(str, numbers))
    found = shingle_set(text, size=1)
    assert found.tolist() == sorted(set(shingle_hashes(text, size=1).tolist()))


@pytest.mark.parametrize("letters", [26, 2])
def test_the_set_of_a_long_text_is_made_in_the_room_of_its_hashes(letters: int) -> None:
    drawn = np.random.default_rng(1).integers(0, letters, 1_000_000)
    text = " ".join(chr(ord("a") + number) for number in drawn.tolist())  # some shingles stand twice
    shingle_set(text[:100], size=5)  # compiled before memory is counted
    room = 8 * (len(text) // 2 + 1)
    assert takes_less(room + len(text) + (4 << 20), lambda: shingle_set(text, size=5))
    found = shingle_set(text, size=5)
    held = found if found.base is None else found.base
    assert (held.nbytes > room // 2) == (letters == 26)
    assert len(found) == 32 if letters == 2 else 900_000 < len(found) < 999_000


@settings(deadline=None, derandomize=True, max_examples=examples(100))
@given(st.text(max_size=60) | PLAUSIBLE, st.integers(1, 6), st.integers(1, 5))
def test_a_text_that_is_hashed_in_blocks_has_the_shingles_of_the_whole(
    text: str, size: int, tokens: int
) -> None:
    expected = [plain_hash64(window) for window in windows(text, size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shingles, "_BLOCK_TOKENS", tokens)
        blocks = list(shingle_blocks(text.encode(), size=size))
        assert shingle_hashes(text, size=size).tolist() == expected
    assert [value for block in blocks for value in block.tolist()] == expected
    assert signature_of(blocks, num_perm=16).tolist() == (
        signature(np.array(expected, np.uint64), num_perm=16).tolist()
    )


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(st.text(max_size=60) | PLAUSIBLE, st.integers(1, 6))
def test_shingle_hashes_of_any_text_equal_the_plain_reading(text: str, size: int) -> None:
    expected = [plain_hash64(window) for window in windows(text, size)]
    assert shingle_hashes(text, size=size).tolist() == expected


def test_every_code_point_is_read_as_python_reads_it() -> None:
    codes = [*range(1, 0xD800), *range(0xE000, 0x33000), *range(0x33000, 0x110000, 101)]
    text = "".join(f"a{chr(code)}" for code in codes)
    parts = [text[start : start + 40_000] for start in range(0, len(text), 40_000)]
    assert len(parts) > 10
    for part in parts:
        tokens = shingle_hashes(part, size=1)
        expected = split_tokens(part)
        assert len(tokens) == len(expected)
        assert tokens[::997].tolist() == [plain_hash64([token]) for token in expected[::997]]


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(st.text(min_size=1, max_size=60) | PLAUSIBLE, st.integers(1, 6))
def test_hash32_of_a_shingles_bytes_is_the_low_half_of_its_hash64(text: str, size: int) -> None:
    hashes = shingle_hashes(text, size=size).tolist()
    assert [hash32(" ".join(window).encode()) for window in windows(text, size)] == [
        value & 0xFFFFFFFF for value in hashes
    ]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("num_perm", [16, 100, 128])
def test_signatures_are_bit_equal_to_datasketch(name: str, num_perm: int) -> None:
    found = our_signature(TEXTS[name], num_perm, 5)
    assert found == reference_signature(TEXTS[name], num_perm, 5)
    assert len(found) == num_perm


@settings(deadline=None, derandomize=True, max_examples=examples(30))
@given(PLAUSIBLE, st.sampled_from([16, 33, 256]), st.integers(1, 5))
def test_signatures_of_any_text_are_bit_equal_to_datasketch(text: str, num_perm: int, size: int) -> None:
    assert our_signature(text, num_perm, size) == reference_signature(text, num_perm, size)


@pytest.mark.parametrize("count", range(10))
def test_every_number_of_shingles_counts_each(count: int) -> None:
    text = " ".join(f"w{number}" for number in range(count))
    assert our_signature(text, 64, 1) == reference_signature(text, 64, 1)


def test_a_signature_depends_on_the_set_alone() -> None:
    hashes = shingle_hashes(TEXTS["long"], size=5)
    shuffled = np.concatenate([hashes[::-1], hashes[:100]])
    assert (signature(hashes, num_perm=64) == signature(shuffled, num_perm=64)).all()


def test_a_text_without_tokens_has_no_shingle_and_a_signature_of_ones() -> None:
    assert shingle_hashes(" \n", size=5).tolist() == []
    assert our_signature(" \n", 16, 5) == [0xFFFFFFFF] * 16


def test_permutations_are_datasketchs() -> None:
    assert permutations(16).shape == (2, 16)
    assert permutations(16)[:, :2].tolist() == GOLDEN_PERMUTATIONS


def test_the_share_of_equal_entries_estimates_the_similarity() -> None:
    base = [f"w{number}" for number in range(400)]
    a, b = (shingle_hashes(" ".join(words), size=1) for words in (base[:300], base[100:]))
    equal = signature(a, num_perm=1024) == signature(b, num_perm=1024)
    assert abs(float(equal.mean()) - 0.5) < 0.06  # |A & B| = 200 of 400; 4 standard deviations


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 101}, {"shingle": "sentence"}])
def test_shingles_out_of_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ShingleConfig.model_validate(wrong)
