"""What tokenizers that were trained elsewhere promise.

Their ids are those of their own library, for texts of any length; no text gives a special id; ids spell
the text as the normaliser leaves it wherever the file can; what would lose text in silence is refused.
"""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from numpy.typing import NDArray
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

from stages.errors import FormatError
from stages.tokenizer import huggingface_file
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer, open_tokenizer
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.special import special_ids
from stages.tokenizer.train import TrainConfig, train_model
from tests.stages.tokenizer.existing_files import FILES, changed, data_of, kind_of_file, texts
from tests.stages.tokenizer.test_pieces import SAMPLE

LITERALS = [
    "",
    " ",
    "a",
    " the  two   spaces ",
    "lines\n\n\tand tabs\n",
    "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \u0e44\u0e17\u0e22 \U0001f44d\U0001f3fd",
    "THE quick brown fox's 12 34.5%",
    "\u2581a \u2581",
]
EVERY = pytest.mark.parametrize("name", FILES)
SPELLING = ("gpt2", "llama-json", "llama-model")
"""Those that can write every character."""
JOINING = ("gpt2", "llama-model")
"""Those that take parts of a text as they are; the normaliser of the other writes its spaces."""
LOSSLESS = {"gpt2"}
JSON = tuple(name for name in FILES if kind_of_file(name) is TokenizerKind.HUGGING_FACE)


def special_of(name: str, data: bytes | None = None) -> dict[str, int]:
    """Return the special ids of a file, EOS and padding among them."""
    data = data_of(name) if data is None else data
    pieces = SpecialPieces(eos="[SEP]") if name == "bert" else SpecialPieces()
    ids = find_roles(describe(data, kind_of_file(name), name=name), pieces, name=name).ids
    return {"pad": ids["eos"], **ids}


def tokenizer_of(name: str, data: bytes | None = None, **more: int) -> Tokenizer:
    """Return a tokenizer as a run has it."""
    data = data_of(name) if data is None else data
    special = {**special_of(name, data), **more}
    return existing_tokenizer(data, kind_of_file(name), special, name=name)


def of_the_library(name: str, text: str) -> list[int]:
    """Return the ids of a text as its library gives them."""
    if kind_of_file(name) is TokenizerKind.HUGGING_FACE:
        library = Library.from_str(data_of(name).decode())
        return list(library.encode(text, add_special_tokens=False).ids)
    model = sentencepiece.SentencePieceProcessor(model_proto=data_of(name))
    return list(model.encode(text))


def controls(name: str) -> dict[str, int]:
    """Return the special pieces of a file, but for that of the unknown."""
    described = describe(data_of(name), kind_of_file(name), name=name)
    special = set(special_of(name).values()) - {described.declared.get("unk")}
    return {piece: number for piece, number in described.pieces.items() if number in special}


@EVERY
def test_ids_are_those_of_the_library(name: str) -> None:
    every = [*texts(), *LITERALS]
    found = tokenizer_of(name).encode(every)
    assert [ids.tolist() for ids in found] == [of_the_library(name, text) for text in every]
    assert sum(map(len, found)) > 10_000


@EVERY
def test_no_text_gives_a_special_id(name: str) -> None:
    pieces = controls(name)
    written = [form.format(piece) for piece in pieces for form in ("{0}", "a {0} b", "{0}{0}\n{0}x")]
    assert len(written) >= 3
    tricked = [of_the_library(name, text) for text in written]
    given = set(pieces.values()) & {number for ids in tricked for number in ids}
    assert bool(given) == (name != "llama-model"), "control symbols of SentencePiece match no text"
    found = tokenizer_of(name).encode(written)
    assert not {number for ids in found for number in ids.tolist()} & set(pieces.values())
    if name in SPELLING:
        tokenizer = tokenizer_of(name)
        assert tokenizer.decode(found) == list(map(tokenizer.normalise, written))


