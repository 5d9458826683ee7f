"""What the settings of tokenizer training cost whom: one table over many of them, from a corpus.

    python -m benchmarks.tokenizer_defaults 'CORPUS/*.jsonl.gz' --work DIR --parallel PARALLEL
        [--sizes 32000] [--alphas 0.2 0.3 0.5 1] [--max-repeats 1 2 4] [--coverage 0.998 0.9995]
        [--sample-size 64MiB] [--workers N] [--json table.json]

Documents are JSON lines with `text` and `lang`. They are cleaned and deduplicated once, in DIR/run, as a
run does; a second call reads what is there. PARALLEL has a file LANG.txt a language; line N of each is
the same sentence. Each row is a tokenizer that a run with these settings would train:

    tokens      of the parallel text in all languages
    en          tokens of English, and against alpha 1 with otherwise the same settings
    held out    tokens a word of English text that was held out, and against alpha 1 likewise
    corpus      tokens of the kept text, of languages of which some was held out
    bytes       languages of which more than a tenth of the held-out tokens are bytes; or the most
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.commands.tokenizer_sweep import SweepRequest, SweptSettings, sweep_tokenizers
from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session
from stages.tokenizer.fairness import NOTABLE_FALLBACK

_ROW = "{:>6} {:>5} {:>7} {:>8} {:>8}  {:>9} {:>7} {:>7} {:>6} {:>7} {:>13} {:>12}  {}"
_HEADINGS = (
    *("size", "alpha", "repeats", "coverage", "sample", "tokens", "parity", "en", "", "held out"),
    *("", "corpus", "bytes"),
)


def measured(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each combination of settings."""
    work = Path(arguments.work)
    combinations = itertools.product(arguments.max_repeats, arguments.coverage, arguments.sample_size)
    for number, (repeats, coverage, sample_size) in enumerate(combinations):
        train = {
            "max_repeats": repeats,
            "character_coverage": coverage,
            "sample_size": sample_size,
        }
        file = _run_file(arguments.paths, train, memory=arguments.memory)
        run = RunRequest(file, Path.cwd(), work / "run", arguments.workers, until="dedup")
        if not number:
            run_session(run, stream=sys.stderr)
        request = SweepRequest(
            run,
            SweptSettings(tuple(arguments.sizes), tuple(arguments.alphas)),
            has_texts=True,
            parallel=None if arguments.parallel is None else Path(arguments.parallel),
        )
        found = sweep_tokenizers(request, stream=sys.stderr)
        at_one = {one["vocab_size"]: one for one in found["tokenizers"] if one["alpha"] == 1}
        for point in found["tokenizers"]:
            words = _words(point)
            one = at_one.get(point["vocab_size"])
            yield {
                **train,
                **{name: value for name, value in point.items() if name != "folder"},
                "tokens_per_word": words,
                "word_increase": None if one is None or words is None else words / _words(one) - 1,
                "over": {
                    name: rates["byte_fallback"]
                    for name, rates in point["held_out"].items()
                    if rates["byte_fallback"] > NOTABLE_FALLBACK
                },
            }


def _words(point: Any) -> Any:
    """Return the tokens a word of English held-out text; None if none was held out."""
    return point["held_out"].get("en", {}).get("tokens_per_word")


def _run_file(paths: list[str], train: dict[str, Any], *, memory: str) -> RunFile:
    source = {"name": "corpus", "paths": paths, "language": {"column": "lang"}}
    return RunFile.model_validate(
        {
            "sources": [source],
            "tokenizer": {"train": train},
            "resources": {"memory": memory},
            "datasets": [{"name": "clm"}],
        }
    )


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the table."""

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:+.1%}"

    over = ", ".join(f"{name} {value:.1%}" for name, value in row["over"].items())
    most = row["byte_fallback"]
    corpus, words = row["corpus_tokens"], row["tokens_per_word"]
    return _ROW.format(
        row["vocab_size"],
        f"{row['alpha']:g}",
        row["max_repeats"],
        row["character_coverage"],
        row["sample_size"],
        f"{row['tokens']:,}",
        f"{row['parity']:.3f}",
        f"{row['reference_tokens']:,}",
        share(row["reference_increase"]),
        "" if words is None else f"{words:.4f}",
        share(row["word_increase"]),
        "" if corpus is None else f"{corpus:,}",
        over or ("" if most is None else f"at most {most:.1%} ({row['byte_fallback_language']})"),
    )


def main() -> None:
    """Measure, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--work", required=True)
    parser.add_argument("--parallel")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32_000])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.2, 0.3, 0.5, 1.0])
    parser.add_argument("--max-repeats", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--coverage", type=float, nargs="+", default=[0.9995])
    parser.add_argument("--sample-size", nargs="+", default=["64MiB"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows = []
    print(_ROW.format(*_HEADINGS), flush=True)
    for row in measured(arguments):
        rows.append(row)
        print(line_of(row), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
