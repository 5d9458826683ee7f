r"""SentencePiece models as a tokenizer.json, whose ids are those of a run.

    pieces        kept at their ids; control symbols become special tokens
    scores        BPE: the order of merges; unigram: as they are
    normaliser    rules, folded white space, dummy prefix, and U+2581 for a space, as the model has them

A tokenizer that a run trained writes a U+2581 of a text in bytes, which SentencePiece itself takes for a
space. Its pieces are therefore written with spaces: U+2581 has no piece then, and falls back to bytes.

What may differ is found only by trying (`stages.tokenizer.hub_folder`): pieces of equal scores, rules of
a normaliser across characters, sums of 32-bit floats, where the library of tokenizer.json has 64 bits.
"""

import base64
import re
from collections.abc import Collection, Mapping
from string import digits
from typing import NamedTuple

import numpy as np

from stages.errors import FormatError
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import (
    NORMALISER,
    TRAINER,
    ModelKind,
    PieceType,
    SentencePieceModel,
    next_field,
)
from stages.tokenizer.vocabulary_policy import NUM_GROUPS, digit_groups

_CHARSMAP, _DUMMY_PREFIX, _FOLDS = 2, 3, 4
"""Fields of a normaliser."""
_SPACE_BEHIND, _BYTE_FALLBACK = 24, 35
"""Fields of the settings of training."""
_READ = (ModelKind.BPE, ModelKind.UNIGRAM)
_MATCHED = (PieceType.NORMAL, PieceType.USER_DEFINED)
"""What SentencePiece finds in texts."""
_THREES = {
    "type": "Split",
    "pattern": {"Regex": "[0-9]{1,3}"},
    "behavior": "Isolated",
    "invert": False,
}
"""Cuts digits in threes from the left."""
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False}


class _Rules(NamedTuple):
    """What a model does to texts before it cuts them."""

    charsmap: bytes
    dummy_prefix: bool
    folds: bool
    """Whether white space around a text goes, and runs of it become one space."""
    byte_fallback: bool


def converted(data: bytes, special: Collection[int], *, spaces: bool, name: str) -> dict[str, object]:
    """Return the content of the tokenizer.json of a model.

    Args:
        data: a model that was described before.
        special: ids that no text gives, whatever the model says of them.
        spaces: whether pieces are written with spaces, so that U+2581 of a text is written in bytes.
        name: for messages.

    Raises:
        FormatError: the model is of a kind that tokenizer.json has not.
    """
    model = SentencePieceModel(data)
    rules = _rules_of(model, name=name)
    types = model.types.copy()
    kept = [n for n in special if types[n] != PieceType.UNKNOWN]
    types[kept] = PieceType.CONTROL
    texts = [text.decode() for text in model.texts]
    if spaces:
        texts = [
            text.replace(SPACE_SYMBOL, " ") if kind in _MATCHED else text
            for text, kind in zip(texts, types.tolist(), strict=True)
        ]
    groups = _groups_in(texts, types.tolist(), model.scores.tolist())
    normal = {texts[n] for n in np.flatnonzero(types == PieceType.NORMAL).tolist()}
    cuts = bool(groups) and normal.issuperset(digits)
    if not cuts:  # a digit without a piece is in no merge, but may be in a piece that is matched whole
        types[groups] = PieceType.USER_DEFINED
    _require_convertible(model.kind, texts, types.tolist(), name=name)
    unknown = int(np.flatnonzero(types == PieceType.UNKNOWN)[0])
    inside = _bpe if model.kind is ModelKind.BPE else _unigram
    added = [
        _added(number, texts[number], special=bool(kind != PieceType.USER_DEFINED))
        for number, kind in enumerate(types.tolist())
        if kind in {PieceType.CONTROL, PieceType.UNKNOWN, PieceType.USER_DEFINED}
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": _normaliser(rules, spaces=spaces),
        "pre_tokenizer": _THREES if cuts else _apart(model.kind, texts, types.tolist(), rules),
        "post_processor": None,
        "decoder": _decoder(rules, spaces=spaces),
        "model": inside(texts, types.tolist(), model.scores.tolist(), unknown=unknown)
        | {"byte_fallback": rules.byte_fallback},
    }


def has_rules(data: bytes) -> bool:
    """Say whether a model has rules of normalisation, such as nmt_nfkc; not of spaces alone."""
    return bool(_rules_of(SentencePieceModel(data), name="").charsmap)


def _rules_of(model: SentencePieceModel, *, name: str) -> _Rules:
    fields: dict[tuple[int, int], int | bytes] = {}
    array = np.frombuffer(model.data, np.uint8)
    for part in (TRAINER, NORMALISER):
        for field in np.flatnonzero(model.fields.numbers == part).tolist():
            place, stop = int(model.fields.begins[field]), int(model.fields.stops[field])
            while place < stop:
                number, value, begin, place = next_field(array, place)
                field_of = (part, int(number))
                is_rules = field_of == (NORMALISER, _CHARSMAP)
                fields[field_of] = model.data[begin:place] if is_rules else int(value)
    if fields.get((TRAINER, _SPACE_BEHIND)):
        raise FormatError(
            f"{name}: puts the space behind words (treat_whitespace_as_suffix), which tokenizer.json"
            " cannot say; keep the SentencePiece model"
        )
    charsmap = fields.get((NORMALISER, _CHARSMAP), b"")
    assert isinstance(charsmap, bytes), "read as bytes"
    return _Rules(
        charsmap,
        bool(fields.get((NORMALISER, _DUMMY_PREFIX), 1)),
        bool(fields.get((NORMALISER, _FOLDS), 1)),
        bool(fields.get((TRAINER, _BYTE_FALLBACK), 0)),
    )