def test_words_that_are_special_in_the_vocabulary_alone_are_not_given_either() -> None:
    vocab = {"[UNK]": 0, "[MASK]": 1, "[SEP]": 2, "word": 3}
    made = Library(models.WordLevel(vocab, unk_token="[UNK]"))  # noqa: S106  # no password
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    data = made.to_str().encode()
    described = describe(data, TokenizerKind.HUGGING_FACE, name="words")
    pieces = SpecialPieces(mask="[MASK]", eos="[SEP]", pad="[SEP]")
    special = find_roles(described, pieces, name="words").ids
    assert made.encode("word [MASK]").ids == [3, 1]
    tokenizer = existing_tokenizer(data, TokenizerKind.HUGGING_FACE, special, name="words")
    assert tokenizer.encode(["word [MASK]"])[0].tolist() == [3, 0]
    assert tokenizer.unk == 0


def test_a_piece_that_a_role_takes_from_the_text_is_given_by_none() -> None:
    for name in ("gpt2", "t5", "llama-json", "albert-model"):
        counts = np.bincount(np.concatenate(tokenizer_of(name).encode(texts())))
        described = describe(data_of(name), kind_of_file(name), name=name)
        taken = next(
            number
            for piece, number in sorted(described.pieces.items(), key=lambda item: -len(item[0]))
            if number < len(counts) and counts[number] and number not in described.marks.values()
        )
        tokenizer = tokenizer_of(name, mask=taken)
        found = tokenizer.encode(texts())
        assert taken not in np.concatenate(found), name
        if name in SPELLING:
            assert tokenizer.decode(found) == list(map(tokenizer.normalise, texts()))


def test_user_defined_symbols_stay_text_unless_they_have_a_role() -> None:
    described = describe(data_of("albert-model"), TokenizerKind.SENTENCEPIECE, name="albert")
    aside, mask = described.marks["<aside>"], described.marks["[MASK]"]
    assert "mask" in special_of("albert-model")
    (ids,) = tokenizer_of("albert-model").encode(["an <aside> and a [MASK]"])
    assert aside in ids
    assert mask not in ids
    assert {aside, mask} <= set(of_the_library("albert-model", "an <aside> and a [MASK]"))


@pytest.mark.parametrize("name", SPELLING)
def test_ids_spell_the_normalised_text(name: str) -> None:
    tokenizer = tokenizer_of(name)
    every = [*texts(), *LITERALS]
    assert tokenizer.writes_all == (name in JOINING)
    assert tokenizer.decode(tokenizer.encode(every)) == list(map(tokenizer.normalise, every))
    if name in LOSSLESS:
        assert list(map(tokenizer.normalise, every)) == every
        assert not tokenizer.normalises
        assert tokenizer.unk is None


@pytest.mark.parametrize("name", JOINING)
def test_parts_of_a_text_come_back_verbatim(name: str) -> None:
    verbatim = tokenizer_of(name).verbatim()
    parts = ["", " a", "b ", " ", "\n", "\u00e9\u65e5", *LITERALS[3:7]]
    assert verbatim.decode(verbatim.encode(parts)) == parts


def test_ids_that_end_within_a_character_decode_to_replacement_characters() -> None:
    tokenizer = tokenizer_of("gpt2")
    (ids,) = tokenizer.encode(["a\U0001f9ff"])
    assert len(ids) > 2
    assert tokenizer.decode([ids[:-1]])[0].startswith("a\ufffd")


@pytest.mark.parametrize("name", ["bert", "t5", "albert-model"])
def test_unknown_characters_have_the_unknown_id_and_spell_nothing(name: str) -> None:
    tokenizer = tokenizer_of(name)
    (ids,) = tokenizer.encode(["a \ua9c5 b"])
    assert tokenizer.unk in ids
    assert "\ua9c5" not in tokenizer.decode([ids])[0]
    assert not tokenizer.writes_all


