"""What the proof of a tokenizer promises.

Good files of every kind pass; each check fails of a tokenizer that breaks what it checks; stress texts
are the same always and hold what they are for; characters without a piece are counted by block.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.coverage import BLOCKS, characters_of
from stages.tokenizer.existing import existing_tokenizer
from stages.tokenizer.proof import CHECKS, ROUND_TRIP, ProofResult, coverage, prove, untouched
from stages.tokenizer.stress import SPECIAL_PIECES, random_strings, stress_texts
from stages.tokenizer.texts import JoinedTexts, TextIds, joined_ids, joined_texts
from tests.stages.tokenizer.existing_files import FILES, changed, data_of, kind_of_file
from tests.stages.tokenizer.test_existing import controls, tokenizer_of

LIBRARY, UNTOUCHED, NO_SPECIAL, ORDER = CHECKS
STRINGS = 84
ALWAYS_A_SPACE = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
RARE = 1_499
"""An id that none of the texts has."""
Broken = Callable[[Tokenizer], Tokenizer]


def proved(name: str, tokenizer: Tokenizer | None = None) -> ProofResult:
    """Return what is found of a file, or of what is made of it."""
    own = tokenizer_of(name).unguarded() if tokenizer is None else tokenizer
    library = untouched(data_of(name), kind_of_file(name))
    return prove(own, stress_texts(controls(name), strings=STRINGS), library=library)


@pytest.mark.parametrize("name", FILES)
def test_good_files_of_every_kind_pass(name: str) -> None:
    found = proved(name)
    assert not found.failed, {check: found.checks[check].first for check in found.failed}
    total = sum(map(sum, (counts.values() for counts in found.round_trips.values())))
    assert all(check.texts + check.left_out == total for check in found.checks.values())
    assert all(check.texts > total // 3 for check in found.checks.values())
    ways = {way for counts in found.round_trips.values() for way, count in counts.items() if count}
    assert "text" in ways
    assert ("unknown" in ways) == (name in ("bert", "t5", "albert-model"))


class BrokenTokenizer(Tokenizer):
    """A tokenizer of which one thing is wrong."""

    def __init__(self, of: Tokenizer) -> None:
        super().__init__(of.codec, of.special_ids, guarded=False)


class LosesNewlines(BrokenTokenizer):
    """Decodes a text without the line feeds at its end."""

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return what ids spell, but for that."""
        return [text.rstrip("\n") for text in super().decode(ids)]


class LosesTails(BrokenTokenizer):
    """Leaves out what stands behind the 1,000th id of a text, also by its library."""

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return other ids than it should."""
        return joined_ids(
            [ids[:1_000] for ids in super().encode_texts(texts, dtype=dtype).parts()], dtype
        )

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the same."""
        return [ids[:1_000] for ids in super().encode_by_library(texts)]


class CutsElsewhere(BrokenTokenizer):
    """Encodes the two halves of a long text by themselves."""

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return other ids than it should."""
        encode = super().encode_texts
        halves = [(text[: len(text) // 2], text[len(text) // 2 :]) for text in texts.strings()]
        parts = [encode(joined_texts([half.encode() for half in pair]), dtype=dtype) for pair in halves]
        return joined_ids([part.ids for part in parts], dtype)


class RemembersOthers(BrokenTokenizer):
    """Gives the first of many texts an id more."""

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return other ids than it should."""
        first, *rest = super().encode_texts(texts, dtype=dtype).parts()
        return joined_ids([np.append(first, first[-1:]) if len(rest) > 7 else first, *rest], dtype)


def loaded_without_its_special_ids(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer whose library was told of no special id, and so matches them in texts."""
    special = tokenizer.special_ids
    armed = existing_tokenizer(
        data_of("gpt2"), kind_of_file("gpt2"), {"eos": RARE, "pad": RARE}, name="gpt2"
    )
    return Tokenizer(armed.codec, special, guarded=False)


@pytest.mark.parametrize(
    ("broken", "caught"),
    [
        (LosesNewlines, {ROUND_TRIP}),
        (LosesTails, {ROUND_TRIP, UNTOUCHED}),
        (CutsElsewhere, {LIBRARY, UNTOUCHED}),
        (RemembersOthers, {ROUND_TRIP, LIBRARY, UNTOUCHED, ORDER}),
        (loaded_without_its_special_ids, {NO_SPECIAL}),
    ],
)
def test_a_broken_tokenizer_is_caught_by_the_check_of_what_it_breaks(
    broken: Broken, caught: set[str]
) -> None:
    found = proved("gpt2", broken(tokenizer_of("gpt2").unguarded()))
    assert set(found.failed) == caught
    assert all(found.checks[name].first for name in caught)


def test_a_tokenizer_that_need_not_write_every_text_is_caught_too() -> None:
    found = proved("t5", LosesWords(tokenizer_of("t5")))
    assert set(found.failed) == {ROUND_TRIP}


class LosesWords(BrokenTokenizer):
    """Decodes a text without its spaces."""

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return what ids spell, but for that."""
        return [text.replace(" ", "") for text in super().decode(ids)]


def test_a_file_whose_own_library_gives_other_ids_is_caught() -> None:
    other = changed(data_of("gpt2"), pre_tokenizer=ALWAYS_A_SPACE)
    library = untouched(other, kind_of_file("gpt2"))
    found = prove(tokenizer_of("gpt2"), {"words": ["a", " a", "word"]}, library=library)
    assert found.failed == {UNTOUCHED: 2}


def test_the_special_pieces_are_written_out_and_a_normaliser_cannot_make_them() -> None:
    texts = stress_texts(["<mask>"], strings=0)[SPECIAL_PIECES]
    assert "a <mask> b" in texts
    assert "\uff1c\uff4d\uff41\uff53\uff4b\uff1e" in texts
    assert all("\0" not in text for group in stress_texts(["<s>"]).values() for text in group)


def test_random_strings_are_the_same_always_and_of_many_characters() -> None:
    found = list(random_strings(400))
    assert found == list(random_strings(400))
    assert found[:100] == list(random_strings(100))
    assert len(set(found)) > 380
    assert len({one for text in found for one in text}) > 3_000
    "".join(found).encode()  # no half of a character
    every = "".join(text for group in stress_texts([]).values() for text in group)
    in_utf8 = {*range(1, 0x80), *range(0x80, 0xC0), *range(0xC2, 0xF5)}
    assert set(every.encode()) == in_utf8


def test_characters_are_covered_by_a_piece_or_bytes_or_unknown_or_dropped() -> None:
    every = {name: coverage(tokenizer_of(name)) for name in ("gpt2", "llama-model", "bert")}
    for found in every.values():
        assert found.keys() == BLOCKS.keys()
        for name, block in found.items():
            assert block.characters == len(characters_of(name)) > 10
            counted = block.pieces + block.in_bytes + block.unknown + block.dropped
            assert counted == block.characters
            assert bool(block.missing) == (block.pieces < block.characters)
    assert every["gpt2"]["ASCII"].pieces == every["llama-model"]["ASCII"].pieces == 95
    rare = [found["Khmer"] for found in every.values()]
    assert [block.in_bytes for block in rare[:2]] == [rare[0].characters] * 2
    assert rare[2].unknown > 0
    assert rare[2].in_bytes == 0
