"""What the tokenizer promises, of either algorithm and with either normalisation.

Every cleaned text comes back from its ids byte for byte, or as the normaliser leaves it; no text gives a
special id; training is a function of its sample; a vocabulary that cannot be is refused with the bound.
"""

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
from stages.errors import ConfigError
from stages.reading.decompress import stream_chunks
from stages.reading.jsonl import parse_line
from stages.reading.lines import split_lines
from stages.reading.records import FieldMapping, RawDocument
from stages.tokenizer import encode
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.normalization import Normalization
from stages.tokenizer.sampling import MAX_PART_BYTES, SPACE_SYMBOL, cut_parts
from stages.tokenizer.special import num_reserved, special_ids
from stages.tokenizer.train import TrainConfig, train_model, training_memory
from tests.campaign import examples
from tests.stages.tokenizer.protocol_buffer import read_fields

CORPUS = Path(__file__).resolve().parents[3] / "examples" / "corpus"
FILE_BYTES = 60_000
"""Text taken of each bundled file."""
VOCAB = 1536
MODELS = ("bpe", "unigram")
KINDS = [(model, rule) for model in MODELS for rule in Normalization]
SMALL = [
    ("the cat sat on the mat and then ran to the other cat\nwhile another rat sat there\n", 3),
    ("x = f(x)\n\treturn 12345\n\treturn f(x) + another(x)\n", 2),
    ("that other mat is the one that the rat had sat on\n", 1),
]
SMALL_VOCAB = 560
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
    "\u0301",
    "e\u0301 \u0301\u0301e q\u0323\u0307 \u3099か",
    "\u115f\u1160\u11ff \u1100\u1161\u11a8",
    " " * 5_000,
    "\n" * 5_000,
    "\t" * 5_000,
    "\ufb01 \u00b2 \u00bd \uff21\uff76\uff9e \u2122 \u2026 \u00a0\u3000\u2009",
    "x" * 300_000,
    "ab\u2581" * 3_000,
    SPACE_SYMBOL * 9_000 + "a",
    "".join(chr(0x41 + number * number % 58) for number in range(20_000)),
    "the cat sat\n\ton the mat  " * 1_000,
]
ODD = st.lists(
    st.sampled_from(
        [" ", "\n", "\t", "\u2581", "\ufffd", "\u00a0", "a", "é", "猫", "👍", "</s>", "<0x0A>", "1"]
    ),
    max_size=15,
).map("".join)


def bundled_texts() -> Iterator[str]:
    """Yield the first texts of each bundled file, cleaned."""
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
    """Return some of the bundled texts, of code and of many languages."""
    found = list(bundled_texts())
    assert len(found) > 50
    assert sum(map(len, found)) > 200_000
    return found


def config_of(model: str, **changes: Any) -> TrainConfig:
    """Return a training by an algorithm."""
    return TrainConfig.model_validate({"model": model, "vocab_size": SMALL_VOCAB, **changes})


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def kind(request: pytest.FixtureRequest) -> tuple[str, Normalization]:
    """Return each algorithm with each normalisation."""
    found: tuple[str, Normalization] = request.param
    return found


