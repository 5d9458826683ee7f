"""Framing: the special ids that stand around every document in the token store.

    preset      document                 a document of "low tide"
    gpt2, t5    tokens EOS               low tide </s>
    llama       BOS tokens EOS           <s> low tide </s>
    roberta     BOS tokens EOS           <s> low tide </s>
    bert        CLS tokens SEP           [CLS] low tide [SEP]

The id that closes a document is the run's `eos`, whatever its file calls it; the id that begins one is
its `begin`. So the rest of the program needs these two roles alone.

Sources of the presets: transformers' tokenizers of these classes, with `add_eos_token` for Llama's.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import model_validator

from stages.config import Config
from stages.errors import ConfigError
from stages.tokenizer.special import special_ids

BEGIN = "begin"
"""The role of the id that begins every document."""


class Preset(StrEnum):
    """Framings that models expect."""

    GPT2 = "gpt2"
    LLAMA = "llama"
    BERT = "bert"
    ROBERTA = "roberta"
    T5 = "t5"
    TOKENIZER = "tokenizer"


class Framing(Config):
    """What stands around every document."""

    preset: Preset | None = None
    """What a kind of model expects: gpt2 and t5 (EOS behind each document, as without a preset), llama
    and roberta (BOS before it, EOS behind), bert (CLS before it, SEP behind); or `tokenizer`: what the
    post-processor of the tokenizer.json puts around a text."""
    begin: Literal["bos", "cls"] | None = None
    """The special id before each document, if there is no preset; none by default."""
    end: Literal["eos", "sep"] = "eos"
    """The special id behind each document, if there is no preset."""

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


def trained_ids(framing: Framing) -> dict[str, int]:
    """Return the special ids of a tokenizer that the run trains.

    Raises:
        ConfigError: the framing is that of a file, and there is none.
    """
    if framing.preset is Preset.TOKENIZER:
        raise ConfigError(
            "framing.preset = 'tokenizer': the run trains its tokenizer, which says nothing of framing;"
            " name the preset of a model, or begin and end"
        )
    begin, end = framing.roles
    ids = special_ids()
    return framed_ids(ids, begin=None if begin is None else ids[begin], end=ids[end])


def are_own(special: Mapping[str, int]) -> bool:
    """Say whether special ids are those of a tokenizer that a run trained, however it is framed."""
    return any(
        special == trained_ids(Framing.model_validate({"begin": begin, "end": end}))
        for begin, end in _POSSIBLE
    )
