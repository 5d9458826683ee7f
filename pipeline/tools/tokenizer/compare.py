"""Tokenizer compare: what texts of many languages come to under several tokenizers, side by side.

    DIR/en.txt, DIR/de.txt ...   ->  sentences that all languages have  -+
    bundled declarations         ->  the same parts in every language   -+-> tokens, rates, parity
    DIR/*.jsonl, DIR/*.txt       ->  texts by language                  -+

Texts are cleaned as a run cleans them, and encoded without what a run puts around documents. No run is
needed, and nothing is written but the picture.

Tokenizers side by side, as tables for people: a measure a table, a language a row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from pipeline.inputs.languages import (
    BUNDLED,
    bundled_declarations,
    parallel_lines,
    texts_by_language,
)
from pipeline.planning.existing import read_tokenizer_file
from pipeline.planning.outputs import require_local, require_picture
from pipeline.report.parity import draw_parity
from pipeline.report.plain import PlainConsole, PlainTable, print_json, shortened
from pipeline.steps.tokenizer.load import FOLDER, SPECIAL_IDS, tokenizer_of
from pipeline.system.disk_faults import disk_faults
from stages.errors import ConfigError
from stages.tokenizer.existing import describe, open_file
from stages.tokenizer.fairness import LanguageCounts, TextCounter
from stages.tokenizer.parity import (
    Rates,
    compared_languages,
    count_languages,
    parallel_texts,
    require_reference,
)
from stages.tokenizer.roles import SpecialPieces, find_roles


class ComparedTokenizer(TypedDict):
    """A tokenizer that was measured."""

    name: str
    path: str
    vocab_size: int


class ComparedText(TypedDict):
    """What some texts came to."""

    source: str
    unit: str
    """What a text is: a sentence, a part of the declaration, a text."""
    sentences: NotRequired[int]
    """Of parallel texts: in each language."""
    left_out: NotRequired[int]
    """Likewise: those that a language lacks."""
    languages: Mapping[str, Mapping[str, Rates]]
    """By language and tokenizer."""
    total: Mapping[str, Rates]
    """By tokenizer, of all languages together; parity is the mean of theirs."""


class TokenizerComparison(TypedDict):
    """All that `shardmill tokenizer compare --json` prints."""

    format_version: int
    reference: str
    tokenizers: list[ComparedTokenizer]
    parallel: ComparedText | None
    text: ComparedText | None


def compare_tokenizers(
    models: Sequence[str],
    *,
    parallel: Path | None = None,
    reference: str = "en",
    text: Path | None = None,
    picture: Path | None = None,
) -> TokenizerComparison:
    """Count what texts come to under each tokenizer, and draw the picture if it is asked for.

    Args:
        models: files, folders, or NAME=PATH.
        parallel: folder of LANG.txt whose lines are the same sentences.
        reference: the language that others are compared with.
        text: folder of any texts; without it and `parallel`, the bundled declarations are compared.
        picture: file of the picture, as SVG.

    Raises:
        ConfigError: no such file, folder or reference language, or nothing to compare on.
        DataError: texts that cannot be read, or are not parallel.
        FormatError: a file that is no tokenizer.
    """
    if picture is not None:
        require_picture(picture)
        if text is not None and parallel is None:
            raise ConfigError("--picture: shows parity, which needs the same sentences: give --parallel")
    paths = _named_paths(models)
    counters, tokenizers = {}, []
    for name, path in paths.items():
        counters[name] = _counter_of(path)
        about: ComparedTokenizer = {
            "name": name,
            "path": str(path),
            "vocab_size": counters[name].vocab_size,
        }
        tokenizers.append(about)
    comparison: TokenizerComparison = {
        "format_version": 1,
        "reference": reference,
        "tokenizers": tokenizers,
        "parallel": None,
        "text": None,
    }
    if parallel is not None or text is None:
        comparison["parallel"] = _on_parallel(parallel, reference, counters)
    if text is not None:
        comparison["text"] = _on_text(text, counters)
    if picture is not None:
        compared = comparison["parallel"]
        assert compared is not None, "parity is of parallel text"
        drawn = draw_parity(reference, list(paths), compared["languages"])
        with disk_faults(picture.parent):
            picture.write_text(drawn, encoding="utf-8")
    return comparison


def _on_parallel(
    folder: Path | None, reference: str, counters: Mapping[str, TextCounter]
) -> ComparedText:
    lines = bundled_declarations() if folder is None else parallel_lines(folder)
    name = BUNDLED if folder is None else f"--parallel {folder}"
    require_reference(lines, reference, name=name)
    found = parallel_texts(lines, name=name)
    batches = list(found.texts.items())
    counts = {one: count_languages(counter, batches) for one, counter in counters.items()}
    languages, total = compared_languages(counts, reference)
    return {
        "source": str(folder or BUNDLED),
        "unit": "declaration part" if folder is None else "sentence",
        "sentences": found.sentences,
        "left_out": found.left_out,
        "languages": languages,
        "total": total,
    }


def _on_text(folder: Path, counters: Mapping[str, TextCounter]) -> ComparedText:
    counts: dict[str, dict[str, LanguageCounts]] = {name: {} for name in counters}
    for batch in texts_by_language(folder):  # read once, for all of them
        for name, counter in counters.items():
            for language, one in count_languages(counter, [batch]).items():
                counts[name][language] = counts[name].get(language, LanguageCounts()) + one
    if not any(counts.values()):
        raise ConfigError(f"--text {folder}: holds no text; name a folder of LANG.txt or *.jsonl")
    languages, total = compared_languages(counts, None)
    return {"source": str(folder), "unit": "text", "languages": languages, "total": total}


def _named_paths(models: Sequence[str]) -> dict[str, Path]:
    """Return the tokenizers by name: as the user says, or where their paths differ."""
    paths, given = [], {}
    for model in dict.fromkeys(models):
        name, _, rest = model.partition("=")
        path = Path(rest if rest and not Path(model).exists() else model)
        require_local(path, "MODEL")
        if str(path) != model:
            given[path] = name
        paths.append(path)
    paths = list(dict.fromkeys(paths))
    names = [given.get(path) or own for path, own in zip(paths, _differing(paths), strict=True)]
    twice = sorted(name for name in set(names) if names.count(name) > 1)
    if twice:
        raise ConfigError(f"MODEL: two tokenizers are called {twice[0]!r}; name them: NAME=PATH")
    return dict(zip(names, paths, strict=True))


def _differing(paths: Sequence[Path]) -> list[str]:
    """Return the last part of each path that no two have: a/x/t.json b/x/t.json -> a b."""
    parts = [path.absolute().parts for path in paths]
    for place in range(1, min(map(len, parts)) + 1):
        names = [own[-place] for own in parts]
        if len(set(names)) == len(names):
            return names
    return list(map(str, paths))


def _counter_of(path: Path) -> TextCounter:
    """Return what counts with the tokenizer of a file, of a run, or of a folder that holds a file."""
    key = f"MODEL {path}"
    if not path.is_dir():
        return _counter_of_file(path, key)
    root = path.parent if path.name == FOLDER else path
    if (root / SPECIAL_IDS).exists():
        return TextCounter(tokenizer_of(root).codec)
    return _counter_of_file(path, key)


def _counter_of_file(path: Path, key: str) -> TextCounter:
    place, (kind, data, _) = read_tokenizer_file(path, key, base=Path.cwd())
    roles = find_roles(describe(data, kind, name=key), SpecialPieces(), name=place.name)
    return TextCounter(open_file(data, kind, set(roles.ids.values()), name=key))


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
