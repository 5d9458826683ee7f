"""datatrove: the verdicts of its quality filters on some documents, and the CPU seconds of each filter.

    datatrove_filters.py DOCUMENTS.jsonl OUTPUT.json [WORDS.jsonl]

WORDS has for each document the words and, for each of its lines, the number of sentences that datatrove
is given in place of those of its own tokenizer. A verdict is a reason, or "kept" and the text's digest.
"""

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.utils import text as datatrove_text
from datatrove.utils.word_tokenizers import WordTokenizer

FILTERS = {
    "gopher_quality": GopherQualityFilter,
    "gopher_repetition": GopherRepetitionFilter,
    "c4": C4QualityFilter,
    "fineweb": FineWebQualityFilter,
}


class GivenWords(WordTokenizer):  # type: ignore[misc]  # datatrove has no types
    """Words and sentences as they were written down."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._words: dict[str, list[str]] = {}
        self._sentences: dict[str, int] = {}
        for line in path.open(encoding="utf-8"):
            given = json.loads(line)
            self._words[given["text"]] = given["words"]
            self._sentences.update(given["sentences"])

    def word_tokenize(self, text: str) -> list[str]:
        """Return the words of a text."""
        return self._words[text]

    def sent_tokenize(self, text: str) -> list[str]:
        """Return the text as often as it has sentences."""
        return [text] * self._sentences[text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Return as many spans as the text has sentences."""
        return [(0, len(text))] * self._sentences[text]


def verdict_of(one: Any, text: str) -> str:
    """Return what a filter says of a text."""
    document = Document(text=text, id="0")
    found = one.filter(document)
    if found is True:
        return "kept " + hashlib.sha256(document.text.encode()).hexdigest()[:16]
    return str(found[1])


def main() -> None:
    """Ask every filter of every document."""
    documents, output, *given = map(Path, sys.argv[1:])
    words: dict[str, Any] = {"language": GivenWords(given[0])} if given else {}
    texts = [json.loads(line)["text"] for line in documents.open(encoding="utf-8")]
    found: dict[str, Any] = {}
    for name, kind in FILTERS.items():
        one = kind(**words)
        for text in texts[:20]:  # imports and tables are loaded
            verdict_of(one, text)
        datatrove_text.split_into_parts.cache_clear()
        before = time.process_time()
        verdicts = [verdict_of(one, text) for text in texts]
        found[name] = {"verdicts": verdicts, "cpu_seconds": time.process_time() - before}
    output.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
