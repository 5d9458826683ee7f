"""Parity: tokens of a language against those of a reference language, for the same sentences.

Bytes or words a token cannot be compared across scripts. Translations can:

    en  the cat sat on the mat      7 tokens
    de  die Katze saß auf der Matte 9 tokens     parity 9 / 7 = 1.29

Source: Petrov et al. 2023, "Language Model Tokenizers Introduce Unfairness Between Languages",
arXiv:2305.15425. Here it is the quotient of all tokens, so that long sentences count for more.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stages.errors import ConfigError, DataError
from stages.tokenizer.fairness import LanguageCounts, TextCounter, rates_of

_SHOWN = 8


@dataclass(frozen=True)
class ParallelTexts:
    """The same sentences in several languages."""

    texts: Mapping[str, tuple[str, ...]]
    """By language, all of one length."""
    left_out: int
    """Sentences that are missing in a language, and so left out of all."""

    @property
    def sentences(self) -> int:
        """How many there are in each language."""
        return len(next(iter(self.texts.values())))


def parallel_texts(lines: Mapping[str, Sequence[str]], *, name: str) -> ParallelTexts:
    """Return the sentences that all languages have; blank ones are missing.

    Args:
        lines: of each language; line N of all is one sentence.
        name: where they are from, for messages.

    Raises:
        DataError: languages differ in their lines, or have no sentence in common.
    """
    counts = {language: len(own) for language, own in lines.items()}
    if len(set(counts.values())) > 1:
        raise DataError(
            f"{name}: line N of each language must be the same sentence, but {_listed(counts)}; add an"
            " empty line where a translation is missing"
        )
    languages = sorted(lines)
    rows = list(zip(*(lines[language] for language in languages), strict=True))
    kept = [row for row in rows if all(text.strip() for text in row)]
    if not kept:
        missing = {one: sum(not text.strip() for text in own) for one, own in lines.items()}
        raise DataError(
            f"{name}: no sentence stands in all {len(lines)} languages; of {len(rows):,} lines, blank"
            f" are {_listed(missing, 'in ')}; leave out the languages that have least"
        )
    columns = zip(*kept, strict=True)
    return ParallelTexts(dict(zip(languages, columns, strict=True)), len(rows) - len(kept))


def require_reference(languages: Iterable[str], reference: str, *, name: str) -> None:
    """Refuse a reference language of which there are no sentences.

    Raises:
        ConfigError: names the languages that there are.
    """
    there = sorted(languages)
    if reference not in there:
        raise ConfigError(
            f"--reference {reference}: {name} has no such language; it has {', '.join(there)}"
        )


def count_languages(
    counter: TextCounter, batches: Iterable[tuple[str, Sequence[str]]]
) -> dict[str, LanguageCounts]:
    """Return what the texts of each language come to under a tokenizer."""
    counts: defaultdict[str, LanguageCounts] = defaultdict(LanguageCounts)
    for language, texts in batches:
        for one in counter.count(texts):
            counts[language] += one
    return dict(counts)


def compared_rates(counts: LanguageCounts, reference: LanguageCounts | None) -> dict[str, float]:
    """Return the rates of a text, those that languages and tokenizers are compared by among them.

    Args:
        counts: of the text.
        reference: of the same text in the reference language; None if there is none.
    """
    rates = rates_of(counts) | {
        "texts": counts.pieces,
        "tokens_per_text": round(counts.tokens / max(counts.pieces, 1), 4),
        "tokens_per_character": round(counts.tokens / max(counts.characters, 1), 4),
        "unknown": round(counts.unknown / max(counts.tokens, 1), 6),
    }
    if reference is not None:
        rates["parity"] = round(counts.tokens / max(reference.tokens, 1), 4)
    return rates


def _listed(counts: Mapping[str, int], before: str = "") -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ordered
    if len(ordered) > _SHOWN:  # the most and the fewest are the ones to look at
        shown = [*ordered[: _SHOWN // 2], *ordered[-_SHOWN // 2 :]]
    more = f", and {len(ordered) - len(shown)} languages more" if len(ordered) > len(shown) else ""
    has = " has" if not before else ""
    return ", ".join(f"{before}{name}{has} {count:,}" for name, count in shown) + more
