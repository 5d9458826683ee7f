"""What places promise: sections of a document have the ids that the library gives the whole of it.

A document is cut where its tokens end. So no token crosses a border, and the ids of the sections must be
those of the document, whatever a tokenizer puts before texts or takes from their ends.
"""

import json
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tokenizers

from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.huggingface_content import placed
from stages.tokenizer.markup import MarkupEncoder, Sections
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.texts import EVERY, PrecedingText, TextPlace
from tests.stages.tokenizer.existing_files import FILES, changed, data_of, kind_of_file, model_of, texts

META = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
LEGACY = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}
"""As files of older versions have it, which says `always`."""
STRIPPED = {
    "type": "Sequence",
    "normalizers": [{"type": "NFKC"}, {"type": "Strip", "strip_left": True, "strip_right": True}],
}


def _metaspace(scheme: str, *before: dict[str, Any]) -> bytes:
    own = {**META, "prepend_scheme": scheme}
    pre = {"type": "Sequence", "pretokenizers": [*before, own]} if before else own
    return changed(data_of("t5"), pre_tokenizer=pre)


@cache
def file_of(name: str) -> tuple[bytes, TokenizerKind]:
    """Return a file by its name."""
    made = {
        "metaspace-first": lambda: _metaspace("first"),
        "metaspace-never": lambda: _metaspace("never"),
        "metaspace-legacy": lambda: changed(data_of("t5"), pre_tokenizer=LEGACY),
        "metaspace-words": lambda: _metaspace("always", {"type": "WhitespaceSplit"}),
        "metaspace-stripped": lambda: changed(_metaspace("always"), normalizer=STRIPPED),
        "gpt2-prefixed": lambda: changed(
            data_of("gpt2"),
            pre_tokenizer={**json.loads(data_of("gpt2"))["pre_tokenizer"], "add_prefix_space": True},
        ),
        "unigram-model": lambda: model_of("unigram", byte_fallback=True),
        "nmt-model": lambda: model_of("bpe", normalization_rule_name="nmt_nfkc_cf", byte_fallback=True),
        "bare-model": lambda: model_of("bpe", add_dummy_prefix=False, byte_fallback=True),
    }
    data = made[name]() if name in made else data_of(name)
    return data, kind_of_file(name)


NAMES = (
    *FILES,
    "metaspace-first",
    "metaspace-never",
    "metaspace-legacy",
    "metaspace-words",
    "metaspace-stripped",
    "gpt2-prefixed",
    "unigram-model",
    "nmt-model",
    "bare-model",
)


@cache
def encoder_of(name: str) -> MarkupEncoder:
    """Return the encoder of a file."""
    data, kind = file_of(name)
    found = describe(data, kind, name=name)
    ids = find_roles(found, SpecialPieces(), name=name).ids
    number = min(found.controls)
    ids = {"eos": number, "pad": number, **ids}
    return MarkupEncoder(existing_tokenizer(data, kind, ids, name=name))


def whole(name: str, text: str) -> list[int]:
    """Return the ids of a text by the library of its file."""
    data, kind = file_of(name)
    if kind is TokenizerKind.SENTENCEPIECE:
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        return list(model.encode(text))
    library = tokenizers.Tokenizer.from_str(data.decode())
    library.post_processor = None
    return list(library.encode(text, add_special_tokens=False).ids)


def ends_of(name: str, text: str, ids: list[int]) -> list[int] | None:
    """Return where in a text each of its ids ends, or None if they do not spell it as it is."""
    pieces = encoder_of(name).tokenizer.codec.piece_bytes()
    spelled, wanted = b"".join(pieces[n] for n in ids), text.encode()
    put = len(spelled) - len(wanted)
    if spelled[put:] != wanted or put not in (0, 1):
        return None
    ends = np.cumsum([len(pieces[n]) for n in ids]) - put
    return [len(wanted[:end].decode(errors="ignore")) for end in ends.tolist()]


SAMPLES = [
    *(text[:120] for text in texts()[:12]),
    "(Paris) is  the capital.\n\n\tAnd so on: A: B",
    " leading and trailing  ",
    "def f(x):\n    return x  # two\n",
    "\u00e9t\u00e9 \u4e2d\u6587 \ufb01ne",
]


