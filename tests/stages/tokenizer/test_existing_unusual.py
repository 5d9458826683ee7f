"""What unusual files of tokenizers promise: the ids of their library, or a refusal.

Some leave out the type of their model, some the pieces that their ids or their unknown token ask for.
"""

import json
from typing import Any

import numpy as np
import pytest
import sentencepiece
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

from stages.errors import FormatError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.sentencepiece_model import varint
from tests.stages.tokenizer.existing_files import changed, data_of, model_of, texts
from tests.stages.tokenizer.protocol_buffer import read_fields
from tests.stages.tokenizer.test_existing import LITERALS, tokenizer_of


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_files_of_the_first_years_do_not_say_of_what_type_their_model_is(name: str) -> None:
    content = json.loads(data_of(name))
    del content["model"]["type"]
    untyped = json.dumps(content).encode()
    every = [*texts(), *LITERALS]
    for one, two in zip(
        tokenizer_of(name, untyped).encode(every), tokenizer_of(name).encode(every), strict=True
    ):
        assert np.array_equal(one, two)


def test_words_of_bytes_are_unknown_as_a_whole() -> None:
    alphabet = {piece: 3 + n for n, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocab = {"[UNK]": 0, "[PAD]": 1, "[EOS]": 2, "word": 259} | alphabet
    made = Library(models.WordLevel(vocab, unk_token="[UNK]"))  # noqa: S106  # no password
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["[UNK]", "[PAD]", "[EOS]"])
    tokenizer = existing_tokenizer(
        made.to_str().encode(), TokenizerKind.HUGGING_FACE, {"unk": 0, "pad": 1, "eos": 2}, name="words"
    )
    assert tokenizer.encode(["word", "strange"])[1].tolist() == made.encode("strange").ids == [0]
    assert tokenizer.unk == 0
    assert not tokenizer.writes_all


def test_pieces_that_a_model_leaves_unused_are_merged_over_as_in_its_library() -> None:
    data = data_of("llama-model")
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    given = {number for text in texts() for number in model.encode(text)}
    pieces = {number: model.id_to_piece(number) for number in given if not model.is_byte(number)}
    unused = {number for number, piece in pieces.items() if len(piece) == 2 and piece.isalpha()}
    assert len(unused) > 50
    content, number = b"", 0
    for part in read_fields(data):
        mark = b"\x18\x05" if part.number == 1 and number in unused else b""
        number += part.number == 1
        whole = b"\x0a" + varint(len(part.content) + 2) + part.content + mark
        content += whole if mark else part.whole
    library = sentencepiece.SentencePieceProcessor(model_proto=content)
    tokenizer = tokenizer_of("llama-model", content)
    for text, ids in zip(texts(), tokenizer.encode(texts()), strict=True):
        assert ids.tolist() == library.encode(text)
        assert not unused & set(ids.tolist())
    assert all(tokenizer.codec.piece_bytes()[number] == b"" for number in unused)


def with_type(data: bytes, piece: str, type_: int) -> bytes:
    """A model of which a piece has another type."""
    content = b""
    for part in read_fields(data):
        if part.number == 1 and next(read_fields(part.content)).content == piece.encode():
            inner = part.content + bytes([3 << 3, type_])
            content += b"\x0a" + varint(len(inner)) + inner
        else:
            content += part.whole
    return content


def with_piece(data: bytes, piece: str) -> bytes:
    """A model with one piece more, of score 0."""
    text = piece.encode()
    inner = b"\x0a" + varint(len(text)) + text + b"\x15" + bytes(4)
    return data + b"\x0a" + varint(len(inner)) + inner


RUSSIAN, UNKNOWN = "слово и ещё слово, и ещё много слов и слов", "\u2297"
WORDS = [
    f"{text} и{UNKNOWN} " * 800 for text in ("и", RUSSIAN, f"{UNKNOWN}\n", f"  {UNKNOWN} {UNKNOWN}и")
]
"""Longer than a stretch, of words that are known, unknown, and known within unknown ones."""


