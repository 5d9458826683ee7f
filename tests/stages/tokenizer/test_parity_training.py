"""What training parity-aware BPE promises.

The language that takes most tokens for the same text gets the next merge; languages without parallel
text count as one more; bytes are a function of how often each word occurs in each language.
"""

import json
import random

import pytest

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.byte_level_training import train_byte_bpe
from stages.tokenizer.existing import TokenizerKind, existing_tokenizer
from stages.tokenizer.parity_training import _spread, train_parity_bpe
from stages.tokenizer.special import special_ids
from stages.tokenizer.train import TrainConfig

EN, DE, FI = "the cat sat on the mat and slept", "die katze lag auf der matte", "kissa nukkui matolla"
SAMPLE = [("en", f"{EN} ", 400), ("de", f"{DE} ", 20), ("fi", f"{FI} ", 4), ("x", "zq zz\n" * 9, 1)]
PARALLEL = {"de": [DE], "en": [EN], "fi": [FI], "sw": ["paka"]}


def config_of(vocab_size: int) -> TrainConfig:
    """Return a training."""
    return TrainConfig.model_validate({"model": "parity_bpe", "vocab_size": vocab_size})


def tokens(data: bytes) -> list[int]:
    """Return how many tokens the same text has in each language."""
    tokenizer = existing_tokenizer(data, TokenizerKind.HUGGING_FACE, special_ids(), name="it")
    assert tokenizer.compiled
    found = tokenizer.encode([EN, DE, FI])
    assert tokenizer.decode(found) == [EN, DE, FI]
    return list(map(len, found))


def test_the_language_that_takes_most_tokens_gets_the_next_merge() -> None:
    few = 525 + 22
    balanced = tokens(train_parity_bpe(SAMPLE, config_of(few), parallel=PARALLEL))
    plain = tokens(train_byte_bpe([(text, copies) for _, text, copies in SAMPLE], config_of(few)))
    assert max(balanced) - min(balanced) < 4
    assert max(plain) - min(plain) > 8, "English would be served first"


def test_languages_without_parallel_text_are_learned_too() -> None:
    only = {"en": [EN], "de": [DE]}
    data = train_parity_bpe(SAMPLE, config_of(525 + 50), parallel=only)
    tokenizer = existing_tokenizer(data, TokenizerKind.HUGGING_FACE, special_ids(), name="it")
    assert b"zq" in tokenizer.codec.piece_bytes()


def test_bytes_are_a_function_of_the_counts_of_words() -> None:
    draw = random.Random(3)  # noqa: S311  # which words, not what bytes
    sample = [
        (language, " ".join("".join(draw.choices("ab", k=draw.randint(2, 9))) for _ in range(40)), 2)
        for language in ("en", "de", "fi")
        for _ in range(9)
    ]
    first = train_parity_bpe(sample, config_of(600), parallel=PARALLEL)
    for _ in range(3):
        draw.shuffle(sample)
        assert train_parity_bpe(sample, config_of(600), parallel=PARALLEL) == first


def test_what_cannot_be_trained_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VocabularySizeError, match="the sample gives at most"):
        train_parity_bpe(SAMPLE, config_of(32_000), parallel=PARALLEL)
    with pytest.raises(ConfigError, match=r"parallel text is there for en, and two are needed"):
        train_parity_bpe(SAMPLE, config_of(600), parallel={"en": [EN]})
    monkeypatch.delattr("stages.tokenizer.parity_training.trainers.ParityBpeTrainer")
    with pytest.raises(ConfigError, match=r"install tokenizers >= 0\.23"):
        train_parity_bpe(SAMPLE, config_of(600), parallel=PARALLEL)


@pytest.mark.parametrize(
    ("wanted", "lines"), [(6, "ace"), (12, "abcdef"), (4, "ad"), (30, "aabbccddeeff" + "ace")]
)
def test_lines_are_taken_evenly(wanted: int, lines: str) -> None:
    taken = _spread([("a\nb\nc\n", 1), ("d\ne\nf\n", 7)], wanted)
    assert sorted(taken) == sorted(f"{line}\n" for line in lines)


def test_ties_of_languages_and_of_pairs_are_settled_without_hash_maps() -> None:
    """The trainer's maps by hash are others in each process; here all languages and pairs tie."""
    letters = {"en": "abcd", "de": "efgh", "fi": "ijkl", "sv": "mnop", "zz": "qrst"}
    sample = [
        (language, " ".join(one + two for one in own for two in own), 3)
        for language, own in letters.items()
    ]
    parallel = {language: [own[:2], own[2:]] for language, own in letters.items() if language != "zz"}
    data = train_parity_bpe(sample, config_of(590), parallel=parallel)
    merges = ["".join(pair) for pair in json.loads(data)["model"]["merges"]]
    space = "\u0120"
    assert merges[:9] == [*(space + last for last in "tsrqhgfe"), f"{space}hh"], "the greatest first"
