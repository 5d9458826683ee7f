"""Normalisation: what SentencePiece's rules do to a text before it is encoded, measured on samples.

`identity` does nothing. `nmt_nfkc` is Unicode's NFKC with further rules made for translation, where a
sentence is one line: they turn line feeds and tabs into spaces.
"""

from collections.abc import Callable
from enum import StrEnum

import sentencepiece

from stages.tokenizer.sampling import SPACE_SYMBOL


class Normalization(StrEnum):
    """The rules that a model may be trained with."""

    IDENTITY = "identity"
    NMT_NFKC = "nmt_nfkc"


_SAMPLES = {
    "upper case": "A",
    "accents": "\u00e9",
    "line feeds": "a\nb",
    "tabs": "a\tb",
    "runs of spaces": "  a   b ",
    "other spaces": "a\u00a0b\u2009c\u3000d",
    "zero-width spaces": "a\u200bb\u200cc\ufeffd",
    "zero-width joiners": "a\u200db",
    "soft hyphens": "a\u00adb",
    "U+FFFD": "a\ufffdb",
    "ligatures": "\ufb01",
    "superscripts": "x\u00b2",
    "fractions": "\u00bd",
    "full-width forms": "\uff21\uff76",
    "letter-like symbols": "\u2122",
    "ellipses": "\u2026",
}
"""What a text may hold, by name; the ligature alone tells every rule of the library from identity."""


def changed_samples(normalise: Callable[[str], str]) -> tuple[str, ...]:
    """Name what a normaliser changes among the samples: what a model that uses it cannot give back.

    nmt_nfkc -> ("line feeds", "tabs", "other spaces", ...)
    """
    return tuple(
        name
        for name, sample in _SAMPLES.items()
        if normalise(sample).replace(SPACE_SYMBOL, " ") != sample
    )


def changes_text(normalise: Callable[[str], str]) -> bool:
    """Say whether a normaliser changes any of the samples."""
    return bool(changed_samples(normalise))


def rule_normaliser(rule: Normalization) -> sentencepiece.SentencePieceNormalizer:
    """Return the normaliser of a rule, which leaves spaces as they are."""
    return sentencepiece.SentencePieceNormalizer(
        rule_name=rule.value,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=False,
    )


def normalization_loss(rule: Normalization) -> str | None:
    """Return one line on what texts lose under a rule, or None if nothing."""
    changed = changed_samples(rule_normaliser(rule).normalize)
    if not changed:
        return None
    return (
        f'tokenizer.train.normalization = "{rule.value}" changes {", ".join(changed)}: rows decode to'
        ' the normalised text, not to the cleaned one; set it to "identity" to keep texts as they are'
    )
