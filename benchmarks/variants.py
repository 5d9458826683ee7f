"""Which changes of a document each setting sees through, and what it removes that is no duplicate.

    python -m benchmarks.variants CORPUS [--documents 50]

CORPUS is a folder of *.jsonl.gz with the fields `text` and `source`. Documents of it are written once as
they are and once with each of eight changes. The run itself (`run --until dedup`) decides. A cell is the
number of changed documents that are removed. The documents of the last two columns must stay:
translations of one text into many languages, and letters of one template with other facts.
"""

import argparse
import gzip
import json
import random
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session

CHANGES: dict[str, Callable[[str], str]] = {
    "lower case": str.lower,
    "no punctuation": lambda text: "".join(c for c in text if unicodedata.category(c)[0] not in "PS"),
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    "other digits": lambda text: re.sub(r"\d", lambda found: str((int(found[0]) + 3) % 10), text),
    "reflowed": lambda text: "\n".join(text.split()),
    "full width": lambda text: "".join(
        chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in text
    ),
    "first half": lambda text: text[: len(text) // 2].rsplit(" ", 1)[0],
    "1 in 60 words": lambda text: re.sub(r"(?:\S+\s+){59}\S+", lambda found: f"{found[0]} indeed", text),
}
ALL = ["quotes", "unicode", "case", "punctuation", "digits"]
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    **{f"normalize {name}": {"minhash": {"normalize": [name]}} for name in ALL},
    "normalize all": {"minhash": {"normalize": ALL}},
    "20 characters": {"minhash": {"shingle": "char", "size": 20}},
    "20 characters, all": {"minhash": {"shingle": "char", "size": 20, "normalize": ALL}},
    "containment 0.9": {"containment": {"threshold": 0.9}},
    "all, containment": {"minhash": {"normalize": ALL}, "containment": {"threshold": 0.9}},
}
WORDS = range(200, 2_001)
"""Of a document that is drawn."""
NAMES = ("Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jo")
TOWNS = ("Graz", "Turku", "Porto", "Cork", "Gdansk", "Brno", "Split", "Malaga", "Tartu", "Lyon")
GOODS = ("copper pipe", "winter coats", "oak boards", "glass jars", "bicycle chains", "tea", "wool yarn")


def documents_of(corpus: Path, pattern: str, count: int, draw: random.Random) -> list[str]:
    """Draw documents with 200 words and more, with digits, of some files."""
    texts = []
    for path in sorted(corpus.glob(pattern)):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts += [json.loads(line)["text"] for line in file]
    fit = [text for text in texts if len(text.split()) in WORDS and re.search(r"\d", text)]
    return draw.sample(fit, count)


def letters(count: int, draw: random.Random) -> Iterator[str]:
    """Yield letters of one template, each with ten facts of its own."""
    for number in range(count):
        name, other = draw.sample(NAMES, 2)
        town, place = draw.sample(TOWNS, 2)
        goods = draw.sample(GOODS, 3)
        amounts = [draw.randrange(100, 99_999) for _ in range(4)]
        yield (
            f"Dear {name} {other}son, thank you for order {number}-{amounts[0]} from {town}."
            f" We sent {amounts[1]} units of {goods[0]} and {goods[1]} to {place} on day"
            f" {draw.randrange(365)} by carrier {draw.choice(TOWNS)} Freight."
            f" The {goods[2]} that you asked for cost {amounts[2]} euro and will follow from our"
            f" store in {draw.choice(TOWNS)}. Please pay {amounts[3]} euro to {other} in {place}. Yours,"
            f" {draw.choice(NAMES)}"
        )


def declarations(corpus: Path) -> Iterator[str]:
    """Yield the first text of each file, if of the commonest package: one text in many languages."""
    first = []
    for path in sorted(corpus.glob("[!c]*-00000.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            first.append(json.loads(next(file)))
    packages = [record["source"].rpartition("/")[0] for record in first]
    ((most, _),) = Counter(packages).most_common(1)
    for record, package in zip(first, packages, strict=True):
        if package == most:
            yield record["text"]


def translations(corpus: Path, package: str) -> tuple[list[str], int]:
    """Return the texts of a package that it has in several languages, and how many pairs they make."""
    found: dict[str, list[str]] = {}
    for path in sorted(set(corpus.glob("*-00000.jsonl.gz")) - set(corpus.glob("code-*"))):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                if package not in line:
                    continue
                record = json.loads(line)
                name = record["source"].replace(f"/{record['lang']}/", "/*/")
                if name.startswith(package) and name != record["source"]:
                    found.setdefault(name, []).append(record["text"])
    several = [texts for texts in found.values() if len(texts) > 1]
    pairs = sum(len(texts) * (len(texts) - 1) // 2 for texts in several)
    return [text for texts in several for text in texts], pairs


def removed(documents: list[tuple[str, str]], settings: dict[str, Any], folder: Path) -> set[str]:
    """Return the names of the documents that a run removes."""
    folder.mkdir()
    lines = [json.dumps({"id": name, "text": text}) + "\n" for name, text in documents]
    (folder / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    source = {"name": "texts", "paths": ["texts.jsonl"], "id_column": "id", "language": "en"}
    dedup = {**settings, "max_removed_fraction": 1.0} if "max_removed_fraction" in FIELDS else settings
    file = {"sources": [source], "datasets": [{"name": "clm"}], "dedup": dedup}
    request = RunRequest(RunFile.model_validate(file), folder, folder / "run", 0, until="dedup")
    run_session(request, stream=None)
    table = pq.read_table(folder / "run" / "dedup" / "removed.parquet", columns=["own_id"])
    return set(table.column("own_id").to_pylist())


FIELDS = set(RunFile.model_fields["dedup"].annotation.model_fields)  # type: ignore[union-attr]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--pattern", default="en-*.jsonl.gz", help="files that documents are drawn from")
    parser.add_argument("--package", default="npm:quran-json", help="source of translated chapters")
    options = parser.parse_args()
    draw = random.Random(19)  # noqa: S311  # a choice of texts, no secret
    originals = documents_of(options.corpus, options.pattern, options.documents, draw)
    chapters, pairs = translations(options.corpus, options.package)
    stay = {
        "declaration": list(declarations(options.corpus)),
        "chapter": chapters,
        "letter": list(letters(1_000, draw)),
    }
    kinds = f"{len(stay['declaration'])} declarations | {pairs:,} pairs of translations | 1,000 letters"
    print(f"| setting | {' | '.join(CHANGES)} | {kinds} |")
    print(f"|---|{'---|' * (len(CHANGES) + 1 + len(stay))}")
    for name, settings in SETTINGS.items():
        if not settings.keys() <= FIELDS:
            continue
        cells = []
        with tempfile.TemporaryDirectory() as temporary:
            for number, change in enumerate(CHANGES.values()):
                texts = [(f"old-{n}", text) for n, text in enumerate(originals)]
                texts += [(f"new-{n}", change(text)) for n, text in enumerate(originals)]
                gone = removed(texts, settings, Path(temporary) / str(number))
                cells.append(sum(one.startswith("new-") for one in gone))
            for kind, texts_of_kind in stay.items():
                own = [(f"{kind}-{n}", text) for n, text in enumerate(texts_of_kind)]
                cells.append(len(removed(own, settings, Path(temporary) / kind)))
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
