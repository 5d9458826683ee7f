"""Measures of an extended tokenizer: what new text costs, and what became of old text."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.inputs.languages import BUNDLED_CORPUS, texts_of_file
from pipeline.tools.tokenizer.extend_tables import (
    AddedPieceShown,
    ChangedWord,
    ExtensionMeasures,
    LanguageDrift,
    LearnedLanguage,
)
from pipeline.tools.tokenizer.extension_texts import NewText
from stages.tokenizer.existing import ExistingTokenizer
from stages.tokenizer.extension.drift import Drift
from stages.tokenizer.extension.extended import Extension
from stages.tokenizer.texts import Encoded, joined_texts

_INT32 = np.dtype(np.int32)
_MOST_CHANGED = 1000
"""Changed words that are kept."""


@dataclass(frozen=True)
class BeforeAfter:
    """A tokenizer before and after it was extended."""

    before: ExistingTokenizer
    after: ExistingTokenizer

    def encode(self, texts: Sequence[str]) -> tuple[Encoded, Encoded]:
        """Return the ids of texts by both."""
        joined = joined_texts([text.encode() for text in texts])
        before = self.before.encode_texts(joined, dtype=_INT32)
        return before, self.after.encode_texts(joined, dtype=_INT32)


def old_source(given: Sequence[Path]) -> str:
    """Return where old text is from."""
    return " ".join(map(str, given)) if given else str(BUNDLED_CORPUS)


def measure_drift(
    files: Sequence[Path], both: BeforeAfter, learned: Collection[str]
) -> dict[str, Drift]:
    """Return what became of old text, by language; of learned ones without the stretches that changed.

    Raises:
        DataError: a file cannot be read.
    """
    sizes = np.fromiter(map(len, both.after.piece_bytes()), np.int64, both.after.vocab_size)
    found: dict[str, Drift] = {}
    for path in files:
        for language, texts in texts_of_file(path):
            own = found.setdefault(language, Drift())
            own.add(*both.encode(texts), sizes, listed=language not in learned)
    return dict(sorted(found.items()))


def measured(
    both: BeforeAfter, extension: Extension, new: Mapping[str, NewText], drifts: Mapping[str, Drift]
) -> ExtensionMeasures:
    """Return what is said of an extended tokenizer."""
    names, first = list(new), both.before.vocab_size
    total = sum((own for one, own in drifts.items() if one not in new), Drift())
    shown = both.after.pieces(range(first, both.after.vocab_size))
    pieces: list[AddedPieceShown] = [
        {"id": first + n, "piece": text, "language": names[piece.language], "uses": uses}
        for n, (piece, text, uses) in enumerate(
            zip(extension.pieces, shown, extension.uses.tolist(), strict=True)
        )
    ]
    given = Counter(piece["language"] for piece in pieces)
    return {
        "sha256": hashlib.sha256(extension.data).hexdigest(),
        "size_before": first,
        "size_after": both.after.vocab_size,
        "parts_only": sum(not piece["uses"] for piece in pieces),
        "dropped": extension.dropped,
        "languages": {name: _learned(both, own, pieces=given[name]) for name, own in new.items()},
        "old_languages": {name: _shown(drift) for name, drift in drifts.items()},
        "old_total": _shown(total),
        "changed_words": _changed(total, both),
        "pieces": pieces,
    }


def _learned(both: BeforeAfter, text: NewText, *, pieces: int) -> LearnedLanguage:
    before, after = both.encode(text.held_out)
    used = np.unique(after.ids)
    return {
        "texts": text.texts,
        "bytes": text.bytes,
        "pieces": pieces,
        "held_out_texts": len(text.held_out),
        "tokens_before": len(before.ids),
        "tokens_after": len(after.ids),
        "pieces_used": int((used >= both.before.vocab_size).sum()),
    }


def _shown(drift: Drift) -> LanguageDrift:
    return {
        "documents": drift.documents,
        "same_documents": drift.same_documents,
        "tokens_before": drift.tokens_before,
        "tokens_after": drift.tokens_after,
        "changed_tokens": drift.changed_tokens,
    }


def _changed(drift: Drift, both: BeforeAfter) -> list[ChangedWord]:
    """Return the stretches that changed most often."""
    spelled = both.after.piece_bytes()
    ordered = sorted(drift.stretches.items(), key=lambda item: (-item[1], item[0]))
    return [
        {
            "text": b"".join(spelled[number] for number in old).decode(errors="replace"),
            "times": times,
            "old_ids": list(old),
            "old_pieces": both.after.pieces(old),
            "new_ids": list(new),
            "new_pieces": both.after.pieces(new),
        }
        for (old, new), times in ordered[:_MOST_CHANGED]
    ]
