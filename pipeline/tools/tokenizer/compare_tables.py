"""Tokenizers side by side, as tables for people: a measure a table, a language a row."""

from pipeline.report.parity import ComparedText, TokenizerComparison
from pipeline.report.plain import PlainConsole, PlainTable, print_json, shortened

MOST_LANGUAGES = 24
"""Rows of a table; a terminal shows no more at once."""


def print_tokenizers(comparison: TokenizerComparison, *, as_json: bool) -> None:
    """Print what texts come to under each tokenizer."""
    if as_json:
        print_json(comparison)
        return
    console = PlainConsole()
    for one in comparison["tokenizers"]:
        console.line(f"{shortened(one['name'])}: {one['vocab_size']:,} ids, {one['path']}")
    reference, parallel = comparison["reference"], comparison["parallel"]
    if parallel is not None:
        unit, count = parallel["unit"], parallel["sentences"]
        left_out = f", {parallel['left_out']:,} left out that a language lacks" * bool(
            parallel["left_out"]
        )
        console.line()
        console.line(
            f"{parallel['source']}: {count:,} {_several(unit, count)} in each language{left_out}"
        )
        if unit != "sentence":
            console.line("These texts are parallel part by part, not sentence by sentence.")
        _print_rates(console, parallel, reference)
    if comparison["text"] is not None:
        console.line()
        console.line(f"{comparison['text']['source']}: texts by language, not the same ones")
        _print_rates(console, comparison["text"], None)


def _several(unit: str, count: int) -> str:
    return unit if count == 1 else f"{unit}s"


def _print_rates(console: PlainConsole, compared: ComparedText, reference: str | None) -> None:
    shown = _shown(compared, reference)
    if reference is not None:
        heading = f"Parity: tokens against those of {reference} for the same text"
        _print_table(console, heading, compared, shown, measure="parity", form="{:.2f}")
        heading = f"Tokens a {compared['unit']}"
        _print_table(console, heading, compared, shown, measure="tokens_per_text", form="{:,.1f}")
    else:
        _print_table(console, "Tokens", compared, shown, measure="tokens", form="{:,.0f}")
    _print_table(console, "Tokens a word", compared, shown, measure="tokens_per_word", form="{:.2f}")
    heading = "Tokens a character"
    _print_table(console, heading, compared, shown, measure="tokens_per_character", form="{:.3f}")
    for measure, heading, none in (
        ("byte_fallback", "Bytes and parts of characters among the tokens", "No token is a byte"),
        ("unknown", "Unknown tokens", "No token is unknown"),
        (
            "uncovered_characters",
            "Characters that no token holds whole",
            "Every character is in one token",
        ),
    ):
        hit = [
            name for name in shown if any(one[measure] for one in compared["languages"][name].values())
        ]
        if hit:
            _print_table(console, heading, compared, hit, measure=measure, form="{:.2%}")
        else:
            console.line()
            console.line(f"{none} in these languages.")
    rest = len(compared["languages"]) - len(shown)
    if rest:
        console.line()
        console.line(f"{rest:,} languages more, of which all pay less, are in --json")


def _shown(compared: ComparedText, reference: str | None) -> list[str]:
    """Return the languages of the tables: those that pay most if they are too many."""
    languages = compared["languages"]
    if len(languages) <= MOST_LANGUAGES:
        return sorted(languages)
    measure = "tokens_per_character" if reference is None else "parity"
    worst = sorted(languages, key=lambda n: (-max(one[measure] for one in languages[n].values()), n))
    return sorted({*worst[:MOST_LANGUAGES], *([] if reference is None else [reference])})


def _print_table(
    console: PlainConsole,
    heading: str,
    compared: ComparedText,
    languages: list[str],
    *,
    measure: str,
    form: str,
) -> None:
    names = list(compared["total"])
    table = PlainTable("language", *map(shortened, names)).right()
    for language in languages:
        rates = compared["languages"][language]
        table.add(shortened(language), *(form.format(rates[name][measure]) for name in names))
    total = compared["total"]
    last = "mean" if measure == "parity" else "all languages"
    table.add(last, *(form.format(total[name][measure]) for name in names))
    if measure == "tokens_per_text":
        table.add("all tokens", *(f"{total[name]['tokens']:,.0f}" for name in names))
    console.line()
    console.line(heading)
    console.show(table)
