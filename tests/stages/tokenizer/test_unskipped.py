"""That training skips no text in silence, and what is left out of texts is counted."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import sentencepiece

from stages.tokenizer.coverage import CharacterCounts, required_characters
from stages.tokenizer.sampling import MAX_PART_BYTES, SPACE_SYMBOL, UNKNOWN_SYMBOL, cut_parts
from stages.tokenizer.sentencepiece_model import SentencePieceModel
from stages.tokenizer.sentencepiece_training import sentencepiece_parts, train_sentencepiece
from stages.tokenizer.train import TRAINERS, TrainConfig, train_model
from stages.tokenizer.train_config import TokenizerModel
from stages.tokenizer.vocabulary_policy import UNITS

WORDS = "low lower lowest new newer newest wide wider widest\n"
LETTERS = "".join(sorted({*WORDS, *"zqvx"} - {" "}))
SAMPLE = [
    (WORDS * 4, 2),
    (f"{UNKNOWN_SYMBOL}zqzq zqzq{UNKNOWN_SYMBOL * 3}", 40),
    (f"{SPACE_SYMBOL}\n", 3),
    (next(cut_parts("vx vx\n  " * 999)), 9),
    ("\0\t\ufeff\ufffd\u2028\u200d\uffff <unk></s> " + UNITS, 2),
    (UNITS, 1),
]


def config_of(model: str, **changes: object) -> TrainConfig:
    """Return a training."""
    return TrainConfig.model_validate({"model": model, "vocab_size": 600, **changes})


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("bpe", {"vocab_size": 560}),
        ("bpe", {"indentation": True, "vocab_size": 565}),
        ("unigram", {"vocab_size": 545}),
    ],
)
def test_the_library_skips_nothing(
    model: str, changes: dict[str, object], capfd: pytest.CaptureFixture[str]
) -> None:
    """The library says in its log what it skips; the log is off but for this."""
    untold = sentencepiece.SentencePieceTrainer.train
    taught: list[str] = []

    def told(**settings: object) -> None:
        sentences = settings.pop("sentence_iterator")
        assert isinstance(sentences, Iterator)
        taught.extend(sentences)
        untold(**{**settings, "sentence_iterator": iter(taught), "minloglevel": 0})

    config = config_of(model, **changes)
    with patch.object(sentencepiece.SentencePieceTrainer, "train", told):
        data = train_sentencepiece(lambda: SAMPLE, config, characters=LETTERS)
    log = capfd.readouterr().err
    assert f"Loaded all {len(taught)} sentences" in log
    assert "kipped" not in log
    assert max(len(text.encode()) for text in taught) <= MAX_PART_BYTES
    learned = [text.decode() for text in SentencePieceModel(data).texts]
    assert any("zq" in text for text in learned)
    assert any("vx" in text for text in learned)


def test_the_librarys_own_symbols_get_no_piece() -> None:
    counts = CharacterCounts()
    counts.add("en", WORDS + SPACE_SYMBOL * 99 + UNKNOWN_SYMBOL * 99)
    characters, _ = required_characters(counts.by_language(), coverage=1.0, most=99)
    assert set(characters) == set(WORDS) - {" "}
    assert train_model(SAMPLE, config_of("bpe", vocab_size=560), characters=characters)


def test_what_is_left_out_of_a_text_is_known() -> None:
    config = config_of("bpe")
    text = f"a{SPACE_SYMBOL}b{UNKNOWN_SYMBOL}{UNKNOWN_SYMBOL}{UNITS[0]}c"
    assert sentencepiece_parts(text, config) == ["ab", f"{UNITS[0]}c"]
    assert sentencepiece_parts(text, config_of("bpe", indentation=True)) == ["ab", "c"]
    assert sentencepiece_parts(f"{SPACE_SYMBOL}\n{UNKNOWN_SYMBOL}", config) == []
    whole = f"{text}\0 \n"
    for model in (TokenizerModel.BYTE_BPE, TokenizerModel.PARITY_BPE):
        parts_of = TRAINERS[model].parts
        assert parts_of(whole, config_of(model)) == [whole]
        assert parts_of("<x>", config_of(model, user_symbols=["<x>"])) == []


@pytest.mark.parametrize("model", ["bpe", "unigram"])
@pytest.mark.parametrize("rare", [1, 30])
def test_text_without_spaces_has_a_piece_for_each_character_that_is_required(
    model: str, rare: int
) -> None:
    """The library takes characters until it has 98% of the text, of those that are required too."""
    common = "".join(map(chr, range(0x4E00, 0x4E00 + 40)))
    seldom = "".join(map(chr, range(0x6E00, 0x6E00 + 60)))
    sample = [(common * 20, 20), (seldom, rare)]
    data = train_model(sample, config_of(model, vocab_size=626), characters=common + seldom)
    learned = {text.decode() for text in SentencePieceModel(data).texts}
    assert learned >= {*common, *seldom}
