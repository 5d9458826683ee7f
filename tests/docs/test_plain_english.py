"""What the documentation promises to a reader whose first language is another one.

Sentences are short, stand the usual way round, and use the words of the field.
"""

import re

import pytest

from tests.docs.prose import LONGEST, Sentence, listed_words, pages, sentences, settings

COINED = listed_words("pages")
INVERTED = re.compile(
    r"^(Not )?[A-Z]\w+(ed|en|wn|de|ld) (is|are) (what|the|a|an|all|only|every|each|those)\b"
    r"|\b(and|nor|neither) so (does|do|is|are|has|have)\b"
    r"|^So (does|do|is|are|has|have) (?!that)"
    r"|^(Nor|Neither) (does|do|is|are|has|have|can)\b"
)
"""A participle before its verb, and a verb before its subject."""
FOUND = [sentence for page in pages() for sentence in sentences(page)]
SETTINGS = list(settings())


def place(sentence: Sentence) -> str:
    """Say where a sentence stands, and what it is."""
    return f"{sentence.page}:{sentence.line}: {sentence.text}"


def test_there_are_sentences_to_look_at() -> None:
    assert len(FOUND) > 1000
    assert len(SETTINGS) > 100
    assert all(len(line) == 2 for line in COINED)


def test_no_sentence_is_long() -> None:
    long = [
        f"{sentence.words} words, {place(sentence)}" for sentence in FOUND if sentence.words > LONGEST
    ]
    assert not long, "\n".join(long)


def test_no_sentence_is_inverted() -> None:
    turned = [place(sentence) for sentence in FOUND if INVERTED.search(sentence.text)]
    assert not turned, "\n".join(turned)


@pytest.mark.parametrize(("word", "instead"), COINED)
def test_no_page_has_a_word_that_we_made_up(word: str, instead: str) -> None:
    pattern = re.compile(word, re.IGNORECASE)
    there = [place(sentence) for sentence in FOUND + SETTINGS if pattern.search(sentence.text)]
    assert not there, f"write {instead!r}:\n" + "\n".join(there)
