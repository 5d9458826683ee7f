"""Texts by language: folders of LANG.txt or JSON lines, and the declarations that the package brings.

    DIR/en.txt     line N of each file is the same sentence     -> {"en": ["...", ...], "de": [...]}
    DIR/de.txt
    DIR/x.jsonl    {"text": "...", "lang": "en"}                 -> ("en", ["...", ...]), ...

Each may be compressed (.gz, .zst). Texts are cleaned as ingest cleans them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import orjson

from pipeline.system.disk_faults import disk_faults
from stages.cleaning.text import clean_text
from stages.errors import ConfigError, DataError
from stages.reading.decompress import stream_chunks
from stages.reading.lines import Line, split_lines
from stages.store.folders import entries
from stages.stores.given import given_path

BUNDLED = "Universal Declaration of Human Rights"
BUNDLED_CORPUS = Path("examples/corpus")
_CHECKOUT = Path(__file__).resolve().parents[2]
_DECLARATIONS = Path(__file__).with_name("declarations.jsonl.zst")
_COMPRESSED = (".gz", ".zst")
_TEXT, _JSON_LINES = ".txt", ".jsonl"
_MAX_LINE = 64 << 20
_BATCH = 1 << 18
"""Characters of the texts that are counted together."""


def parallel_lines(folder: Path, *, name: str = "--parallel") -> dict[str, list[str]]:
    """Return the lines of each LANG.txt of a folder, cleaned.

    Args:
        folder: of the files.
        name: of the setting that names it, for messages.

    Raises:
        ConfigError: there is no such folder, or it has fewer than two of these files.
        DataError: a file is not UTF-8, or damaged.
    """
    return {
        language: [clean_text(_decoded(path, line)) for line in _lines(path)]
        for language, path in parallel_files(folder, name=name).items()
    }


def parallel_files(folder: Path, *, name: str = "--parallel") -> dict[str, Path]:
    """Return each LANG.txt of a folder by language; args and errors are those of `parallel_lines`."""
    option = f"{name} {folder}"
    files = [path for path in _files(given_path(folder), option) if _ending(path) == _TEXT]
    if len(files) < 2:  # noqa: PLR2004  # a language, and one to compare it with
        found = f"only {files[0].name}" if files else "no file"
        raise ConfigError(
            f"{option}: has {found} of the form LANG.txt; give at least two, line N of each being"
            " the same sentence"
        )
    by_language: dict[str, Path] = {}
    for path in files:
        if _language(path) in by_language:
            raise ConfigError(f"{option}: has two files of {_language(path)}; leave one")
        by_language[_language(path)] = path
    return by_language


def texts_by_language(folder: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield texts with their language, some hundred at a time: lines of LANG.txt, records of *.jsonl.

    Raises:
        ConfigError: there is no such folder, or no such file in it.
        DataError: a file is damaged, not UTF-8, or a record has no `text` or no `lang`.
    """
    for path in text_files(folder, "--text"):
        yield from texts_of_file(path)


def text_files(path: Path, option: str) -> list[Path]:
    """Return the files of texts by language in a folder, or the one that is named, in their order.

    Args:
        path: of a folder or a file.
        option: that named it, for messages.

    Raises:
        ConfigError: there is none.
    """
    given = [path] if path.is_file() else _files(path, f"{option} {path}")
    files = [one for one in given if _ending(one) in (_TEXT, _JSON_LINES)]
    if not files:
        raise ConfigError(f"{option} {path}: has no file LANG.txt or *.jsonl (also .gz, .zst)")
    return files


def bundled_files(option: str) -> list[Path]:
    """Return the files of the bundled corpus.

    Raises:
        ConfigError: it is not here.
    """
    places = (BUNDLED_CORPUS, _CHECKOUT / BUNDLED_CORPUS)
    root = next((one for one in places if one.exists()), None)
    if root is None:
        raise ConfigError(
            f"{option}: not given, and the bundled texts ({BUNDLED_CORPUS}) are not here, as they"
            f" are in a checkout of the project; give {option} DIR"
        )
    return [path for folder in entries(root) if folder.is_dir() for path in text_files(folder, option)]


def texts_of_file(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the texts of a file with their language, some hundred at a time.

    Raises:
        DataError: it is damaged, not UTF-8, or a record has no `text` or no `lang`.
    """
    yield from _batches(_texts(path) if _ending(path) == _TEXT else _records(path))


def bundled_declarations() -> dict[str, list[str]]:
    """Return the Universal Declaration of Human Rights by language, in three parts.

    Its parts are parallel, its lines are not. It is the text of `examples/corpus/text`, cleaned: of a
    language with several translations the first.
    """
    records = (orjson.loads(line.content) for line in _lines(_DECLARATIONS))
    return {record["lang"]: record["parts"] for record in records}


def _files(folder: Path, option: str) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"{option}: no such folder")
    with disk_faults(folder):
        return [path for path in entries(folder) if path.is_file()]


def _ending(path: Path) -> str:
    """Return what a file is by its name: x.jsonl.gz -> .jsonl."""
    return (Path(path.stem) if path.suffix in _COMPRESSED else path).suffix


def _language(path: Path) -> str:
    """Return the language of a file: pt-BR.txt.gz -> pt-BR."""
    return path.name.removesuffix(path.suffix if path.suffix in _COMPRESSED else "").removesuffix(_TEXT)


def _lines(path: Path) -> Iterator[Line]:
    for line in split_lines(stream_chunks(path), max_bytes=_MAX_LINE):
        if line.size > _MAX_LINE:
            raise DataError(
                f"{path}, line {line.number:,}: {line.size:,} bytes, over {_MAX_LINE:,}; cut it in two"
            )
        yield line


def _decoded(path: Path, line: Line) -> str:
    try:
        return line.content.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {line.number:,}: not UTF-8; write the file in UTF-8") from error


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    language = _language(path)
    for line in _lines(path):
        yield language, _decoded(path, line)


def _records(path: Path) -> Iterator[tuple[str, str]]:
    for line in _lines(path):
        if line.blank:
            continue
        try:
            record = orjson.loads(line.content)
            language, text = record["lang"], record["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}, line {line.number:,}: not an object with text and lang"
                f" ({type(error).__name__}: {error})"
            ) from error
        if not (isinstance(language, str) and isinstance(text, str)):
            raise DataError(f"{path}, line {line.number:,}: text and lang must be strings")
        yield language, text


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield texts by language, as many together as are quick to count; blank ones are left out."""
    batches: defaultdict[str, list[str]] = defaultdict(list)
    size = 0
    for language, text in texts:
        clean = clean_text(text)
        if clean.strip():
            batches[language].append(clean)
            size += len(clean)
        if size >= _BATCH:
            yield from batches.items()
            batches, size = defaultdict(list), 0
    yield from batches.items()
