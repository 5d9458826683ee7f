"""datasketch or rensa: the loop of their own pages, over word 5-grams. Writes the ids that it removes.

    sketch_dedup.py '{"program": "rensa", "corpus": ..., "output": ..., "shingle": 5, ...}'

Each document goes if the index knows one like it, and enters the index if it stays. Neither program is
told bands and rows: each chooses its own for the threshold.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def shingles(text: str, size: int) -> list[str]:
    """Return the strings of words of a text."""
    words = text.split()
    return [" ".join(words[start : start + size]) for start in range(max(1, len(words) - size + 1))]


def datasketch(facts: dict[str, Any]) -> Callable[[str, list[str]], bool]:
    """Return what says whether a document stays."""
    from datasketch import MinHash, MinHashLSH  # noqa: PLC0415  # one of the two is installed

    index = MinHashLSH(threshold=facts["threshold"], num_perm=facts["num_perm"])

    def stays(name: str, grams: list[str]) -> bool:
        sketch = MinHash(num_perm=facts["num_perm"])
        sketch.update_batch([gram.encode() for gram in grams])
        if index.query(sketch):
            return False
        index.insert(name, sketch)
        return True

    return stays


def rensa(facts: dict[str, Any]) -> Callable[[str, list[str]], bool]:
    """Return what says whether a document stays."""
    from rensa import (  # type: ignore[import-not-found]  # noqa: PLC0415
        RMinHash,
        RMinHashDeduplicator,
    )

    known = RMinHashDeduplicator(facts["threshold"], facts["num_perm"], use_lsh=True)

    def stays(name: str, grams: list[str]) -> bool:
        sketch = RMinHash(facts["num_perm"], 42)
        sketch.update(grams)
        return bool(known.add(name, sketch))

    return stays


def documents(corpus: Path) -> Iterator[dict[str, str]]:
    """Yield the records of a corpus."""
    for path in sorted(corpus.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def main() -> None:
    """Remove, and write what was removed."""
    facts = json.loads(sys.argv[1])
    stays = {"datasketch": datasketch, "rensa": rensa}[facts["program"]](facts)
    gone = [
        record["id"]
        for record in documents(Path(facts["corpus"]))
        if not stays(record["id"], shingles(record["text"], facts["shingle"]))
    ]
    (Path(facts["output"]) / "removed.json").write_text(json.dumps(gone))


if __name__ == "__main__":
    main()
