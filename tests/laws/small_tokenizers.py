"""Small tokenizers for runs that take one by path, with their own libraries as oracles of the ids.

Encoding here is that of sentencepiece and tokenizers alone: nothing of the program is asked.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers

from stages.tokenizer.framing import Preset
from stages.tokenizer.train import TrainConfig, train_model
from tests.conftest import bundled_lines
from tests.stages.tokenizer.existing_files import changed, data_of

_BERT = {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
_CLOSED = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "E", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"E": {"id": "E", "ids": [0], "tokens": ["<|endoftext|>"]}},
}
Roles = tuple[str | None, str]
"""Of the ids before and behind a document."""
PRESETS: dict[str, Roles] = {
    "gpt2": (None, "eos"),
    "llama": ("bos", "eos"),
    "bert": ("cls", "sep"),
    "roberta": ("bos", "eos"),
    "t5": (None, "eos"),
}
"""What each preset puts there, written down once more: a model expects it, whatever the program says."""


@dataclass(frozen=True)
class SmallTokenizer:
    """A tokenizer's file, and what is known of it."""

    file: str
    """Its name."""
    make: Callable[[], bytes]
    pieces: Mapping[str, str]
    """Those that may frame a document, by role."""
    special: frozenset[str] | None = None
    """Other roles that it has; None: all that there are."""
    frame: Roles | None = None
    """What its own post-processor puts around a text."""
    pads: bool = True
    """Whether it has an id to fill rows with."""
    writes_all: bool = True
    """Whether every text can be written, and parts of it be encoded anew."""

    def framing(self, content: Mapping[str, Any]) -> Roles | None:
        """Return the roles of a framing; None if this file says nothing of it."""
        preset = content.get("preset")
        if preset is Preset.TOKENIZER:
            return self.frame
        return (content["begin"], content["end"]) if preset is None else PRESETS[preset]


def _with_pieces(data: bytes) -> bytes:
    """Return a tokenizer.json with pieces of chat models; some it finds in texts too."""
    made = tokenizers.Tokenizer.from_str(data.decode())
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|eot_id|>", "[INST]"])
    made.add_tokens(
        [
            tokenizers.AddedToken(piece, normalized=False)
            for piece in ("<|start_header_id|>", "<|end_header_id|>", "[/INST]")
        ]
    )
    return str(made.to_str()).encode()


@cache
def _trained() -> bytes:
    texts = [json.loads(line)["text"] for line in bundled_lines("text/*", 6)]
    pieces = [(line, 1) for text in texts for line in text.splitlines() if 0 < len(line) < 1000]
    return train_model(pieces, TrainConfig(vocab_size=1000, character_coverage=0.98))


TOKENIZERS: dict[str, SmallTokenizer] = {
    "trained": SmallTokenizer(
        "trained.model", _trained, {"bos": "<s>", "eos": "</s>", "cls": "<cls>", "sep": "<sep>"}
    ),
    "llama": SmallTokenizer(
        "llama.model",
        lambda: data_of("llama-model"),
        {"bos": "<s>", "eos": "</s>"},
        special=frozenset(),
        pads=False,
    ),
    "bert": SmallTokenizer(
        "bert.json",
        lambda: changed(data_of("bert"), post_processor=_BERT),
        {"cls": "[CLS]", "sep": "[SEP]"},
        special=frozenset(["mask", "cls", "sep"]),
        frame=("cls", "sep"),
        writes_all=False,
    ),
    "gpt2": SmallTokenizer(
        "gpt2.json",
        lambda: changed(_with_pieces(data_of("gpt2")), post_processor=_CLOSED),
        {"eos": "<|endoftext|>"},
        special=frozenset(),
        frame=(None, "eos"),
        pads=False,
    ),
}
"""Of our own making and of others': SentencePiece models and files of tokenizers."""


_NO_PREFIX = b"\x1a\x02\x18\x00"
"""Behind a model: its normaliser puts no space before texts (normalizer_spec.add_dummy_prefix)."""


class Library:
    """The library of a tokenizer's file.

    Args:
        path: of the file.
        markup: pieces that are kept from texts though the file itself would find them there.
    """

    def __init__(self, path: Path, *, markup: Collection[str] = ()) -> None:
        self._model: Any = None
        if path.suffix == ".model":
            self._model = model = sentencepiece.SentencePieceProcessor(model_file=str(path))
            bare = path.read_bytes() + _NO_PREFIX
            self._bare = sentencepiece.SentencePieceProcessor(model_proto=bare)
            every = range(model.get_piece_size())
            self._apart = {model.id_to_piece(n): n for n in every if model.is_control(n)}
            return
        content = json.loads(path.read_text(encoding="utf-8"))
        added = content["added_tokens"]
        apart = [token for token in added if token["special"] or token["content"] in markup]
        self._apart = {token["content"]: token["id"] for token in apart}
        self._whole = tokenizers.Tokenizer.from_str(json.dumps(content))
        found = {**content, "added_tokens": [token for token in added if token not in apart]}
        self._file = tokenizers.Tokenizer.from_str(json.dumps(found))

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Return the ids of a text, none put around it; what is set apart is text like any other.

        Args:
            text: it.
            begins: whether a model may put a space before it.
        """
        if self._model is not None:
            ids: list[int] = (self._model if begins else self._bare).encode(text)
            return ids
        found = self._file.encode(text, add_special_tokens=False).tokens
        return [
            self.number(piece) for piece in found
        ]  # a file with fewer added pieces numbers them anew

    def atoms(self, text: str) -> list[str | int]:
        """Return a text cut at the pieces that are set apart, with their ids in place of them."""
        pieces = sorted(self._apart, key=len, reverse=True)
        parts = re.split(f"({'|'.join(map(re.escape, pieces))})", text)
        return [self._apart[part] if number % 2 else part for number, part in enumerate(parts) if part]

    def number(self, piece: str) -> int:
        """Return the id of a piece."""
        found = self._model.piece_to_id(piece) if self._model else self._whole.token_to_id(piece)
        assert found is not None
        return int(found)