def test_unknown_characters_side_by_side_are_one_token_however_many() -> None:
    library = sentencepiece.SentencePieceProcessor(model_proto=data_of("albert-model"))
    text = f"a{UNKNOWN * 10_000} b{UNKNOWN}"
    (ids,) = tokenizer_of("albert-model").encode([text])
    assert ids.tolist() == library.encode(text)
    assert ids.tolist().count(library.unk_id()) == 2


@pytest.mark.parametrize("suffix", [False, True])
@pytest.mark.parametrize("bytes_", [False, True])
def test_models_of_words_give_the_ids_of_whole_texts(*, bytes_: bool, suffix: bool) -> None:
    data = model_of(
        "word",
        byte_fallback=bytes_,
        treat_whitespace_as_suffix=suffix,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    for piece in ("\u2581и", "и\u2581", "и"):
        data = with_piece(data, piece)
        library, tokenizer = sentencepiece.SentencePieceProcessor(model_proto=data), opened(data)
        for text, ids in zip(WORDS, tokenizer.encode(WORDS), strict=True):
            assert ids.tolist() == library.encode(text)
        assert not tokenizer.writes_all


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
@pytest.mark.parametrize("bytes_", [False, True])
def test_unknown_characters_may_be_one_token_across_spaces(kind: str, *, bytes_: bool) -> None:
    data = with_type(model_of(kind, byte_fallback=bytes_, vocab_size=600), "\u2581", 5)
    library, tokenizer = sentencepiece.SentencePieceProcessor(model_proto=data), opened(data)
    for text, ids in zip(WORDS, tokenizer.encode(WORDS), strict=True):
        assert ids.tolist() == library.encode(text)
    assert not tokenizer.writes_all, "a space would come back as U+2581"


def test_a_space_behind_every_text_is_no_loss() -> None:
    options: dict[str, Any] = {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    }
    tokenizer = opened(model_of("bpe", byte_fallback=True, treat_whitespace_as_suffix=True, **options))
    assert tokenizer.changes() == ()
    some = [*texts(), " a", "a ", "", " "]
    assert tokenizer.decode(tokenizer.encode(some)) == some


def test_spaces_that_are_written_as_they_are_are_refused() -> None:
    data = data_of("llama-model") + b"\x1a\x02\x28\x00"  # the normaliser's field 5, false
    with pytest.raises(FormatError, match=r"x\.model: writes a space as it is .*escape_whitespaces"):
        describe(data, TokenizerKind.SENTENCEPIECE, name="x.model")


def test_a_byte_is_nothing_that_texts_can_do_without() -> None:
    number = sentencepiece.SentencePieceProcessor(model_proto=data_of("llama-model")).piece_to_id(
        "<0x41>"
    )
    with pytest.raises(FormatError, match=f"x.model: id {number} is to be special, but is a byte"):
        existing_tokenizer(
            data_of("llama-model"),
            TokenizerKind.SENTENCEPIECE,
            {"eos": number, "pad": number},
            name="x.model",
        )


def opened(data: bytes) -> Tokenizer:
    """A model with the special ids that it names itself."""
    return existing_tokenizer(data, TokenizerKind.SENTENCEPIECE, {"eos": 2, "pad": 2}, name="x.model")


def with_added(name: str, piece: str, number: int) -> bytes:
    """A file with a token that is to have an id."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    added = [*json.loads(data_of(name))["added_tokens"], {"id": number, "content": piece, **flags}]
    return changed(data_of(name), added_tokens=added)


def unknown_is_added() -> bytes:
    """A file whose model has no piece for the unknown, which stands beside it."""
    made = Library(models.WordLevel({"word": 0}, unk_token="[UNK]"))  # noqa: S106  # no password
    made.add_special_tokens(["[UNK]"])
    return str(made.to_str()).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (unknown_is_added(), "neither an unknown token nor a piece for each of the 256 bytes"),
        (with_added("gpt2", "<tool>", 1510), "'<tool>' is id 1,510, and the library .* gives 1500: "),
    ],
)
def test_ids_that_the_library_does_not_give_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=f"some.json: .*{said}"):
        _read_and_load(data)


def _read_and_load(data: bytes) -> None:
    describe(data, TokenizerKind.HUGGING_FACE, name="some.json")
    existing_tokenizer(data, TokenizerKind.HUGGING_FACE, {"eos": 0, "pad": 0}, name="some.json")
