"""Fairness in a report: what languages take for the same text, and what rows have of them.

    tokenizer/parity.json, languages of the corpus    ->  parity, tokens a word ..., by language
    token store, packing                              ->  shares of documents, bytes, tokens, rows

The tables are for the page and for the terminal alike.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.report.parity import draw_parity
from pipeline.report.part import Part
from pipeline.report.plain import TextTable
from pipeline.report.report import Fairness, LanguageRow, Report, SplitPacking
from pipeline.run_file.config import OWN
from pipeline.steps.tokenizer.parallel import PARITY
from stages.stores.mounts import here
from stages.tokenizer.parity import measured_as

_TRAIN = "train"
_COUNTS = ("documents", "bytes", "tokens")


class _Tokenizer(Part):
    name: str
    vocab_size: int


class _ParityFile(Part):
    """What of tokenizer/parity.json is read."""

    reference: str
    unit: str
    sentences: int
    tokenizers: tuple[_Tokenizer, ...]
    languages: dict[str, dict[str, dict[str, float]]]


_BYTES = {"byte_tokens": "byte tokens", "byte_fallback": "held out"}
"""Headings of the shares of byte tokens, of the token store and of text that was not trained on."""


def fairness_of(output: Path, languages: Sequence[str]) -> Fairness | None:
    """Return what the languages of a corpus take for the same text; None if nothing was measured.

    Args:
        output: folder of the run.
        languages: of the corpus.
    """
    try:
        found = _ParityFile.model_validate_json(here(output / PARITY).read_bytes())
    except (OSError, ValueError):  # none, or damaged: `verify` names it
        return None
    names = measured_as(languages, found.languages.keys())
    own = {name: found.languages[one] for name, one in names.items()}
    sizes = {one.name: one.vocab_size for one in found.tokenizers}
    if not own or any(name not in rates for rates in own.values() for name in sizes):
        return None
    return Fairness(
        reference=found.reference,
        unit=found.unit,
        sentences=found.sentences,
        tokenizers=sizes,
        languages=own,
    )


def first_languages(
    rows: Sequence[LanguageRow], most: int
) -> tuple[list[LanguageRow], LanguageRow | None]:
    """Return the first rows of a table of languages, and the sum of the others if there are some."""
    shown, rest = list(rows[:most]), rows[most:]
    if not rest:
        return shown, None
    counted = [row.byte_tokens for row in rest if row.byte_tokens is not None]
    return shown, LanguageRow(
        language=f"{len(rest):,} others",
        documents=sum(row.documents for row in rest),
        bytes=sum(row.bytes for row in rest),
        tokens=sum(row.tokens for row in rest),
        byte_tokens=sum(counted) if len(counted) == len(rest) else None,
    )


def mix_table(report: Report, most: int) -> TextTable:
    """Return documents, bytes and tokens by language with their shares, and the share of rows.

    Args:
        report: of a run that has a token store.
        most: languages; of more, those with most tokens, and the sum of the others.
    """
    languages = report.languages
    first, others = first_languages(languages, most)
    rows = [*first, *([] if others is None else [others])]
    packed = packed_languages(report.packing)
    counted = [name for name in _BYTES if any(getattr(row, name) is not None for row in languages)]
    before = report.languages_before or {}
    totals = {name: max(sum(getattr(row, name) for row in languages), 1) for name in _COUNTS}
    in_rows = sum(packed.values())
    rest = in_rows - sum(packed.get(row.language, 0) for row in first)
    headings = ["language", *(heading for name in _COUNTS for heading in (name, "share"))]
    headings[1:1] = ["before"] * bool(before)
    headings += ["in rows"] * bool(in_rows) + ["bytes/token", *(_BYTES[name] for name in counted)]
    lines = []
    for row in rows:
        counts = ((getattr(row, name), totals[name]) for name in _COUNTS)
        cells = [text for count, total in counts for text in (f"{count:,}", f"{count / total:.2%}")]
        if before:
            read = sum(before.values()) - sum(before.get(one.language, 0) for one in first)
            cells.insert(0, f"{read if row is others else before.get(row.language, 0):,}")
        if in_rows:
            own = rest if row is others else packed.get(row.language, 0)
            cells.append(f"{own / in_rows:.2%}")
        cells.append(f"{row.bytes / max(row.tokens, 1):.2f}")
        shares = _byte_shares(row)
        cells += [f"{shares[name]:.2%}" if name in shares else "" for name in counted]
        lines.append((row.language, *cells))
    return TextTable(headings, lines, max(len(languages) - most, 0))


def _byte_shares(row: LanguageRow) -> dict[str, float]:
    """Return the shares of byte tokens that are known of a language."""
    shares = {}
    if row.byte_tokens is not None:
        shares["byte_tokens"] = row.byte_tokens / max(row.tokens, 1)
    if row.byte_fallback is not None:
        shares["byte_fallback"] = row.byte_fallback
    return shares


def packed_languages(packing: Mapping[str, Mapping[str, SplitPacking]]) -> dict[str, int]:
    """Return the tokens of each language in the training rows of the first dataset."""
    for splits in packing.values():
        if _TRAIN in splits:
            return {row.name: row.tokens for row in splits[_TRAIN].languages}
    return {}


def parity_table(fairness: Fairness, most: int) -> TextTable:
    """Return what each language takes for the same text, first those that pay most.

    Args:
        fairness: of the run.
        most: languages.
    """
    languages, others = fairness.languages, [n for n in fairness.tokenizers if n != OWN]
    names = sorted(languages, key=lambda name: (-languages[name][OWN]["parity"], name))
    unit = fairness.unit.rpartition(" ")[2]
    headings = ("language", "parity", *(f"parity of {name}" for name in others), f"tokens/{unit}")
    rows = []
    for name in names[:most]:
        rates = languages[name]
        own = rates[OWN]
        rows.append(
            (
                name,
                *(f"{rates[one]['parity']:.2f}" for one in (OWN, *others)),
                f"{own['tokens_per_text']:,.1f}",
                f"{own['tokens_per_word']:.2f}",
                f"{own['tokens_per_character']:.3f}",
                f"{own['byte_fallback']:.2%}",
                f"{own['uncovered_characters']:.2%}",
            )
        )
    last = ("tokens/word", "tokens/character", "byte tokens", "no piece")
    return TextTable((*headings, *last), rows, max(len(names) - most, 0))


def tokenizer_table(fairness: Fairness) -> TextTable:
    """Return what all languages of the corpus take together, by tokenizer."""
    rows = []
    for name, size in fairness.tokenizers.items():
        rates = {language: own[name] for language, own in fairness.languages.items()}
        tokens = sum(one["tokens"] for one in rates.values())
        parts = sum(one["tokens"] * one["byte_fallback"] for one in rates.values())
        worst = max(rates, key=lambda language: (rates[language]["parity"], language))
        mean = sum(one["parity"] for one in rates.values()) / len(rates)
        rows.append(
            (
                name,
                f"{size:,}",
                f"{tokens:,.0f}",
                f"{mean:.2f}",
                f"{rates[worst]['parity']:.2f} ({worst})",
                f"{parts / max(tokens, 1):.2%}",
            )
        )
    headings = ("tokenizer", "ids", "all tokens", "mean parity", "highest parity", "byte tokens")
    return TextTable(headings, rows)


def parity_picture(fairness: Fairness, most: int) -> str:
    """Return the picture of parity by language, as SVG; "" if there is one language.

    Args:
        fairness: what languages take.
        most: languages; of more, those that pay most.
    """
    rates = fairness.languages
    if len(rates) == 1:
        return ""
    names = sorted(rates, key=lambda name: (-rates[name][OWN]["parity"], name))[:most]
    return draw_parity(
        fairness.reference, list(fairness.tokenizers), {name: rates[name] for name in names}
    )
