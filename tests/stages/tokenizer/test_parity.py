"""What parity promises: the same sentences in all languages, and counts that a plain loop gives."""

import pytest
import sentencepiece
from tokenizers import Tokenizer as Library

from stages.errors import ConfigError, DataError
from stages.tokenizer.existing import describe, open_file
from stages.tokenizer.fairness import LanguageCounts, TextCounter
from stages.tokenizer.parity import (
    ParallelTexts,
    compared_rates,
    count_languages,
    measured_as,
    parallel_texts,
    require_reference,
)
from stages.tokenizer.roles import SpecialPieces, find_roles
from tests.stages.tokenizer.existing_files import data_of, kind_of_file, texts

GIVEN = [
    *(text[:300] for text in texts()),
    "plain words\nand lines",
    "\u732b\u304c na\u00efve \U0001f44d\U0001f3fd",
    "\u0e44\u0e17\u0e22 \u1200\u1230",
]


def counter_of(name: str) -> TextCounter:
    kind, data = kind_of_file(name), data_of(name)
    roles = find_roles(describe(data, kind, name=name), SpecialPieces(), name=name)
    return TextCounter(open_file(data, kind, set(roles.ids.values()), name=name))


def test_sentences_that_a_language_lacks_are_left_out_of_all() -> None:
    lines = {"en": ["a", "b", " ", "d"], "de": ["A", "", "C", "D"]}
    assert parallel_texts(lines, name="x") == ParallelTexts({"de": ("A", "D"), "en": ("a", "d")}, 2)


def test_files_of_different_lengths_are_refused_with_the_lengths() -> None:
    with pytest.raises(DataError, match="en has 3, de has 1; add an empty line"):
        parallel_texts({"de": ["a"], "en": ["a", "b", "c"]}, name="x")


def test_no_common_sentence_is_refused_with_the_blanks() -> None:
    with pytest.raises(DataError, match="of 2 lines, blank are in de 1, in en 1; leave out"):
        parallel_texts({"de": ["", "b"], "en": ["a", ""]}, name="x")


def test_an_unknown_reference_is_refused_with_those_that_there_are() -> None:
    require_reference(["fr", "en"], "en", name="x")
    with pytest.raises(ConfigError, match="--reference xx: x has no such language; it has en, fr"):
        require_reference(["fr", "en"], "xx", name="x")


def test_parity_is_the_quotient_of_all_tokens() -> None:
    own = LanguageCounts(pieces=2, bytes=9, characters=8, words=3, tokens=6, unknown=3)
    rates = compared_rates(own, LanguageCounts(tokens=4))
    assert (rates["parity"], rates["tokens_per_text"], rates["unknown"]) == (1.5, 3.0, 0.5)
    assert rates["tokens_per_character"] == 0.75
    assert "parity" not in compared_rates(own, None)


def test_a_byte_level_tokenizer_splits_the_characters_that_a_plain_loop_finds() -> None:
    counter, library = counter_of("gpt2"), Library.from_str(data_of("gpt2").decode())
    split_somewhere = 0
    for text in GIVEN:
        encoding = library.encode(text, add_special_tokens=False)
        owners: list[set[int]] = [set() for _ in text]
        for token, (begin, end) in enumerate(encoding.offsets):
            for place in range(begin, end):
                owners[place].add(token)
        split = [number for number, own in enumerate(owners) if len(own) > 1]
        parts = {token for number in split for token in owners[number]}
        (found,) = counter.count([text])
        assert (found.tokens, found.uncovered, found.byte_tokens) == (
            len(encoding.ids),
            len(split),
            len(parts),
        )
        split_somewhere += len(split)
    assert split_somewhere > 20


def test_byte_pieces_of_sentencepiece_are_counted_with_the_characters_that_they_begin() -> None:
    counter = counter_of("llama-model")
    library = sentencepiece.SentencePieceProcessor(model_proto=data_of("llama-model"))
    bytes_somewhere = 0
    for text in GIVEN:
        ids = library.encode(text)
        values = [int(library.id_to_piece(n)[3:-1], 16) for n in ids if library.is_byte(n)]
        characters = bytes(values).decode(errors="replace")
        (found,) = counter.count([text])
        assert (found.tokens, found.byte_tokens) == (len(ids), len(values))
        assert found.uncovered == len(characters)
        bytes_somewhere += len(values)
    assert bytes_somewhere > 20


@pytest.mark.parametrize("name", ["t5", "bert"])
def test_unknown_characters_are_those_that_are_unknown_alone(name: str) -> None:
    counter, library = counter_of(name), Library.from_str(data_of(name).decode())
    unk = library.token_to_id("[UNK]" if name == "bert" else "<unk>")
    unknown_somewhere = 0
    for text in GIVEN:
        ids = library.encode(text, add_special_tokens=False).ids
        alone = sum(unk in library.encode(one, add_special_tokens=False).ids for one in text)
        (found,) = counter.count([text])
        assert (found.tokens, found.unknown) == (len(ids), ids.count(unk))
        assert found.uncovered == (alone if unk in ids else 0)
        unknown_somewhere += found.unknown
    assert unknown_somewhere > 2


def test_languages_are_summed_over_their_batches() -> None:
    counter = counter_of("gpt2")
    batches = [("en", GIVEN[:3]), ("de", GIVEN[3:5]), ("en", GIVEN[5:])]
    found = count_languages(counter, batches)
    assert found["en"] == sum(counter.count([*GIVEN[:3], *GIVEN[5:]]), LanguageCounts())
    assert found["de"] == sum(counter.count(GIVEN[3:5]), LanguageCounts())


def test_languages_of_a_corpus_are_found_by_the_names_that_people_give_them() -> None:
    measured = ("en", "pt", "zh", "nb", "x-y")
    names = ["en", "pt-BR", "por_Latn", "POR", "cmn_Hani", "no", "x-y", "code-c", "english", "", "x"]
    assert measured_as(names, measured) == {
        "en": "en",
        "pt-BR": "pt",
        "por_Latn": "pt",
        "POR": "pt",
        "cmn_Hani": "zh",
        "no": "nb",
        "x-y": "x-y",
    }
