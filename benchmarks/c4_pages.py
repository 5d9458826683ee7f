"""The filter `c4` beside the program that made C4: the pages that stay, and their texts.

    pip download tensorflow-datasets --no-deps -d DIR
    unzip -d DIR DIR/tensorflow_datasets-*.whl tensorflow_datasets/text/c4_utils.py
    PYTHONPATH=.:benchmarks python benchmarks/c4_pages.py DIR/tensorflow_datasets/text/c4_utils.py \
        --corpus 'CORPUS/*.jsonl.gz' --documents 20000

Of the file only `clean_page` and its constants are run, so that nothing else need be installed. Its
sentences are counted as ours are, because the data of NLTK's Punkt are no package. Passes if all texts
are equal.
"""

import argparse
import ast
import dataclasses
import glob
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from filters import draw

from stages.filtering.c4 import C4, count_sentences
from stages.filtering.chain import FilterChain
from stages.filtering.filter import Document

CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
"""As `get_clean_page_fn` of the file has it."""
CONSTANTS = frozenset(
    f"_{name}"
    for name in (
        *("MIN_WORDS_PER_LINE", "MIN_NUM_SENTENCES", "MAX_WORD_LENGTH"),
        *("END_MARKS", "ELLIPSIS", "POLICY_SUBSTRINGS"),
    )
)
SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Page:
    """What `clean_page` reads and writes of a page."""

    text: str


def clean_page_of(place: Path) -> Callable[..., Iterable[Page]]:
    """Return `clean_page` of the file."""
    tree = ast.parse(place.read_text("utf-8"))
    wanted = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name == "clean_page")
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in CONSTANTS)
    ]
    space: dict[str, Any] = {
        "PageFeatures": Page,
        "Iterable": Iterable,
        "dataclasses": dataclasses,
        "_get_sentences": lambda line: range(count_sentences(line)),
    }
    exec(compile(ast.Module([*wanted], []), str(place), "exec"), space)  # noqa: S102  # the program that is compared
    found: Callable[..., Iterable[Page]] = space["clean_page"]
    return found


def main() -> int:
    """Compare, and show what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path, help="c4_utils.py")
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB")
    parser.add_argument("--documents", type=int, default=20_000, help="[default: 20000]")
    args = parser.parse_args()
    paths = sorted(Path(one) for pattern in args.corpus for one in glob.glob(pattern))  # noqa: PTH207
    clean, chain = clean_page_of(args.program), FilterChain([C4()], "any")
    counts: Counter[str] = Counter()
    for text in draw(paths, args.documents):
        theirs = [page.text for page in clean(Page(text), CITATION, lambda *_: None)]
        found = chain.judge(Document(text.encode(), len(text)))
        ours = [] if found.reason else [found.document.text.decode()]
        kind = "equal" if ours == theirs else "OTHER"
        counts[f"{kind}, {'kept' if theirs else 'dropped'}"] += 1
        if kind == "OTHER" and counts.total() and counts["shown"] < SHOWN:
            counts["shown"] += 1
            print(f"ours {ours[:1]!r:.300}\ntheirs {theirs[:1]!r:.300}\n")
    print(dict(counts.most_common()))
    return 1 if counts["shown"] else 0


if __name__ == "__main__":
    sys.exit(main())
