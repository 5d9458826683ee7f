"""What framing promises: each document, or row, stands between the ids that a model expects."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from stages.errors import ConfigError, FormatError
from stages.tokenizer.framing import (
    BEGIN,
    ROW_BEGIN,
    FrameIds,
    Framing,
    Preset,
    are_own,
    framed_ids,
    row_frame,
    trained_ids,
    unbegun_ids,
)
from stages.tokenizer.post_processor import frame_of
from stages.tokenizer.special import special_ids

NAMED = [preset for preset in Preset if preset is not Preset.TOKENIZER]
TEMPLATE: dict[str, Any] = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ],
    "pair": [],
    "special_tokens": {"[CLS]": {"ids": [101]}, "[SEP]": {"ids": [102]}},
}
CLS_SEP = {"cls": ["<s>", 0], "sep": ["</s>", 2]}


def frame(part: Any) -> FrameIds | None:
    """Return the frame of a file with this post-processor."""
    return frame_of(json.dumps({"post_processor": part}).encode(), name="x.json")


@pytest.mark.parametrize("preset", NAMED)
def test_a_preset_names_the_ids_that_its_models_expect(preset: Preset) -> None:
    wanted = {
        "gpt2": (None, "eos"),
        "t5": (None, "eos"),
        "llama": ("bos", "eos"),
        "roberta": ("bos", "eos"),
        "bert": ("cls", "sep"),
    }
    assert Framing(preset=preset).roles == wanted[preset]


def test_by_default_documents_are_closed_by_eos_alone() -> None:
    assert trained_ids(Framing()) == special_ids()


def test_the_id_that_closes_documents_is_the_eos_and_the_former_one_is_kept_from_text() -> None:
    found = framed_ids({"unk": 0, "eos": 2, "cls": 4, "sep": 5}, begin=4, end=5)
    assert found == {"unk": 0, "eos": 5, "cls": 4, "sep": 5, "reserved_2": 2, BEGIN: 4}


@pytest.mark.parametrize("begin", [None, "bos", "cls"])
@pytest.mark.parametrize("end", ["eos", "sep"])
def test_a_trained_tokenizer_is_known_by_its_ids_however_it_is_framed(begin: Any, end: Any) -> None:
    ids = trained_ids(Framing(begin=begin, end=end))
    assert are_own(ids)
    assert not are_own({**ids, "mask": 1_000})
    assert sorted(set(ids.values())) == sorted(set(special_ids().values()))


@pytest.mark.parametrize("preset", NAMED)
def test_documents_of_framed_rows_are_closed_and_not_begun(preset: Preset) -> None:
    by_row = Framing(preset=preset, per="row")
    begin, end = by_row.roles
    assert by_row.stored_roles == (None, end)
    assert trained_ids(by_row) == trained_ids(Framing(end="sep" if end == "sep" else "eos"))
    ids = special_ids()
    wanted = {"end": ids[end]} if begin is None else {"begin": ids[begin], "end": ids[end]}
    assert row_frame(by_row, trained_ids(by_row)) == wanted
    assert row_frame(Framing(preset=preset), trained_ids(Framing(preset=preset))) is None


def test_what_a_file_puts_before_texts_begins_rows_under_a_role_of_its_own() -> None:
    ids = framed_ids({"unk": 0, "eos": 2}, begin=7, end=5)
    by_row = Framing(preset=Preset.TOKENIZER, per="row")
    found = unbegun_ids(ids, by_row)
    assert found == {"unk": 0, "eos": 5, "reserved_2": 2, ROW_BEGIN: 7}
    assert row_frame(by_row, found) == {"begin": 7, "end": 5}
    assert row_frame(by_row, {"unk": 0, "eos": 5}) == {"end": 5}
    assert unbegun_ids(ids, Framing(preset=Preset.BERT, per="row")) == {
        "unk": 0,
        "eos": 5,
        "reserved_2": 2,
    }


def test_one_id_cannot_begin_and_close_documents() -> None:
    with pytest.raises(ConfigError, match="would begin and close every document"):
        framed_ids({"eos": 2}, begin=2, end=2)


def test_a_preset_leaves_no_room_for_ids_of_its_own() -> None:
    with pytest.raises(ValidationError, match="a preset says what both are"):
        Framing(preset=Preset.BERT, begin="bos")


def test_a_trained_tokenizer_has_no_post_processor() -> None:
    with pytest.raises(ConfigError, match="says nothing of framing"):
        trained_ids(Framing(preset=Preset.TOKENIZER))


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (None, None),
        ({"type": "ByteLevel", "trim_offsets": True}, None),
        (TEMPLATE, FrameIds(101, 102)),
        ({**TEMPLATE, "single": TEMPLATE["single"][:2]}, FrameIds(101, None)),
        ({**TEMPLATE, "single": TEMPLATE["single"][1:]}, FrameIds(None, 102)),
        ({"type": "BertProcessing", **CLS_SEP}, FrameIds(0, 2)),
        ({"type": "RobertaProcessing", **CLS_SEP, "trim_offsets": True}, FrameIds(0, 2)),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}, TEMPLATE]}, FrameIds(101, 102)),
    ],
    ids=["none", "byte-level", "template", "begin", "end", "bert", "roberta", "sequence"],
)
def test_what_a_file_puts_around_a_text_is_read(part: Any, wanted: FrameIds | None) -> None:
    assert frame(part) == wanted


@pytest.mark.parametrize(
    "part",
    [
        "x",
        {"type": "Unheard"},
        {"type": "BertProcessing", "cls": 1, "sep": 2},
        {**TEMPLATE, "single": []},
        {**TEMPLATE, "special_tokens": {}},
        {**TEMPLATE, "special_tokens": {"[CLS]": {"ids": ["a"]}, "[SEP]": {"ids": [2]}}},
    ],
)
def test_a_post_processor_that_cannot_be_read_is_named(part: Any) -> None:
    with pytest.raises(FormatError, match=r"x\.json: post_processor cannot be read"):
        frame(part)


def test_several_ids_on_a_side_are_refused_with_the_way_out() -> None:
    twice = {"type": "Sequence", "processors": [TEMPLATE, {"type": "BertProcessing", **CLS_SEP}]}
    with pytest.raises(FormatError, match=r"\[0, 101\].*\[102, 2\].*set framing.begin"):
        frame(twice)