def _require_convertible(kind: ModelKind, texts: list[str], types: list[int], *, name: str) -> None:
    """Refuse what would give other ids on any text that holds it."""
    way_out = "keep the SentencePiece model"
    if kind not in _READ:
        raise FormatError(f"{name}: a model of kind {kind.name.lower()}, not BPE or unigram; {way_out}")
    if len(set(texts)) < len(texts):
        raise FormatError(
            f"{name}: has one piece at two ids, which tokenizer.json cannot say; {way_out}"
        )
    if kind is ModelKind.BPE and PieceType.UNUSED in types:
        number = types.index(PieceType.UNUSED)
        raise FormatError(
            f"{name}: merges over {texts[number]!r}, which it never gives (an unused piece), and"
            f" tokenizer.json cannot say that; {way_out}"
        )
    known = {text for text, of in zip(texts, types, strict=True) if of == PieceType.NORMAL}
    for text, of in zip(texts, types, strict=True):
        lone = [c for c in text if c not in known] if of == PieceType.NORMAL else []
        if kind is ModelKind.BPE and lone:
            raise FormatError(
                f"{name}: the piece {text!r} holds {lone[0]!r}, which has no piece of its own, so that"
                f" tokenizer.json cannot merge it; {way_out}"
            )
        if len(text) == 1 and of == PieceType.CONTROL:
            raise FormatError(
                f"{name}: the special piece {text!r} is one character, which the library of"
                f" tokenizer.json would give for it; {way_out}"
            )


def _groups_in(texts: list[str], types: list[int], scores: list[float]) -> list[int]:
    """Return the ids of the digit groups of a model that has them all.

    They rest on equal scores, of which the leftmost counts, and merges of a tokenizer.json have none. So
    digits are cut in threes before them.
    """
    groups = digit_groups()
    found = [
        number
        for number, (text, kind) in enumerate(zip(texts, types, strict=True))
        if kind == PieceType.NORMAL and groups.get(text) == scores[number]
    ]
    return found if len(found) == NUM_GROUPS else []


def _added(number: int, text: str, *, special: bool) -> dict[str, object]:
    return {"id": number, "content": text, **_FLAGS, "normalized": not special, "special": special}


def _bpe(texts: list[str], types: list[int], scores: list[float], *, unknown: int) -> dict[str, object]:
    """Return a BPE whose merges are all ways to join two pieces to a third, the best piece first."""
    normal = {text: n for n, text in enumerate(texts) if types[n] == PieceType.NORMAL}
    best_first = sorted(normal, key=lambda text: (-scores[normal[text]], normal[text]))
    merges = [
        [text[:cut], text[cut:]]
        for text in best_first
        for cut in range(len(text) - 1, 0, -1)  # of equal strings in a row, the left ones join first
        if text[:cut] in normal and text[cut:] in normal
    ]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": texts[unknown],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "ignore_merges": False,
        "vocab": {text: number for number, text in enumerate(texts)},
        "merges": merges,
    }


def _unigram(
    texts: list[str], types: list[int], scores: list[float], *, unknown: int
) -> dict[str, object]:
    """Return a unigram model; what no text may give scores less than any way around it."""
    least = min(
        (s for s, kind in zip(scores, types, strict=True) if kind == PieceType.NORMAL), default=0
    )
    longest = max(map(len, texts))
    never = (least - 1) * (longest + 1)
    vocab = [
        [text, score if kind in _MATCHED else never]
        for text, score, kind in zip(texts, scores, types, strict=True)
    ]
    return {"type": "Unigram", "unk_id": unknown, "vocab": vocab}


def _apart(
    kind: ModelKind, texts: list[str], types: list[int], rules: _Rules
) -> dict[str, object] | None:
    """Return what sets characters apart that have no piece, but stand in what no text may give.

    They are written in bytes, so nothing joins them to their neighbours. Without this, the way around a
    special piece of a unigram model that holds one would cost more than that piece.
    """
    known = {c for text, of in zip(texts, types, strict=True) if of in _MATCHED for c in text}
    kept = {c for text, of in zip(texts, types, strict=True) if of not in _MATCHED for c in text}
    lone = "".join(sorted(kept - known))
    if not lone or not rules.byte_fallback or kind is ModelKind.BPE:
        return None
    pattern = "|".join(map(re.escape, lone))
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _normaliser(rules: _Rules, *, spaces: bool) -> Mapping[str, object] | None:
    steps: list[dict[str, object]] = []
    if rules.charsmap:
        steps.append(
            {
                "type": "Precompiled",
                "precompiled_charsmap": base64.b64encode(rules.charsmap).decode(),
            }
        )
    if rules.folds:
        steps.append(_replace({"Regex": r"\A +| +\z"}, ""))
        steps.append(_replace({"Regex": " {2,}"}, " "))
    symbol = " " if spaces else SPACE_SYMBOL
    if rules.dummy_prefix:
        steps.append({"type": "Prepend", "prepend": symbol})
    if not spaces:
        steps.append(_replace({"String": " "}, SPACE_SYMBOL))
    return {"type": "Sequence", "normalizers": steps} if steps else None


def _replace(pattern: Mapping[str, str], content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _decoder(rules: _Rules, *, spaces: bool) -> dict[str, object]:
    steps: list[dict[str, object]] = [] if spaces else [_replace({"String": SPACE_SYMBOL}, " ")]
    if rules.byte_fallback:
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    if rules.dummy_prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}
