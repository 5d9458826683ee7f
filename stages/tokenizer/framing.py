"""Framing: the special ids that stand around every document, or around every row.

    preset      document                 a document of "low tide"
    gpt2, t5    tokens EOS               low tide </s>
    llama       BOS tokens EOS           <s> low tide </s>
    roberta     BOS tokens EOS           <s> low tide </s>
    bert        CLS tokens SEP           [CLS] low tide [SEP]

The id that closes a document is the run's `eos`, whatever its file calls it; the id that begins one is
its `begin`. So the rest of the program needs these two roles alone.

With `per = "row"` documents in the token store are closed, but not begun: rows get what begins them, and
an end where they lack one, when they are laid out (`stages.packing.row_frames`). So the same token store
serves rows that are framed and rows that are not.

Sources of the presets: transformers' tokenizers of these classes, with `add_eos_token` for Llama's.
Their `build_inputs_with_special_tokens` puts the same ids around each row of a text that is cut.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import model_validator

from stages.config import Config
from stages.errors import ConfigError
from stages.tokenizer.special import num_reserved, special_ids

BEGIN = "begin"
"""The role of the id that begins every document."""
ROW_BEGIN = "row_begin"
"""The role of the id that begins every row, where a file's own post-processor names it."""


class Preset(StrEnum):
    """Framings that models expect."""

    GPT2 = "gpt2"
    LLAMA = "llama"
    BERT = "bert"
    ROBERTA = "roberta"
    T5 = "t5"
    TOKENIZER = "tokenizer"


class Framing(Config):
    """Special ids at the beginning and the end of every document, or of every row."""

    preset: Preset | None = None
    """What a kind of model expects. `gpt2` and `t5`: EOS after each document, as without a preset.
    `llama` and `roberta`: BOS before and EOS after it. `bert`: CLS before and SEP after it. `tokenizer`:
    what the post-processor of the tokenizer.json puts around a text."""
    begin: Literal["bos", "cls"] | None = None
    """The special id before each document, if there is no preset; none by default."""
    end: Literal["eos", "sep"] = "eos"
    """The special id after each document, if there is no preset."""
    per: Literal["document", "row"] = "document"
    """`document`: the special ids are around each document. A row that begins in the middle of a
    document then has none before it. `row`: they are around each row of each dataset, as BERT and
    RoBERTa expect. Documents then have the id after them, but none before them."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "Framing":
        if self.preset is not None and (self.begin, self.end) != (None, "eos"):
            raise ValueError("preset and begin or end are both given: a preset says what both are")
        return self

    @property
    def roles(self) -> tuple[str | None, str]:
        """The roles of the ids before and behind each document; not of the preset `tokenizer`."""
        assert self.preset is not Preset.TOKENIZER, "its file says"
        return (self.begin, self.end) if self.preset is None else _ROLES[self.preset]

    @property
    def stored_roles(self) -> tuple[str | None, str]:
        """The roles of the ids that documents have in the token store, where what begins rows is not."""
        begin, end = self.roles
        return (None if self.per == "row" else begin), end

    @property
    def row_begin(self) -> str | None:
        """The role of the id that begins each row, if rows are framed and one does."""
        if self.per == "document":
            return None
        return ROW_BEGIN if self.preset is Preset.TOKENIZER else self.roles[0]


class FrameIds(NamedTuple):
    """The ids that a file's post-processor puts around a text."""

    begin: int | None
    end: int | None


def nothing_said() -> FrameIds | None:
    """Return that a file says nothing of what stands around a text."""
    return None


_ROLES: dict[Preset, tuple[str | None, str]] = {
    Preset.GPT2: (None, "eos"),
    Preset.LLAMA: ("bos", "eos"),
    Preset.BERT: ("cls", "sep"),
    Preset.ROBERTA: ("bos", "eos"),
    Preset.T5: (None, "eos"),
}
_POSSIBLE = [(begin, end) for begin in (None, "bos", "cls") for end in ("eos", "sep")]


def framed_ids(ids: Mapping[str, int], *, begin: int | None, end: int) -> dict[str, int]:
    """Return special ids by role, with those that begin and close every document.

    {"eos": 2, "cls": 4, "sep": 5}, begin 4, end 5 -> {"eos": 5, "cls": 4, "sep": 5, "reserved_2": 2,
    "begin": 4}

    Raises:
        ConfigError: one id would do both.
    """
    if begin == end:
        raise ConfigError(
            f"framing: the id {end:,} would begin and close every document, so nobody could tell where"
            " one ends; set framing.begin and framing.end, without a preset, or name other ids in"
            " [tokenizer.special]"
        )
    found = {**ids, "eos": end}
    before = ids.get("eos")
    if before is not None and before not in found.values():
        found[f"reserved_{before}"] = before
    if begin is not None:
        found[BEGIN] = begin
    return found


def trained_ids(framing: Framing, further: int = 0) -> dict[str, int]:
    """Return the special ids of a tokenizer that the run trains.

    Args:
        framing: of the run.
        further: control symbols of the run's own.

    Raises:
        ConfigError: the framing is that of a file, and there is none.
    """
    if framing.preset is Preset.TOKENIZER:
        raise ConfigError(
            "framing.preset = 'tokenizer': the run trains its tokenizer, which says nothing of framing;"
            " name the preset of a model, or begin and end"
        )
    begin, end = framing.stored_roles
    ids = special_ids(further)
    return framed_ids(ids, begin=None if begin is None else ids[begin], end=ids[end])


def unbegun_ids(ids: Mapping[str, int], framing: Framing) -> dict[str, int]:
    """Return special ids of a run whose rows begin with an id, in place of its documents.

    {"eos": 5, "cls": 4, "begin": 4} -> {"eos": 5, "cls": 4}; if a file says what begins rows, then with
    "row_begin": 4
    """
    found = {role: number for role, number in ids.items() if role != BEGIN}
    if framing.row_begin == ROW_BEGIN and BEGIN in ids:
        found[ROW_BEGIN] = ids[BEGIN]
    return found


def row_frame(framing: Framing, ids: Mapping[str, int]) -> dict[str, int] | None:
    """Return the ids around each row by side: {"begin": 4, "end": 5}; None if rows have no frame.

    Args:
        framing: of the run.
        ids: the run's special ids by role.
    """
    if framing.per == "document":
        return None
    begin = ids.get(framing.row_begin or "")
    return {**({} if begin is None else {"begin": begin}), "end": ids["eos"]}


def are_own(special: Mapping[str, int]) -> bool:
    """Say whether special ids are those of a tokenizer that a run trained, however it is framed."""
    first = num_reserved()
    further = sum(number >= first for number in special.values())
    return any(
        special == trained_ids(Framing.model_validate({"begin": begin, "end": end}), further)
        for begin, end in _POSSIBLE
    )