@pytest.fixture(scope="module")
def place(
    kind: tuple[str, Normalization], texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the file of a model trained on a quarter of them."""
    model, rule = kind
    sample = [(piece, 1) for text in texts[::4] for piece in cut_parts(text)]
    config = config_of(model, normalization=rule, vocab_size=VOCAB, character_coverage=0.98)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    path.write_bytes(train_model(sample, config))
    return path


@pytest.fixture(scope="module")
def tokenizer(place: Path) -> Tokenizer:
    """Return that model, loaded."""
    return encode.load_trained(place)


def check_round_trip(tokenizer: Tokenizer, texts: list[str]) -> None:
    """Hold that texts come back, normalised or not, and that no special id is among their ids."""
    encoded = tokenizer.encode(texts)
    expected = [tokenizer.normalise(text) for text in texts]
    assert tokenizer.decode(encoded) == expected
    assert tokenizer.normalises or expected == texts
    for text, ids in zip(expected, encoded, strict=True):
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


@settings(deadline=None, derandomize=True, max_examples=examples(50))
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
    is_byte = tokenizer.codec.byte_ids()
    (ids,) = tokenizer.encode(["a\u2581b"])
    assert is_byte.sum() == 256
    assert is_byte[ids[1:-1]].tolist() == [True] * 3
    assert not is_byte[ids[[0, -1]]].any()


def test_normalising_is_what_the_library_does(
    kind: tuple[str, Normalization], tokenizer: Tokenizer, texts: list[str]
) -> None:
    rule = kind[1]
    library = sentencepiece.SentencePieceNormalizer(
        rule_name=rule.value,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=False,
    )
    cleaned = [clean_text(text) for text in [*LITERALS, *texts] if SPACE_SYMBOL not in text]
    assert [tokenizer.normalise(text) for text in cleaned] == [library.normalize(t) for t in cleaned]
    assert tokenizer.normalises == (rule is not Normalization.IDENTITY)
    assert sum(tokenizer.normalise(text) != text for text in cleaned) >= 50 * tokenizer.normalises


def test_a_long_text_has_the_ids_it_would_have_uncut(
    kind: tuple[str, Normalization], tokenizer: Tokenizer, place: Path, texts: list[str]
) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(place))
    long = [text for text in texts if len(text) > 8_192 and SPACE_SYMBOL not in text]
    assert len(long) > 3
    for text in [*long, "\n".join(long)]:
        (cut,) = tokenizer.encode_by_library([text])
        uncut = processor.encode(text, out_type=int)
        if kind[0] == "bpe":
            assert cut.tolist() == uncut
        else:  # the library rounds the sum of a long text's scores
            cost = [sum(map(processor.get_score, ids)) for ids in (cut.tolist(), uncut)]
            assert cost[0] >= cost[1] - 1e-3


def test_a_text_without_a_place_to_cut_is_cut_all_the_same(
    kind: tuple[str, Normalization], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " " * 21
    uncut, part = (ids.tolist() for ids in tokenizer.encode_by_library([text, text[:7]]))
    monkeypatch.setattr(encode, "_STRETCH", 5)
    assert tokenizer.encode_by_library([text])[0].tolist() == uncut, "no two spaces can be parted"
    monkeypatch.setattr(encode, "_LONGEST", 7)
    assert tokenizer.encode_by_library([text])[0].tolist() == 3 * part != uncut, kind


def test_ids_are_the_librarys(tokenizer: Tokenizer, texts: list[str]) -> None:
    cleaned = [clean_text(text) for text in [*LITERALS, *texts]]
    found, library = tokenizer.encode(cleaned), tokenizer.encode_by_library(cleaned)
    assert [ids.tolist() for ids in found] == [ids.tolist() for ids in library]


def test_ids_have_the_dtype_asked_for(tokenizer: Tokenizer) -> None:
    texts = ["", "a cat", "x\u2581" * 2, "cat " * 3_000]
    (small, wide) = (tokenizer.encode(texts, dtype=np.dtype(kind)) for kind in ("<u2", "<i4"))
    assert {ids.dtype.str for ids in small} == {"<u2"}
    assert [ids.tolist() for ids in small] == [ids.tolist() for ids in wide]


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
    assert tokenizer.vocab_size == VOCAB
    assert (tokenizer.eos, tokenizer.pad) == (2, 3)
    for name, number in special_ids().items():
        assert processor.id_to_piece(number) == f"<{name}>".replace("bos", "s").replace("eos", "/s")
        assert processor.is_control(number) == (name != "unk")
    assert not any(processor.is_control(n) for n in range(num_reserved(), VOCAB))


@pytest.mark.parametrize("model", MODELS)
def test_training_twice_gives_the_same_bytes(model: str) -> None:
    config = config_of(model)
    assert train_model(SMALL, config) == train_model(iter(SMALL), config)


@pytest.mark.parametrize("model", MODELS)
def test_copies_count_as_often_as_they_are(model: str, tmp_path: Path) -> None:
    config = config_of(model)
    repeated = [(piece, 1) for piece, copies in SMALL for _ in range(copies)]
    assert pieces_of(train_model(SMALL, config), tmp_path) == pieces_of(
        train_model(repeated, config), tmp_path
    )
    assert pieces_of(train_model(SMALL, config), tmp_path) != pieces_of(
        train_model([(SMALL[0][0], 1), (SMALL[1][0], 9), SMALL[2]], config), tmp_path
    )


def pieces_of(model: bytes, folder: Path) -> list[str]:
    """Return the pieces of a model."""
    (folder / "some.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "some.model"))
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


@pytest.mark.parametrize("model", MODELS)
def test_a_piece_of_the_most_bytes_is_learned_from(model: str, tmp_path: Path) -> None:
    (piece,) = cut_parts("zq" * (MAX_PART_BYTES // 2))
    assert len(piece.encode()) == MAX_PART_BYTES
    characters = "".join(sorted({*"".join(text for text, _ in SMALL)} - {" "}))
    trained = train_model([*SMALL, (piece, 1)], config_of(model), characters=characters)
    learned = pieces_of(trained, tmp_path)
    assert any("zq" in spelled for spelled in learned)


@pytest.mark.parametrize("model", MODELS)
def test_no_piece_has_two_digits(model: str, tmp_path: Path) -> None:
    sample = [*SMALL, ("1234567890\n1212 1212\n", 50)]
    learned = pieces_of(train_model(sample, config_of(model)), tmp_path)
    digits = [sum(map(str.isdigit, piece)) for piece in learned[num_reserved() + 256 :]]
    assert max(digits) == 1


@pytest.mark.parametrize("model", MODELS)
def test_one_thread_trains(model: str) -> None:
    fields = read_fields(train_model(SMALL, config_of(model)))
    trainer = next(part.content for part in fields if part.number == 2)
    assert [part.value for part in read_fields(trainer) if part.number == 16] == [1], "num_threads"


@pytest.mark.parametrize("model", MODELS)
def test_the_space_symbol_is_not_learned_from(model: str, tmp_path: Path) -> None:
    config = config_of(model)
    with_symbols = [(SPACE_SYMBOL.join(piece), copies) for piece, copies in SMALL]
    found = pieces_of(train_model([*with_symbols, (SPACE_SYMBOL, 5)], config), tmp_path)
    assert found == pieces_of(train_model(SMALL, config), tmp_path)


@pytest.mark.parametrize("model", MODELS)
def test_a_vocabulary_too_large_is_refused_with_the_largest_that_is_not(model: str) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.train\.vocab_size = 32,000: .* at most") as error:
        train_model(SMALL, config_of(model, vocab_size=32_000))
    bound = re.search(r"set it to ([\d,]+) or less", str(error.value))
    assert bound
    largest = int(bound[1].replace(",", ""))
    assert train_model(SMALL, config_of(model, vocab_size=largest))
    with pytest.raises(ConfigError, match=f"{largest + 1}: "):
        train_model(SMALL, config_of(model, vocab_size=largest + 1))


@pytest.mark.parametrize("model", MODELS)
def test_a_vocabulary_too_small_for_the_characters_is_refused(model: str) -> None:
    sample = [("".join(map(chr, range(0x4E00, 0x4E00 + 200))), 1)]
    with pytest.raises(ConfigError, match=r"tokenizer\.train\.vocab_size = 600: "):
        train_model(sample, config_of(model, vocab_size=600, character_coverage=1.0))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sample", [[], [("", 1)], [(SPACE_SYMBOL, 3)], [("text", 0)]])
def test_an_empty_sample_is_refused(sample: list[tuple[str, int]], model: str) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.train"):
        train_model(sample, config_of(model, vocab_size=600))


@pytest.mark.parametrize(
    "wrong",
    [
        {"vocab_size": 526},
        {"model": "word"},
        {"normalization": "nfkc"},
        {"character_coverage": 0.979},
        {"character_coverage": 1.1},
    ],
)
def test_a_training_out_of_bounds_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TrainConfig.model_validate(wrong)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("coverage", [0.98, 1.0])
def test_the_bounds_of_coverage_are_the_trainers(coverage: float, model: str) -> None:
    assert train_model(SMALL, config_of(model, character_coverage=coverage))


@pytest.mark.parametrize(
    ("model", "mebibytes", "vocab_size", "measured"),
    [
        ("bpe", 8, 32_000, 228),
        ("bpe", 16, 32_000, 304),
        ("bpe", 16, 32_000, 545),
        ("bpe", 16, 128_000, 351),
        ("bpe", 32, 32_000, 430),
        ("bpe", 64, 32_000, 758),
        ("unigram", 8, 32_000, 187),
        ("unigram", 16, 32_000, 306),
        ("unigram", 32, 32_000, 617),
        ("byte_bpe", 8, 32_000, 296),
        ("byte_bpe", 8, 32_000, 517),
        ("byte_bpe", 16, 32_000, 872),
        ("byte_bpe", 16, 128_000, 437),
        ("byte_bpe", 32, 32_000, 562),
        ("byte_bpe", 64, 32_000, 993),
        ("parity_bpe", 8, 32_000, 656),
        ("parity_bpe", 8, 2_000, 855),
        ("parity_bpe", 64, 32_000, 2_220),
    ],
)
def test_the_memory_of_a_training_is_above_what_was_measured(
    model: str, mebibytes: int, vocab_size: int, measured: int
) -> None:
    config = config_of(model, sample_size=f"{mebibytes}MiB", vocab_size=vocab_size)
    assert measured < training_memory(config) / 2**20 < 3.5 * measured
