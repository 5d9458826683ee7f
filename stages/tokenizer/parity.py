"""Parity: tokens of a language against those of a reference language, for the same sentences.

Bytes or words a token cannot be compared across scripts. Translations can:

    en  the cat sat on the mat      7 tokens
    de  die Katze saß auf der Matte 9 tokens     parity 9 / 7 = 1.29

Source: Petrov et al. 2023, "Language Model Tokenizers Introduce Unfairness Between Languages",
arXiv:2305.15425. Here it is the quotient of all tokens, so that long sentences count for more.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from stages.errors import ConfigError, DataError
from stages.tokenizer.fairness import LanguageCounts, TextCounter, rates_of

NOTABLE_PARITY = 3.0
"""Parity of which a run warns. Of 62 languages, no language has more with the tokenizer of Gemma 3, two
with that of GPT-4o, 14 with that of Llama 3, and 20 with Mistral's first one, of 32,000 pieces."""
_SHOWN = 8
_SUBTAG = re.compile("[-_]")
_CODES = """
    ara:ar aze:az bel:be bul:bg ben:bn cat:ca ces:cs cym:cy dan:da deu:de ell:el eng:en spa:es
    est:et eus:eu fas:fa fin:fi fra:fr gle:ga glg:gl hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy
    ind:id isl:is ita:it jpn:ja kat:ka kaz:kk khm:km kor:ko lit:lt lav:lv mkd:mk mal:ml mon:mn
    mar:mr mya:my nob:nb nep:ne nld:nl pol:pl por:pt ron:ro rus:ru slk:sk slv:sl srp:sr swe:sv
    swa:sw tam:ta tel:te tha:th tur:tr ukr:uk urd:ur uzb:uz vie:vi zho:zh arb:ar azj:az ekk:et
    pes:fa lvs:lv khk:mn npi:ne swh:sw uzn:uz cmn:zh no:nb nor:nb
"""
_TWO_LETTERS = dict(pair.split(":") for pair in _CODES.split())
"""Codes of two letters by those of three, and by some others, of the languages of the declarations."""


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


def require_reference(
    languages: Iterable[str], reference: str, *, name: str, setting: str = "--reference "
) -> None:
    """Refuse a reference language of which there are no sentences.

    Args:
        languages: of which there are sentences.
        reference: that is asked for.
        name: where the sentences are from, for messages.
        setting: that names the reference, likewise.

    Raises:
        ConfigError: names the languages that there are.
    """
    there = sorted(languages)
    if reference not in there:
        raise ConfigError(
            f"{setting}{reference}: {name} has no such language; it has {', '.join(there)}"
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


Rates = Mapping[str, float]
"""What some text pays, by the names of `compared_rates`."""


def compared_languages(
    counts: Mapping[str, Mapping[str, LanguageCounts]], reference: str | None
) -> tuple[dict[str, dict[str, Rates]], dict[str, Rates]]:
    """Return the rates by language and tokenizer, and of all together: there, parity is the mean.

    Args:
        counts: by tokenizer and language.
        reference: the language that others are compared with; None if texts are not the same.
    """
    languages: dict[str, dict[str, Rates]] = {
        language: {
            name: compared_rates(own[language], None if reference is None else own[reference])
            for name, own in counts.items()
        }
        for language in sorted(next(iter(counts.values())))
    }
    total: dict[str, Rates] = {}
    for name, own in counts.items():
        rates = compared_rates(sum(own.values(), LanguageCounts()), None)
        if reference is not None:
            rates["parity"] = round(mean(one[name]["parity"] for one in languages.values()), 4)
        total[name] = rates
    return languages, total


def measured_as(names: Iterable[str], measured: Collection[str]) -> dict[str, str]:
    """Return the languages of a corpus that are among those measured, with their names there.

    en  ->  en        pt-BR, por_Latn, por  ->  pt        cmn_Hans  ->  zh

    Args:
        names: of the languages of the corpus: any words.
        measured: names of languages, such as en, de, zh.
    """
    found: dict[str, str] = {}
    for name in names:
        first = _SUBTAG.split(name.lower(), maxsplit=1)[0]
        for one in (name, first, _TWO_LETTERS.get(first)):
            if one is not None and one in measured:
                found[name] = one
                break
    return found


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