@pytest.mark.parametrize("name", JSON)
def test_long_texts_are_cut_where_the_ids_stay_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = ["".join(texts())[:20_000], *texts()]
    tokenizer = tokenizer_of(name)
    expected = tokenizer.encode_by_library(every)
    monkeypatch.setattr(huggingface_file, "_STRETCH", 700)
    monkeypatch.setattr(huggingface_file, "_WINDOW", 100)
    cuts = 0

    def counted(library: Any, text: str) -> NDArray[np.int32]:
        nonlocal cuts
        cuts += len(text) >= 700
        return np.array(library._library.encode(text, add_special_tokens=False).ids, np.int32)  # noqa: SLF001  # what is counted

    monkeypatch.setattr(huggingface_file.HuggingFaceFile, "_ids", counted)
    found = tokenizer.encode_by_library(every)
    assert cuts > 25
    for ids, wanted in zip(found, expected, strict=True):
        assert np.array_equal(ids, wanted)


def test_a_line_of_one_letter_is_cut_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_file, "_STRETCH", 100)
    tokenizer = tokenizer_of("gpt2")
    text = "\u65e5" * 333
    assert tokenizer.decode(tokenizer.encode_by_library([text])) == [text]


def test_nothing_in_a_file_cuts_texts_pads_them_or_draws() -> None:
    cut = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    padded = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    data = changed(data_of("gpt2"), truncation=cut, padding=padded, model__dropout=0.5)
    text = "and some words of a text that is not short"
    (expected,) = tokenizer_of("gpt2").encode([text])
    assert len(Library.from_str(data.decode()).encode(text).ids) < len(expected)
    for _ in range(5):
        assert np.array_equal(tokenizer_of("gpt2", data).encode([text])[0], expected)
        assert np.array_equal(tokenizer_of("gpt2", data).encode_by_library([text])[0], expected)


def test_merges_are_read_in_both_spellings() -> None:
    merges = [" ".join(pair) for pair in json.loads(data_of("gpt2"))["model"]["merges"]]
    old = changed(data_of("gpt2"), model__merges=merges)
    for one, two in zip(
        tokenizer_of("gpt2", old).encode(texts()), tokenizer_of("gpt2").encode(texts()), strict=True
    ):
        assert np.array_equal(one, two)


@EVERY
def test_ids_have_the_dtype_asked_for_and_do_not_depend_on_what_stands_beside(name: str) -> None:
    tokenizer = tokenizer_of(name)
    together = tokenizer.encode(LITERALS, dtype=np.dtype("<u2"))
    for text, ids in zip(LITERALS, together, strict=True):
        assert ids.dtype == np.dtype("<u2")
        assert np.array_equal(tokenizer.encode([text])[0], ids)


@EVERY
def test_words_begin_at_spaces_and_line_feeds_and_go_on_within(name: str) -> None:
    tokenizer = tokenizer_of(name)
    starts, spelled = tokenizer.codec.word_starts(), tokenizer.codec.piece_bytes()
    (ids,) = tokenizer.encode(["unbelievably transatlantic"])
    text, begins = "", []
    for number in ids.tolist():
        begins += [len(text)] if starts[number] else []
        text += spelled[number].decode()
    assert len(ids) > 4
    assert set(begins) >= {text.index(" trans")}
    assert all(place == 0 or " " in text[place - 1 : place + 1] for place in begins)
    assert all(starts[number] for number in tokenizer.special_ids.values())


@EVERY
def test_pieces_are_what_people_read(name: str) -> None:
    tokenizer = tokenizer_of(name)
    (ids,) = tokenizer.encode(["some words"])
    shown = "".join(tokenizer.codec.pieces(ids.tolist())).replace("\u2581", " ").replace("##", "")
    assert shown.split() == ["some", "words"]
    described = describe(data_of(name), kind_of_file(name), name=name)
    assert described.pieces[tokenizer.codec.pieces([tokenizer.eos])[0]] == tokenizer.eos


