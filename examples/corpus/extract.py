"""How the files of each package become documents.

An extractor takes a package's files as (path, bytes) and gives documents in the same order.
Texts keep what their authors left in them (placeholders, stray spaces, mixed scripts); markup,
and strings that a translator never got to, are what is taken out.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from itertools import count
from pathlib import PurePosixPath
from typing import NamedTuple

Files = Iterable[tuple[str, bytes]]

# The natural languages of the corpus, as ISO 639-1 codes.
# fmt: off
LANGUAGES = frozenset((
    "ar", "az", "be", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et",
    "eu", "fa", "fi", "fr", "ga", "gl", "ha", "he", "hi", "hr", "hu", "hy", "id", "is",
    "it", "ja", "ka", "kk", "km", "ko", "lt", "lv", "mk", "ml", "mn", "mr", "my", "nb",
    "ne", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "sw", "ta", "te", "th",
    "tr", "uk", "ur", "uz", "vi", "zh",
))
# fmt: on
CODE_SUFFIXES = {".py": "code-python", ".js": "code-javascript", ".go": "code-go"}

HELP_TEMPLATE = re.compile(r'<script type="text/html"[^>]*>(.*?)</script>', re.DOTALL)

CHUNK_BYTES = 4_500
TAIL_BYTES = 400  # what is left over below this goes into the chunk before it
PROSE_BYTES = 30  # a message below this is a button or a heading, not a sentence
LONGEST_SOURCE_FILE = 40_000
CODES_PER_DOCUMENT = 50
ARTICLES = 30  # in a declaration that is all there


class Document(NamedTuple):
    """One line of the corpus."""

    id: str
    text: str
    lang: str


class _TextOf(HTMLParser):
    """Collects the text of HTML, one line for each block element."""

    BLOCKS = re.compile("p|div|h[1-6]|li|ul|ol|dl|dt|dd|tr|table|br|pre|header")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.parts.append("\n" if self.BLOCKS.fullmatch(tag) else "")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append("\n" if self.BLOCKS.fullmatch(tag) else "")

    def handle_data(self, data: str) -> None:
        self.parts.append(re.sub(r"\s+", " ", data))


def _plain(markup: str) -> str:
    """The text of a piece of HTML, without empty lines."""
    parser = _TextOf()
    parser.feed(markup)
    parser.close()
    lines = (re.sub(" +", " ", line).strip() for line in "".join(parser.parts).split("\n"))
    return "\n".join(line for line in lines if line)


def _chunks(text: str) -> list[str]:
    """The text in pieces of about `CHUNK_BYTES`, cut at the ends of lines and sentences."""
    chunks: list[str] = []
    current, size = "", 0
    for piece in re.split(r"(?<=[.!?] )|(?<=\n)", text):
        current += piece
        size += len(piece.encode())
        if size >= CHUNK_BYTES:
            chunks.append(current)
            current, size = "", 0
    if chunks and size < TAIL_BYTES:
        chunks[-1] += current
    else:
        chunks.append(current)
    return [chunk.strip() for chunk in chunks]


def _documents(name: str, lang: str, text: str) -> Iterator[Document]:
    """The chunks of one text as documents, numbered when there are several."""
    chunks = _chunks(text)
    for number, chunk in zip(count(1), chunks, strict=False):
        if chunk:
            yield Document(f"{name}#{number}" if len(chunks) > 1 else name, chunk, lang)


def _language(tag: str) -> str:
    """The language in a locale's name: `pt` for `pt_BR`, `zh` for `zh-Hant`."""
    return re.split("[-_]", tag)[0].lower()


def _sentences(messages: Iterable[str]) -> str:
    """The messages long enough to be prose, as plain lines."""
    lines = (_plain(m) if "<" in m else m.strip() for m in messages)
    return "\n".join(line for line in lines if len(line.encode()) >= PROSE_BYTES)


def books(label: str, files: Files) -> Iterator[Document]:
    """English prose in plain text files."""
    for path, data in files:
        yield from _documents(f"{label}/{path}", "en", data.decode())


