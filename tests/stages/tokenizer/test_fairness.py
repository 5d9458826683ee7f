"""What fairness promises: counts add up field by field, rates are as written out."""

from dataclasses import fields
from pathlib import Path

from stages.tokenizer.encode import load_trained
from stages.tokenizer.fairness import LanguageCounts, TextCounter, rates_of
from stages.tokenizer.train import TrainConfig, train_model


def test_counts_add_up_field_by_field() -> None:
    names = [one.name for one in fields(LanguageCounts)]
    one = LanguageCounts(*(3 * 10**place for place in range(len(names))))
    other = LanguageCounts(*(10**place for place in range(len(names))))
    assert one + other == LanguageCounts(*(4 * 10**place for place in range(len(names))))
    assert one + LanguageCounts() == one


def test_rates_are_as_written_out() -> None:
    counts = LanguageCounts(
        pieces=1, bytes=31, characters=11, words=3, tokens=7, byte_tokens=3, uncovered=1
    )
    assert rates_of(counts) == {
        "bytes": 31,
        "characters": 11,
        "words": 3,
        "tokens": 7,
        "bytes_per_token": 4.4286,
        "characters_per_token": 1.5714,
        "tokens_per_word": 2.3333,
        "byte_fallback": counts.byte_fallback,
        "uncovered_characters": 0.090909,
    }
    assert counts.byte_fallback == 0.428571


def test_texts_are_counted_with_the_characters_that_are_written_as_bytes(tmp_path: Path) -> None:
    sample = [("the cat sat on the mat and ran\n", 9), ("another rat sat there then\n", 5)]
    model = train_model(sample, TrainConfig(vocab_size=550), characters="\n")
    (tmp_path / "t.model").write_bytes(model)
    tokenizer = load_trained(tmp_path / "t.model")
    text = "the \u732b sat\n\u00e9"
    found, nothing = TextCounter(tokenizer.codec).count([text, ""])
    assert found == LanguageCounts(
        pieces=1,
        bytes=len(text.encode()),
        characters=11,
        words=4,
        tokens=len(tokenizer.encode([text])[0]),
        byte_tokens=5,
        uncovered=2,
    )
    assert nothing == LanguageCounts(pieces=1)