BY_EXPRESSION = ("gpt2", "gpt2-prefixed", "bert")
"""Files that cut words by expressions, to which a border is the end of a word."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_EXPRESSION])
def test_sections_that_end_where_tokens_end_have_the_ids_of_the_document(name: str) -> None:
    chance, compared = random.Random(5), 0  # noqa: S311  # which borders
    encoder = encoder_of(name)
    for text in SAMPLES:
        ids = whole(name, text)
        ends = ends_of(name, text, ids)
        if ends is None:
            continue
        for _ in range(6):
            places = sorted(chance.sample(range(1, len(ids)), min(3, len(ids) - 1)))
            cuts = [ends[place - 1] for place in places]
            if sorted({0, *cuts, len(text)}) != [0, *cuts, len(text)]:
                continue  # a character of several tokens
            if encoder.tokenizer.by_words and any(text[cut - 1].isspace() for cut in cuts):
                continue  # the space of a word, which is no character to the library
            sections = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
            plain = np.zeros(len(sections), np.bool_)
            found = encoder.encode(Sections(sections, plain), dtype=np.dtype(np.int32)).ids.tolist()
            assert found == ids, sections
            by_library = encoder.encode_by_library(Sections(sections, plain))
            assert np.concatenate(by_library).tolist() == ids
            compared += 1
    assert compared >= 5


@pytest.mark.parametrize("name", NAMES)
def test_a_document_of_one_section_has_the_ids_of_its_text(name: str) -> None:
    encoder = encoder_of(name)
    for text in SAMPLES:
        (alone,) = encoder.tokenizer.encode([text])
        plain, first = np.zeros(2, np.bool_), np.ones(2, np.bool_)
        found = encoder.encode(Sections([text, text], plain, first), dtype=alone.dtype)
        assert [ids.tolist() for ids in found.parts()] == [alone.tolist()] * 2


HUGGING_FACE = [name for name in NAMES if kind_of_file(name) is TokenizerKind.HUGGING_FACE]
THOUGHT = "A:<think>the end</think> of it<think></think>and <think> so"


@cache
def marked(name: str) -> tuple[tokenizers.Tokenizer, MarkupEncoder]:
    """Return the library of a file with marks of thoughts and of turns, and its encoder."""
    library = tokenizers.Tokenizer.from_str(file_of(name)[0].decode())
    library.post_processor = None
    marks = [tokenizers.AddedToken(mark, normalized=False) for mark in ("<think>", "</think>")]
    library.add_tokens(marks)
    library.add_special_tokens([tokenizers.AddedToken("<|x|>", normalized=False, special=True)])
    data, kind = library.to_str().encode(), TokenizerKind.HUGGING_FACE
    found = describe(data, kind, name=name)
    number = found.marks["<|x|>"]
    ids = {**find_roles(found, SpecialPieces(), name=name).ids, "eos": number, "pad": number}
    return library, MarkupEncoder(existing_tokenizer(data, kind, ids, name=name))


def encoded(encoder: MarkupEncoder, sections: Sections) -> list[int]:
    """Return the ids of sections, which are those of the library alone."""
    found: list[int] = encoder.encode(sections, dtype=np.dtype(np.int32)).ids.tolist()
    assert np.concatenate(encoder.encode_by_library(sections)).tolist() == found
    return found


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_behind_a_piece_that_is_cut_out_a_section_begins_as_the_library_has_it(name: str) -> None:
    library, encoder = marked(name)
    wanted = library.encode(THOUGHT, add_special_tokens=False).ids
    head = "A:<think>the end</think>"
    for begin in ("", "A:", "A:<think>", head, f"{head} of"):
        for markup in (True, False):
            sections = [part for part in (begin, THOUGHT.removeprefix(begin)) if part]
            assert encoded(encoder, Sections(sections, np.full(len(sections), markup))) == wanted


@pytest.mark.parametrize("name", HUGGING_FACE)
@pytest.mark.parametrize("text", ["the", " the end", "  the ", "the<think> end", "the\n", ""])
def test_between_special_pieces_a_section_is_as_the_library_has_it(name: str, text: str) -> None:
    library, encoder = marked(name)
    for begin, end in (("<|x|>", "<|x|>"), ("A: <|x|>", "<|x|>\nA:"), ("<|x|>", "")):
        wanted = library.encode(f"{begin}{text}{end}", add_special_tokens=False).ids
        parts = [(begin, True), (text, False), (end, True)]
        texts, markup = zip(*(part for part in parts if part[0]), strict=True)
        assert encoded(encoder, Sections(texts, np.array(markup))) == wanted


def test_files_of_older_versions_say_otherwise_where_a_space_is_put() -> None:
    written = file_of("metaspace-legacy")[0].decode()
    assert placed(written, TextPlace(PrecedingText.SPECIAL)) == written
    assert placed(written, TextPlace(PrecedingText.TEXT)) != written
    never = changed(written.encode(), pre_tokenizer={**LEGACY, "add_prefix_space": False}).decode()
    assert placed(never, TextPlace(PrecedingText.TEXT)) == never


def test_a_piece_that_a_content_spells_out_is_text() -> None:
    _, encoder = marked("llama-json")
    plain = np.zeros(2, np.bool_)
    spelled = encoder.spell(np.array(encoded(encoder, Sections(["a<|x|>", "the"], plain))))
    assert spelled.tobytes() == b" a<|x|>the"
    plain_text = encoder.spell(np.array(encoded(encoder, Sections(["a<think>", "the"], plain))))
    assert plain_text.tobytes() == b" a<think> the"


def test_the_same_markup_has_other_ids_at_another_place() -> None:
    _, encoder = marked("llama-json")
    for _ in range(2):
        for before, said in (([], b" the"), (["a"], b" athe"), (["a<|x|>"], b" a<|x|> the")):
            sections = Sections([*before, "the"], np.ones(len(before) + 1, np.bool_))
            assert encoder.spell(np.array(encoded(encoder, sections))).tobytes() == said


def test_a_section_alone_begins_as_a_text() -> None:
    _, encoder = marked("metaspace-first")
    for alone, said in ((True, b"<|x|> the"), (False, b"<|x|>the")):
        sections = Sections(
            ["<|x|>", "the"], np.array([True, False]), by_itself=np.array([False, alone])
        )
        assert encoder.spell(np.array(encoded(encoder, sections))).tobytes() == said


def test_only_tokenizers_that_put_something_there_vary() -> None:
    vary = {name for name in NAMES if encoder_of(name).varies}
    assert {"gpt2", "bert", "metaspace-never"}.isdisjoint(vary)
    assert {"llama-json", "llama-model", "metaspace-first", "metaspace-words", "gpt2-prefixed"} <= vary
    for name in vary:
        tokenizer = encoder_of(name).tokenizer
        assert all(tokenizer.at(place).vocab_size == tokenizer.vocab_size for place in EVERY)


@pytest.mark.parametrize(
    ("name", "sections", "text"),
    [
        ("albert-model", ["A:", " the  end"], "A: the end"),
        ("albert-model", ["A:  ", "the end "], "A: the end"),
        ("albert-model", [" (", "the", ") "], "(the)"),
        ("metaspace-words", ["A: ", "the end"], "A: the end"),
        ("metaspace-words", ["A:", " the end"], "A: the end"),
        ("metaspace-stripped", [" (", "the) "], "(the)"),
    ],
)
def test_white_space_around_a_border_is_what_the_document_has(
    name: str, sections: list[str], text: str
) -> None:
    encoder = encoder_of(name)
    plain = Sections(sections, np.zeros(len(sections), np.bool_))
    parts = encoder.encode(plain, dtype=np.dtype(np.int32))
    spelled = encoder.spell(parts.ids).tobytes().decode()
    assert spelled == " " + text
    assert encoder.normalised(plain) is not None


@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_piece_that_is_text_to_its_library_puts_no_space_behind_it(number: int) -> None:
    data = model_of(
        "bpe", byte_fallback=True, user_defined_symbols=["<|x|>"], control_symbols=["<|y|>", "<|p|>"]
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    name = "model.model"
    kind = kind_of_file("bare-model")
    found = describe(data, kind, name=name)
    ids = {f"reserved_{one}": model.piece_to_id(one) for one in ("<|x|>", "<|y|>")}
    roles = {
        "pad": model.piece_to_id("<|p|>"),
        **find_roles(found, SpecialPieces(), name=name).ids,
        **ids,
    }
    encoder = MarkupEncoder(existing_tokenizer(data, kind, roles, name=name))
    parts = ["<|x|>user", " the", "<|x|>", " ", "<|x|>a <|x|>(", "and"][:number]
    markup = np.array([True, False, True, True, True, False])[:number]
    put, *wanted = model.encode("".join(parts))
    assert model.id_to_piece(put) == "\u2581"  # before all: no space before a piece
    assert encoded(encoder, Sections(parts, markup)) == wanted
    apart = Sections(["<|y|>", "user", "the"], np.array([True, True, False]))
    assert encoder.spell(np.array(encoded(encoder, apart))).tobytes() == b"<|y|> userthe"


def test_white_space_that_a_file_takes_from_ends_alone_stays_before_text() -> None:
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    data, kind = changed(data_of("gpt2"), normalizer=strip), TokenizerKind.HUGGING_FACE
    found = describe(data, kind, name="stripped")
    ids = find_roles(found, SpecialPieces(), name="stripped").ids
    ids = {"eos": min(found.controls), "pad": min(found.controls), **ids}
    encoder = MarkupEncoder(existing_tokenizer(data, kind, ids, name="stripped"))
    sections = Sections(["the ", "end "], np.zeros(2, np.bool_))
    assert encoder.spell(np.array(encoded(encoder, sections))).tobytes() == b"the end"