def test_a_model_of_another_run_is_known_to_give_every_text_back(tmp_path: Path) -> None:
    data = train_model(SAMPLE, TrainConfig(vocab_size=556))
    described = describe(data, TokenizerKind.SENTENCEPIECE, name="ours")
    found = find_roles(described, SpecialPieces(), name="ours")
    assert found.ids == special_ids()
    assert list(found.ids) == list(special_ids())
    (tmp_path / "tokenizer.model").write_bytes(data)
    tokenizer = open_tokenizer(tmp_path / "tokenizer.model", found.ids)
    assert tokenizer.exact


@pytest.mark.parametrize("name", ["gpt2", "llama-model"])
def test_a_tokenizer_is_opened_from_its_file(name: str, tmp_path: Path) -> None:
    place = tmp_path / kind_of_file(name)
    place.write_bytes(data_of(name))
    tokenizer = open_tokenizer(place, special_of(name))
    assert not tokenizer.exact
    with pytest.raises(FormatError, match="cannot be read"):
        open_tokenizer(tmp_path / "gone" / kind_of_file(name), special_of(name))


def without_bytes() -> bytes:
    """A byte-level file that lacks a byte."""
    content = json.loads(data_of("gpt2"))
    vocab = {piece: n for piece, n in content["model"]["vocab"].items() if "\u0120" not in piece}
    merges = [pair for pair in content["model"]["merges"] if "\u0120" not in "".join(pair)]
    return changed(data_of("gpt2"), model__vocab=vocab, model__merges=merges)


def plain_bpe() -> bytes:
    return str(Library(models.BPE(vocab={"a": 0}, merges=[])).to_str()).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not a tokenizer.json .JSONDecodeError.*save it with the `save`"),
        (b'{"model": 3}', "not a tokenizer.json"),
        (b"\xff\xfe", "not a tokenizer.json"),
        (changed(plain_bpe(), model__type="Nothing"), "a Nothing of decoder none: read are byte-level"),
        (plain_bpe(), "a BPE of decoder none: read are byte-level and Metaspace tokenizers"),
        (without_bytes(), "neither an unknown token nor a piece for each of the 256 bytes"),
        (
            changed(data_of("gpt2"), model__end_of_word_suffix="</w>"),
            "marks the ends or the middles of words",
        ),
        (changed(data_of("gpt2"), pre_tokenizer={"type": "ByteLevel"}), "not a tokenizer.json: "),
    ],
)
def test_files_that_would_lose_text_or_are_none_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=f"some.json: .*{said}"):
        _read_and_load(data)


def _read_and_load(data: bytes) -> None:
    describe(data, TokenizerKind.HUGGING_FACE, name="some.json")
    existing_tokenizer(data, TokenizerKind.HUGGING_FACE, {"eos": 0, "pad": 0}, name="some.json")


def test_a_model_that_is_none_is_refused() -> None:
    for data in (b"", b"not a model", data_of("gpt2")):
        with pytest.raises(FormatError, match=r"x\.model: not a SentencePiece model"):
            describe(data, TokenizerKind.SENTENCEPIECE, name="x.model")


def test_a_byte_that_texts_need_cannot_be_special() -> None:
    space = json.loads(data_of("gpt2"))["model"]["vocab"]["\u0120"]
    with pytest.raises(FormatError, match="byte 0x20 is a special id, and texts need it"):
        tokenizer_of("gpt2", mask=space)


def test_models_with_a_test_of_themselves_load_without_their_normaliser() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*texts()[0].splitlines(), *texts()[1].splitlines()]),
        model_writer=model,
        vocab_size=300,
        hard_vocab_limit=False,
        self_test_sample_size=5,
        minloglevel=2,
    )
    tokenizer = tokenizer_of("albert-model", model.getvalue())
    library = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for text in LITERALS:
        assert tokenizer.encode([text])[0].tolist() == list(library.encode(text))
