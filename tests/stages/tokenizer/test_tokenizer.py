"""What the tokenizer promises.

Every cleaned text comes back from its ids, byte for byte, and no text gives a special id; training is
a function of its sample, and a vocabulary that cannot be is refused with the bound.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.cleaning.text import clean_text
from stages.errors import ConfigError, FormatError
from stages.reading.decompress import stream_chunks
from stages.reading.jsonl import FieldMapping, RawDocument, parse_line
from stages.reading.lines import split_lines
from stages.tokenizer.encode import Tokenizer
from stages.tokenizer.sampling import SPACE_SYMBOL, cut_pieces
from stages.tokenizer.special import control_symbols, num_reserved, special_ids
from stages.tokenizer.train import TrainConfig, train_model

CORPUS = Path(__file__).resolve().parents[3] / "examples" / "corpus"
FILE_BYTES = 60_000
"""Text taken of each bundled file."""
CONFIG = TrainConfig(vocab_size=1536, character_coverage=0.98)
SMALL = [
    ("the cat sat on the mat and then ran to the other cat\nwhile another rat sat there\n", 3),
    ("x = f(x)\n\treturn 12345\n\treturn f(x) + another(x)\n", 2),
    ("that other mat is the one that the rat had sat on\n", 1),
]
SMALL_VOCAB = 570
LITERALS = [
    "",
    " ",
    "  a  ",
    "\n\n\na\n",
    "\tdef f(x):\n\t\treturn  x\n",
    "a\u2581b",
    "\u2581",
    "\u2581\u2581 \u2581",
    " \u2581\n\u2581 a",
    "\ufffd",
    "a\ufffdb \ufffd",
    "\u2047 \u2585",
    "👍🏽 👨‍👩‍👧 🇳🇴",
    "\u200b\u00ad\u202e\ufeff",
    "\U0010ffff\uffff\ufdd0\ue000",
    "𠀀 ក្នុង မြန်မာ བོད",
    "<0x41><0xE2>",
    "<s></s><unk>",
    "</s><s><pad><mask><sentinel_0>",
    "1234567890 0000",
]
ODD = st.lists(
    st.sampled_from(
        [" ", "\n", "\t", "\u2581", "\ufffd", "\u00a0", "a", "é", "猫", "👍", "</s>", "<0x0A>", "1"]
    ),
    max_size=15,
).map("".join)


def bundled_texts() -> Iterator[str]:
    """Give the first texts of each bundled file, cleaned."""
    for path in sorted(CORPUS.rglob("*.jsonl*")):
        taken = 0
        for line in split_lines(stream_chunks(path), max_bytes=1 << 20):
            document = parse_line(line, FieldMapping())
            assert isinstance(document, RawDocument)
            taken += line.size
            if taken > FILE_BYTES:
                break
            yield clean_text(document.text)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Give some of the bundled texts, of code and of many languages."""
    found = list(bundled_texts())
    assert len(found) > 50
    assert sum(map(len, found)) > 200_000
    return found


