"""What markup promises: control pieces become ids in markup alone, and all ids spell their text."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.tokenizer.existing import describe, existing_tokenizer
from stages.tokenizer.markup import MarkupEncoder, Sections, control_pieces
from stages.tokenizer.roles import SpecialPieces, find_roles
from tests.stages.chat.chat_files import LITERALS, PIECES, chat_tokenizer
from tests.stages.tokenizer.existing_files import data_of, kind_of_file, texts

DTYPE = np.dtype("<u2")
EOS = "<|endoftext|>"


def encoder_of(data: bytes, name: str = "chat.json", **special: str) -> MarkupEncoder:
    """Return an encoder of a tokenizer's file."""
    kind = kind_of_file(name)
    roles = find_roles(describe(data, kind, name=name), SpecialPieces(**special), name=name)
    return MarkupEncoder(existing_tokenizer(data, kind, roles.ids, name=name))


@cache
def whole_encoder() -> MarkupEncoder:
    """Return the encoder of a tokenizer that has the pieces of all templates."""
    return encoder_of(chat_tokenizer(), eos=EOS, bos="<s>", pad="<pad>")


@pytest.fixture
def encoder() -> MarkupEncoder:
    """The same."""
    return whole_encoder()


def ids_of(encoder: MarkupEncoder, sections: list[str], markup: list[bool]) -> list[list[int]]:
    """Return the ids of sections."""
    return [
        ids.tolist() for ids in encoder.encode(Sections(sections, np.array(markup)), dtype=DTYPE).parts()
    ]


def controls() -> dict[str, int]:
    """Return the ids of the pieces that the tokenizer sets apart."""
    content = json.loads(chat_tokenizer())
    return {token["content"]: token["id"] for token in content["added_tokens"]}


def test_markup_gives_control_ids_and_a_content_gives_none(encoder: MarkupEncoder) -> None:
    text = "<|im_end|>\n<|im_start|>user\n"
    marked, plain = ids_of(encoder, [text, text], [True, False])
    known = controls()
    assert [n for n in marked if n in known.values()] == [known["<|im_end|>"], known["<|im_start|>"]]
    assert not set(plain) & set(known.values())
    assert encoder.spell(np.array(marked)).tobytes().decode() == text
    assert encoder.spell(np.array(plain)).tobytes().decode() == text


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*texts()[:6], *LITERALS, "user\n", "\n\n", " "]), st.booleans()))
)
def test_every_section_spells_its_text_and_is_the_library_s(
    parts: list[tuple[str, bool]],
) -> None:
    encoder = whole_encoder()
    sections, markup = [text for text, _ in parts], np.array([flag for _, flag in parts], np.bool_)
    found = encoder.encode(Sections(sections, markup), dtype=DTYPE).parts()
    assert [encoder.spell(ids).tobytes().decode() for ids in found] == sections
    for ids, other in zip(found, encoder.encode_by_library(Sections(sections, markup)), strict=True):
        assert ids.tolist() == other.tolist()
    known = set(controls().values())
    for ids, is_markup in zip(found, markup.tolist(), strict=True):
        assert is_markup or not set(ids.tolist()) & known


def test_no_id_of_rows_is_given_by_markup() -> None:
    ids = {
        "eos": 2,
        "bos": 1,
        "pad": 3,
        "unk": 0,
        "sentinel_0": 5,
        "mask": 6,
        "reserved_7": 7,
        "begin": 1,
    }
    names = {0: "<unk>", 1: "<s>", 2: "</s>", 3: "<pad>", 5: "<extra_id_0>", 6: "<mask>", 7: "[INST]"}
    given = {"<s>": 1, "</s>": 2, "[INST]": 7}
    assert control_pieces(ids, names) == given
    assert control_pieces({**ids, "pad": 2}, names) == given, "an EOS that pads, too"
    unknown = {one: number for one, number in given.items() if number != 1}
    assert control_pieces({**ids, "unk": 1}, names) == unknown, "a BOS that stands for what is unknown"


def test_a_space_is_put_before_a_document_and_behind_special_pieces_and_nowhere_else() -> None:
    encoder = encoder_of(data_of("llama-json"), "llama.json", pad="<s>")
    assert encoder.tokenizer.begins_with_space
    first, second = ids_of(encoder, ["the", "the"], [False, False])
    assert encoder.spell(np.array(first)).tobytes() == b" the"
    assert encoder.spell(np.array(second)).tobytes() == b"the"
    assert ids_of(encoder, ["</s>the"], [True]) == [[2, *first]]
    assert ids_of(encoder, ["</s>", "the"], [True, False]) == [[2], first]
    assert ids_of(encoder, ["a</s>\n", "the"], [True, False])[1] == second
    assert encoder.bare(Sections(["</s>the", "the"], np.array([True, False]))) == [b"</s>the", b"the"]


def test_normalising_leaves_control_pieces_alone() -> None:
    encoder = encoder_of(data_of("bert"), "bert.json", eos="[SEP]")
    sections, markup = ["[SEP]HÉ", "[SEP]HÉ"], np.array([True, False])
    assert encoder.normalised(Sections(sections, markup)) == ["[SEP]he", "[sep]he"]


def test_the_pieces_are_many() -> None:
    assert len(PIECES) > 8
