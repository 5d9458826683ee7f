"""What training byte-level BPE promises.

Every text comes back, in compiled code as in the library's; special ids are those of every run, and
no text gives one; words end where the published expressions say; bytes are a function of how often
each word occurs.
"""

import json
import os
import random
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.special import num_reserved, special_ids, special_pieces
from stages.tokenizer.train import TrainConfig, train_model
from stages.tokenizer.train_config import PreTokenizer
from tests.campaign import examples
from tests.stages.tokenizer.test_tokenizer import bundled_texts

VOCAB = 1000
SPECIALS = "".join(special_pieces().values())
SAMPLE = [*((text[:4000], 2) for text in islice(bundled_texts(), 40)), (SPECIALS, 9)]


def config_of(**changes: object) -> TrainConfig:
    """Return a training."""
    return TrainConfig.model_validate({"model": "byte_bpe", "vocab_size": VOCAB, **changes})


def opened(data: bytes) -> Tokenizer:
    """Return a tokenizer from its file."""
    return existing_tokenizer(data, TokenizerKind.HUGGING_FACE, special_ids(), name="it")


@pytest.fixture(scope="module", params=list(PreTokenizer))
def cutting(request: pytest.FixtureRequest) -> PreTokenizer:
    """Return each pre-tokenizer."""
    found: PreTokenizer = request.param
    return found


@pytest.fixture(scope="module")
def data(cutting: PreTokenizer) -> bytes:
    """Return a file trained with it."""
    return train_model(SAMPLE, config_of(pre_tokenizer=cutting))


@pytest.fixture(scope="module")
def tokenizer(data: bytes) -> Tokenizer:
    """Return its tokenizer."""
    return opened(data)


def test_special_ids_are_those_of_every_run_and_bytes_follow(data: bytes) -> None:
    found = describe(data, TokenizerKind.HUGGING_FACE, name="it")
    roles = find_roles(found, SpecialPieces(), name="it")
    assert (roles.ids, roles.unsure) == (special_ids(), {})
    assert found.size == VOCAB
    spelled = opened(data).codec.piece_bytes()
    first = num_reserved()
    assert sorted(spelled[first : first + 256]) == [bytes([byte]) for byte in range(256)]
    assert all(len(piece) > 1 for piece in spelled[first + 256 :])


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(text=st.text(st.characters(exclude_characters="\0", codec="utf-8")))
@example(text=SPECIALS)
@example(text="")
@example(text="\u2581a \u2581\r\n\u0663\u0664 \u0e17\u0e35\u0e48 \u0301 \U0001f469\u200d\U0001f467")
@example(text="x" * 70_000 + "\n" * 999)
def test_every_text_comes_back_with_the_ids_of_the_library(tokenizer: Tokenizer, text: str) -> None:
    (ids,) = tokenizer.encode([text])
    assert tokenizer.compiled
    assert ids.tolist() == tokenizer.encode_by_library([text])[0].tolist()
    assert tokenizer.decode([ids]) == [text]
    assert not len(ids) or ids.min() >= num_reserved()


@pytest.mark.parametrize(
    ("rule", "text", "wanted"),
    [
        ("gpt2", "12345 a's\n\n b", ["12345", " a", "'s", "\n\n", " b"]),
        ("llama3", "12345 (ab)\n\n b", ["123", "45", " (", "ab", ")\n\n", " b"]),
        ("qwen2", "123 ab", ["1", "2", "3", " ab"]),
        ("gpt4o", "1234 \u0e17\u0e35\u0e48 aBc", ["123", "4", " \u0e17\u0e35\u0e48", " a", "Bc"]),
    ],
)
def test_words_end_where_the_published_expressions_say(rule: str, text: str, wanted: list[str]) -> None:
    with pytest.raises(VocabularySizeError) as error:
        train_model([(text, 99)], config_of(pre_tokenizer=rule, vocab_size=5000))
    most = config_of(pre_tokenizer=rule, vocab_size=error.value.possible)
    trained = opened(train_model([(text, 99)], most))
    (ids,) = trained.encode([text])
    assert trained.codec.pieces(ids.tolist()) == wanted


def test_a_sample_too_small_is_refused_with_the_vocabulary_that_it_gives() -> None:
    sample = [("low lower lowest " * 5, 1)]
    with pytest.raises(VocabularySizeError, match="1,000: the sample gives at most") as error:
        train_model(sample, config_of())
    assert opened(train_model(sample, config_of(vocab_size=error.value.possible)))
    with pytest.raises(VocabularySizeError):
        train_model(sample, config_of(vocab_size=error.value.possible + 1))


@pytest.mark.parametrize("sample", [[], [("", 3)], [("a", 1)], [("ab", 0)], [("ab", 1)]])
def test_a_sample_without_a_pair_is_refused(sample: list[tuple[str, int]]) -> None:
    with pytest.raises(ConfigError, match="the sample is empty, or too small"):
        train_model(sample, config_of())


@pytest.mark.parametrize(
    "changes",
    [
        {"normalization": "nmt_nfkc"},
        {"character_coverage": 0.99},
        {"model": "bpe", "pre_tokenizer": "gpt2"},
        {"pre_tokenizer": "bert"},
    ],
)
def test_a_setting_without_a_meaning_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=list(changes)[-1]):
        config_of(**changes)


def test_bytes_are_a_function_of_the_counts_of_words() -> None:
    """Words of two letters have many pairs that occur equally often."""
    draw = random.Random(5)  # noqa: S311
    words = ["".join(draw.choices("ab", k=draw.randint(2, 30))) for _ in range(80)]
    sample = [(" ".join(draw.choices(words, k=20)), 1) for _ in range(40)]
    first = train_model(sample, config_of(vocab_size=600))
    for seed in range(5):
        random.Random(seed).shuffle(sample)  # noqa: S311
        assert train_model([*sample, ("", 3)], config_of(vocab_size=600)) == first


def test_another_process_with_other_threads_trains_the_same_bytes(tmp_path: Path) -> None:
    environment = {"RAYON_NUM_THREADS": "2", "PYTHONHASHSEED": "2", "TOKENIZERS_PARALLELISM": "true"}
    sample, config = SAMPLE[:8], config_of(vocab_size=800)
    (tmp_path / "sample.json").write_text(json.dumps(sample), encoding="utf-8")
    code = (
        "import json, sys; from stages.tokenizer.train import TrainConfig, train_model;"
        "from pathlib import Path; place = Path(sys.argv[1]);"
        "sample = json.loads((place / 'sample.json').read_text());"
        "config = TrainConfig.model_validate_json(sys.argv[2]);"
        "(place / 'out').write_bytes(train_model(sample, config))"
    )
    call = [sys.executable, "-c", code, str(tmp_path), config.model_dump_json()]
    subprocess.run(call, env={**os.environ, **environment}, check=True)
    assert (tmp_path / "out").read_bytes() == train_model(sample, config)