@pytest.fixture(scope="module")
def place(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file of a model trained on them."""
    sample = [(piece, 1) for text in texts for piece in cut_pieces(text)]
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    path.write_bytes(train_model(sample, CONFIG))
    return path


@pytest.fixture(scope="module")
def tokenizer(place: Path) -> Tokenizer:
    """Give that model, loaded."""
    return Tokenizer.load(place)


def check_round_trip(tokenizer: Tokenizer, texts: list[str]) -> None:
    """Hold that texts come back, and that no special id is among their ids."""
    encoded = tokenizer.encode(texts)
    assert tokenizer.decode(encoded) == texts
    for text, ids in zip(texts, encoded, strict=True):
        assert ids.dtype == np.int32
        assert bool(len(ids)) == bool(text)
        assert ((ids >= num_reserved()) & (ids < tokenizer.vocab_size)).all(), text


def test_the_bundled_texts_come_back(tokenizer: Tokenizer, texts: list[str]) -> None:
    check_round_trip(tokenizer, texts)


def test_the_model_compresses(tokenizer: Tokenizer, texts: list[str]) -> None:
    tokens = sum(len(ids) for ids in tokenizer.encode(texts))
    assert sum(len(text.encode()) for text in texts) > 1.5 * tokens


@pytest.mark.parametrize("text", LITERALS)
def test_texts_that_are_easily_lost_come_back(tokenizer: Tokenizer, text: str) -> None:
    check_round_trip(tokenizer, [text])


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.lists(st.text(max_size=30) | ODD, max_size=5))
@example(["\u2581", "a \u2581", ""])
def test_every_clean_text_comes_back(tokenizer: Tokenizer, texts: list[str]) -> None:
    check_round_trip(tokenizer, [clean_text(text) for text in texts])


def test_every_character_comes_back(tokenizer: Tokenizer) -> None:
    codes = [code for code in range(0x20, 0x110000) if not 0xD800 <= code < 0xE000]
    codes = [*codes[:0x3000], *codes[0x3000::37]]
    batches = ["".join(map(chr, codes[start : start + 500])) for start in range(0, len(codes), 500)]
    assert len(batches) > 70
    check_round_trip(tokenizer, [clean_text(batch) for batch in batches])


def test_the_space_symbol_is_written_as_its_bytes(tokenizer: Tokenizer) -> None:
    is_byte = tokenizer.byte_ids()
    (ids,) = tokenizer.encode(["a\u2581b"])
    assert is_byte.sum() == 256
    assert is_byte[ids[1:-1]].tolist() == [True] * 3
    assert not is_byte[ids[[0, -1]]].any()


def test_ids_do_not_depend_on_their_batch(tokenizer: Tokenizer, texts: list[str]) -> None:
    together = tokenizer.encode([*LITERALS, *texts[:20]])
    alone = [tokenizer.encode([text])[0] for text in [*LITERALS, *texts[:20]]]
    assert [ids.tolist() for ids in together] == [ids.tolist() for ids in alone]


def test_special_ids_decode_to_nothing(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode(["a cat"])
    special = np.arange(1, num_reserved(), dtype=np.int32)
    assert tokenizer.decode([np.concatenate([special, ids, special]), special]) == ["a cat", ""]


def test_the_model_has_the_special_ids_and_the_size_asked_for(tokenizer: Tokenizer, place: Path) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(place))
    assert tokenizer.vocab_size == CONFIG.vocab_size
    assert (tokenizer.eos, tokenizer.pad) == (2, 3)
    for name, number in special_ids().items():
        assert processor.id_to_piece(number) == f"<{name}>".replace("bos", "s").replace("eos", "/s")
        assert processor.is_control(number) == (name != "unk")
    assert not any(processor.is_control(n) for n in range(num_reserved(), CONFIG.vocab_size))


def test_training_twice_gives_the_same_bytes() -> None:
    config = TrainConfig(vocab_size=SMALL_VOCAB)
    assert train_model(SMALL, config) == train_model(iter(SMALL), config)


def test_copies_count_as_often_as_they_are(tmp_path: Path) -> None:
    config = TrainConfig(vocab_size=SMALL_VOCAB)
    repeated = [(piece, 1) for piece, copies in SMALL for _ in range(copies)]
    assert pieces_of(train_model(SMALL, config), tmp_path) == pieces_of(
        train_model(repeated, config), tmp_path
    )
    assert pieces_of(train_model(SMALL, config), tmp_path) != pieces_of(
        train_model([(SMALL[0][0], 1), (SMALL[1][0], 9), SMALL[2]], config), tmp_path
    )


def pieces_of(model: bytes, folder: Path) -> list[str]:
    """Give the pieces of a model."""
    (folder / "some.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "some.model"))
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def test_the_space_symbol_is_not_learned_from(tmp_path: Path) -> None:
    config = TrainConfig(vocab_size=SMALL_VOCAB)
    with_symbols = [(SPACE_SYMBOL.join(piece), copies) for piece, copies in SMALL]
    found = pieces_of(train_model([*with_symbols, (SPACE_SYMBOL, 5)], config), tmp_path)
    assert found == pieces_of(train_model(SMALL, config), tmp_path)


def test_a_vocabulary_too_large_is_refused_with_the_largest_that_is_not() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.train\.vocab_size = 32,000: .* at most") as error:
        train_model(SMALL, TrainConfig())
    bound = re.search(r"set it to ([\d,]+) or less", str(error.value))
    assert bound
    largest = int(bound[1].replace(",", ""))
    assert train_model(SMALL, TrainConfig(vocab_size=largest))
    with pytest.raises(ConfigError, match=f"{largest + 1}: "):
        train_model(SMALL, TrainConfig(vocab_size=largest + 1))


def test_a_vocabulary_too_small_for_the_characters_is_refused() -> None:
    sample = [("".join(map(chr, range(0x4E00, 0x4E00 + 200))), 1)]
    with pytest.raises(ConfigError, match=r"tokenizer\.train\.vocab_size = 600: "):
        train_model(sample, TrainConfig(vocab_size=600, character_coverage=1.0))


@pytest.mark.parametrize("sample", [[], [("", 1)], [(SPACE_SYMBOL, 3)], [("text", 0)]])
def test_an_empty_sample_is_refused(sample: list[tuple[str, int]]) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.train"):
        train_model(sample, TrainConfig(vocab_size=600))


@pytest.mark.parametrize(
    "wrong",
    [
        {"vocab_size": 526},
        {"model": "unigram"},
        {"character_coverage": 0.979},
        {"character_coverage": 1.1},
    ],
)
def test_a_training_out_of_bounds_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TrainConfig.model_validate(wrong)


@pytest.mark.parametrize("coverage", [0.98, 1.0])
def test_the_bounds_of_coverage_are_the_trainers(coverage: float) -> None:
    assert train_model(SMALL, TrainConfig(vocab_size=SMALL_VOCAB, character_coverage=coverage))


def foreign_model(settings_: dict[str, Any]) -> bytes:
    """Give a model that somebody else trained."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([piece for piece, _ in SMALL]),
        model_writer=model,
        model_type="bpe",
        minloglevel=2,
        **settings_,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    "settings_",
    [
        {"vocab_size": 40},
        {"vocab_size": 320, "byte_fallback": True},
        {
            "vocab_size": SMALL_VOCAB,
            "byte_fallback": True,
            "pad_id": 3,
            "control_symbols": list(reversed(control_symbols())),
        },
    ],
    ids=["fewer ids", "other ids", "other order"],
)
def test_a_model_without_our_special_ids_is_refused(tmp_path: Path, settings_: dict[str, Any]) -> None:
    place = tmp_path / "foreign.model"
    place.write_bytes(foreign_model(settings_))
    with pytest.raises(FormatError, match=r"foreign\.model"):
        Tokenizer.load(place)


@pytest.mark.parametrize("content", [b"", b"no model", bytes(100)])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "foreign.model"
    place.write_bytes(content)
    with pytest.raises(FormatError, match=r"foreign\.model"):
        Tokenizer.load(place)


def test_a_missing_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nothing\.model"):
        Tokenizer.load(tmp_path / "nothing.model")