def declarations(label: str, files: Files) -> Iterator[Document]:
    """The Universal Declaration of Human Rights: ten articles to a document."""
    for path, data in files:
        markup = data.decode()
        tag = re.search(r'<html[^>]* lang="([^"]*)"', markup)
        lang = _language(tag[1]) if tag else ""
        body = markup[markup.find("<body") :]
        articles = re.split(r"(?=<article)", body)
        if lang not in LANGUAGES or len(articles) <= ARTICLES:
            continue
        for number, (first, last) in enumerate(((0, 11), (11, 21), (21, None)), start=1):
            text = _plain("".join(articles[first:last]))
            if text:
                yield Document(f"{label}/{path}#{number}", text, lang)


def message_files(label: str, files: Files) -> Iterator[Document]:
    """JSON files of messages, `<component>/<locale>.json`, less what is still in English."""
    components: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for path, data in files:
        file = PurePosixPath(path)
        components[str(file.parent)][file.stem] = json.loads(data)
    for component, locales in sorted(components.items()):
        english = locales["en"]
        for locale, messages in sorted(locales.items()):
            lang = _language(locale)
            own = (t for k, t in messages.items() if locale == "en" or t != english.get(k))
            text = _sentences(own)
            if lang in LANGUAGES and len(text.encode()) >= TAIL_BYTES:
                yield from _documents(f"{label}/{component}/{locale}", lang, text)


def diagnostics(label: str, files: Files) -> Iterator[Document]:
    """A compiler's messages, keyed by a name that ends in a code: neighbouring codes together."""
    for path, data in files:
        lang = _language(PurePosixPath(path).parent.name)
        groups: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for key, message in json.loads(data).items():
            code = int(key.rsplit("_", 1)[1])
            groups[code // CODES_PER_DOCUMENT].append((code, message))
        for group, messages in sorted(groups.items()):
            text = "\n".join(message for _, message in sorted(messages))
            if len(text.encode()) >= TAIL_BYTES:
                yield Document(f"{label}/{path}#{group * CODES_PER_DOCUMENT}", text, lang)


def _translations(catalogue: str) -> Iterator[str]:
    """The finished translations in a gettext catalogue."""
    for entry in re.split(r"\n\s*\n", catalogue):
        if "#, fuzzy" in entry or 'msgid ""\nmsgstr' in entry:
            continue
        for quoted in re.findall(r'^msgstr(?:\[\d\])? ((?:"[^\n]*"\n?)+)', entry, re.MULTILINE):
            text = "".join(json.loads(f"[{line}]")[0] for line in quoted.strip().split("\n"))
            if text:
                yield text


def catalogues(label: str, files: Files) -> Iterator[Document]:
    """Gettext catalogues, `.../locale/<locale>/LC_MESSAGES/<domain>.po`."""
    for path, data in files:
        lang = _language(PurePosixPath(path).parts[-3])
        text = _sentences(_translations(data.decode()))
        if lang in LANGUAGES and len(text.encode()) >= TAIL_BYTES:
            yield from _documents(f"{label}/{path}", lang, text)


def help_pages(label: str, files: Files) -> Iterator[Document]:
    """Help texts that sit in HTML templates, `locales/<locale>/...`: one document for each file."""
    for path, data in files:
        templates = re.findall(r'<script type="text/html"[^>]*>(.*?)</script>', data.decode(), re.DOTALL)
        text = _plain("\n".join(templates))
        if text:
            yield Document(f"{label}/{path}", text, _language(PurePosixPath(path).parts[1]))


def source_code(label: str, files: Files) -> Iterator[Document]:
    """Source files as they are, less the empty and the very long ones."""
    for path, data in files:
        text = data.decode()
        if text.strip() and len(data) <= LONGEST_SOURCE_FILE:
            yield Document(f"{label}/{path}", text, CODE_SUFFIXES[PurePosixPath(path).suffix])
