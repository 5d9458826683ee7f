"""Sources: the files of folders, as the sources that a run file names.

    mail/2021/*.txt  mail/2022/*.txt    one source of plain text for each folder
    repo/**/*.py  repo/**/*.go          one for each language of the code
    data/*.jsonl                        one for each way in which records hold their texts

A source reads files of one format whose records hold the text in the same field.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pipeline.tools.init.draft import Draft, DraftSource, patterns_of
from pipeline.tools.init.fields import FieldChoice, choose_fields, gives_document, texts_of_records
from pipeline.tools.init.folder import FileUse, FolderFile, files_below, with_copies_marked
from pipeline.tools.init.records import ASCII, FileBeginning, look_at
from stages.errors import ConfigError
from stages.reading.delimited import CSV, TSV
from stages.reading.delimiters import Quoting
from stages.reading.nested import find_column
from stages.reading.reader import Reader, StreamReader, TableReader

_COVERED = 0.9995
"""Share of the characters of texts that a vocabulary should have pieces for."""
_MOST_FOLDERS = 8
"""Folders that become sources of their own; of more, all files are one source."""
_MOST_LOOKED = 64
"""Files of a format in a folder that are looked at, spread over them."""
_MOST_ENDINGS = 4
"""Unknown endings that are named."""
_MOST_DOCS = 4
"""Times as much plain text as code, up to which the text is taken for the documentation of the code."""
_DOCS = "docs"
_KNOWN_LANGUAGES = frozenset(
    "ar bg bn ca cs da de el en es et fa fi fr gu he hi hr hu id it ja ka kk kn ko lt lv mk ml mr ms nl"  # noqa: SIM905  # a list of them takes sixty lines
    " no pa pl pt ro ru sk sl sq sr sv sw ta te th tr uk ur vi zh".split()
)
"""Names of folders that are taken for languages."""


@dataclass(frozen=True)
class _SeenFile:
    """A file, and what was seen of it; None if it was not looked at."""

    file: FolderFile
    looked: FileBeginning | None
    choice: FieldChoice | None


def draft_sources(folders: Sequence[Path]) -> Draft:
    """Look at folders, and say which sources they are.

    Raises:
        ConfigError: a folder is missing, may not be listed, or holds nothing that is read.
    """
    sources: list[DraftSource] = []
    left_out: Counter[str] = Counter()
    examples: dict[str, str] = {}
    _refuse_twice(folders)
    for folder in folders:
        files = _files(folder)
        of_code = _is_of_code(files)
        unknown = _unknown(files)
        groups: dict[tuple[str, str], list[FolderFile]] = defaultdict(list)
        for file in files:
            key, why = _group(file, of_code=of_code)
            if why == FileUse.UNKNOWN:
                why = unknown
            if why is None:
                groups[key].append(file)
            else:
                left_out[why] += 1
                examples.setdefault(why, str(file.place))
        for kind, group in _by_folder(groups):
            for source, unread in _sources(folder, kind, group, files):
                if source is not None:
                    sources.append(source)
                for file, why in unread:
                    left_out[why] += 1
                    examples.setdefault(why, str(file.place))
    if not sources:
        raise ConfigError(_nothing(folders, left_out, examples))
    named = _with_names(sources)
    return Draft(named, tuple((why, count, examples[why]) for why, count in left_out.most_common()))


def _files(folder: Path) -> list[FolderFile]:
    """Return the files of a folder; copies, and what programs made beside source code, are no data."""
    files = with_copies_marked(files_below(folder))
    if not _is_of_code(files):
        return files
    uses = (FileUse.DATA, FileUse.CODE, FileUse.NOTE)
    return [
        replace(file, use=FileUse.MADE) if file.is_built and file.use in uses else file for file in files
    ]


def _is_of_code(files: Sequence[FolderFile]) -> bool:
    """Say whether source code outweighs the data of a folder, beside which text may be its docs."""
    code = data = prose = 0
    for file in files:
        if file.is_built:
            continue
        if file.use is FileUse.CODE:
            code += file.size
        elif file.use is FileUse.DATA and _is_prose(file):
            prose += file.size
        elif file.use is FileUse.DATA:
            data += file.size
    return code > data and prose <= _MOST_DOCS * code


def _refuse_twice(folders: Sequence[Path]) -> None:
    """Refuse a folder that is named twice, or that lies in another: its files would be read twice."""
    for number, folder in enumerate(folders):
        for other in (*folders[:number], *folders[number + 1 :]):
            if folder.resolve().is_relative_to(other.resolve()):
                raise ConfigError(f"{folder}: lies in {other}, which is read too; name one of the two")


def _unknown(files: Sequence[FolderFile]) -> str:
    """Say which endings no reader knows: "no reader knows the ending .exe (14) and 3 other endings"."""
    counts = Counter(file.ending or "none" for file in files if file.use is FileUse.UNKNOWN)
    named = ", ".join(f"{ending} ({count:,})" for ending, count in counts.most_common(_MOST_ENDINGS))
    rest = len(counts) - _MOST_ENDINGS
    more = f" and {rest} other ending{'s' * (rest > 1)}" if rest > 0 else ""
    return f"no reader knows the ending {named}{more}"


def _nothing(folders: Sequence[Path], left_out: Counter[str], examples: Mapping[str, str]) -> str:
    listed = "; ".join(
        f"{count:,} file{'s' * (count > 1)} such as {examples[why]}: {why}"
        for why, count in left_out.most_common(4)
    )
    there = f"{', '.join(map(str, folders))}: nothing there can be read ({listed or 'no file is there'})"
    return f"{there}; name the folder that holds the texts"


def _is_prose(file: FolderFile) -> bool:
    """Say whether a file is plain text, which stands beside code and data alike."""
    return isinstance(file.reader, StreamReader) and file.reader.is_whole


def _group(file: FolderFile, *, of_code: bool) -> tuple[tuple[str, str], str | None]:
    """Return the group of a file, its kind and folder, or why it is in none."""
    if file.use is FileUse.UNKNOWN:
        return ("", ""), str(file.use)
    if file.use not in (FileUse.DATA, FileUse.CODE, FileUse.NOTE):
        return ("", ""), str(file.use)
    if file.language is not None:
        return (file.language, ""), None if of_code else "source code beside data"
    if of_code:
        return (_DOCS, ""), None if _is_prose(file) else "data beside source code"
    if file.use is FileUse.NOTE:
        return ("", ""), str(file.use)
    return (file.reader.name, file.top), None


def _by_folder(
    groups: Mapping[tuple[str, str], list[FolderFile]],
) -> list[tuple[str, list[FolderFile]]]:
    """Return the groups with their kinds; those of a format in too many folders are one."""
    folders = Counter(kind for kind, _ in groups)
    joined: dict[tuple[str, str], list[FolderFile]] = defaultdict(list)
    for (kind, top), files in groups.items():
        joined[kind, top if folders[kind] <= _MOST_FOLDERS else ""] += files
    return [(kind, joined[kind, top]) for kind, top in sorted(joined)]


def _sources(
    folder: Path, kind: str, files: Sequence[FolderFile], all_files: Sequence[FolderFile]
) -> list[tuple[DraftSource | None, list[tuple[FolderFile, str]]]]:
    """Return the sources of files of one format, and the files that none reads."""
    step = max(1, -(-len(files) // _MOST_LOOKED))
    seen = [_see(file) if not n % step else _SeenFile(file, None, None) for n, file in enumerate(files)]
    first = next((one for one in seen if one.choice is not None), None)
    by_shape: dict[_Shape, list[_SeenFile]] = defaultdict(list)
    unread: list[tuple[FolderFile, str]] = []
    for one in seen:
        if one.looked is not None and one.choice is None:
            unread.append((one.file, _why_unread(one.looked)))
        elif first is not None:
            by_shape[_shape(first if one.choice is None else one)].append(one)
    why = unread[0][1] if unread else ""
    unread += [(one.file, why) for one in seen if first is None and one.looked is None]
    most = max(by_shape.values(), key=len, default=[])
    found: list[tuple[DraftSource | None, list[tuple[FolderFile, str]]]] = [(None, unread)]
    for group in by_shape.values():
        own = {one.file.path for one in group}
        others = [file for file in all_files if file.path not in own]
        name = kind if kind == _DOCS or files[0].language else _name(folder, [one.file for one in group])
        found.append((_source(folder, name, group, others, by_name=group is not most), []))
    return found


def _why_unread(looked: FileBeginning) -> str:
    if looked.fault:
        return looked.fault
    if looked.records:
        return "no field of its records holds a text"
    return "its records are no objects with fields" if looked.bad else "no record is in it"


def _see(file: FolderFile) -> _SeenFile:
    looked = look_at(file.place, file.reader, file.size)
    if looked.fault:
        return _SeenFile(file, looked, None)
    if not looked.records:
        has_fields = not isinstance(file.reader, StreamReader) or file.reader.has_columns
        return _SeenFile(file, looked, None if has_fields else FieldChoice())
    choice = choose_fields(looked.records)
    markup = isinstance(file.reader, StreamReader) and not any(looked.records)
    return _SeenFile(file, looked, choice if choice.is_usable else FieldChoice() if markup else None)


@dataclass(frozen=True)
class _Shape:
    """What files of one source must have in common."""

    choice: FieldChoice
    has_language: bool
    """Whether a table has the column of the language."""
    delimiter: str | None
    quoting: Quoting | None


def _shape(one: _SeenFile) -> _Shape:
    """Return the shape of a file that was looked at."""
    assert one.looked is not None
    assert one.choice is not None
    own = one.choice
    choice = FieldChoice(own.text, own.section, chat=own.chat, completion=own.completion)
    has_language = one.choice.language is not None and _has_header(one.file.reader)
    quoting = one.looked.quoting[0] if one.looked.quoting else None
    return _Shape(choice, has_language, one.looked.delimiter, quoting)


def _has_header(reader: Reader) -> bool:
    """Say whether each file names its columns once, and is refused without those that a source names."""
    return isinstance(reader, TableReader) or reader in (CSV, TSV)


def _source(
    folder: Path, name: str, group: Sequence[_SeenFile], others: Sequence[FolderFile], *, by_name: bool
) -> DraftSource:
    """Return the source of files whose records are alike.

    Args:
        folder: that they are in.
        name: of the source, unless another has it.
        group: the files, some of which were looked at.
        others: the files of the folder that are not in it.
        by_name: whether files of the same format are in another source, so that each must be named.
    """
    files = [one.file for one in group]
    looked = [(one.file, one.looked, one.choice) for one in group if one.looked and one.choice]
    records = [record for _, seen, _ in looked for record in seen.records]
    choice = choose_fields(records) if any(records) else FieldChoice()
    size = sum(file.size for file in files)
    part = sum(file.size for file, _, _ in looked)
    times = size / part if part else 1.0
    plain = times * sum(seen.plain_bytes for _, seen, _ in looked)
    whole = _is_prose(files[0])
    documents = len(files) if whole else times * sum(seen.documents for _, seen, _ in looked)
    texts = texts_of_records(records, choice) or [seen.text for _, seen, _ in looked]
    lengths = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    patterns, exclude = patterns_of(files, others, by_name=by_name)
    language = files[0].language
    return DraftSource(
        name=name,
        format=files[0].reader.name,
        folder=folder,
        patterns=patterns,
        files=len(files),
        size=size,
        documents=documents,
        text_bytes=_text_bytes(records, lengths, plain=plain, documents=documents),
        lengths=tuple(lengths),
        characters=_usual_characters(texts),
        choice=choice,
        exclude=exclude,
        language=language or (None if choice.language else _language_of(files)),
        delimiter=next((seen.delimiter for _, seen, _ in looked), None),
        quoting=next((seen.quoting for _, seen, _ in looked), None),
        encoding=_encoding([seen.encoding for _, seen, _ in looked]),
        bad=_bad(records, choice, sum(seen.bad for _, seen, _ in looked)),
        foreign=sum(seen.is_foreign for _, seen, _ in looked) / max(len(looked), 1),
        languages=_named_languages(records, choice),
    )


def _usual_characters(texts: Iterable[str]) -> frozenset[str]:
    """Return the characters that most of some texts is made of, the most frequent first."""
    counts = Counter("".join(texts))
    left, usual = sum(counts.values()) * (1 - _COVERED), dict(counts)
    for character, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        left -= count
        if left < 0:
            break
        del usual[character]
    return frozenset(usual)


def _encoding(found: Sequence[str]) -> str | None:
    """Return the encoding that all files are in, if it is one, and not UTF-8."""
    kinds = set(found)
    if kinds - {ASCII} == {"cp1252"}:  # which reads ASCII too
        return "cp1252"
    return kinds.pop() if len(kinds) == 1 and not kinds & {ASCII, "utf-8"} else None


def _bad(records: Sequence[Mapping[str, object]], choice: FieldChoice, unreadable: int) -> float:
    """Return the share of records that are broken, or have nothing where the text should be."""
    without = sum(not gives_document(one, choice) for one in records)
    return (unreadable + without) / max(len(records) + unreadable, 1)


def _text_bytes(
    records: Sequence[object], lengths: Sequence[int], *, plain: float, documents: float
) -> float:
    if not records or not lengths:
        return plain
    return min(plain, documents * sum(lengths) / len(lengths) * 1.1)


def _named_languages(records: Sequence[Mapping[str, object]], choice: FieldChoice) -> tuple[str, ...]:
    if choice.language is None:
        return ()
    values = (find_column(record, choice.language)[1] for record in records)
    found = Counter(value for value in values if isinstance(value, str) and value)
    return tuple(name for name, _ in found.most_common())


def _name(folder: Path, files: Sequence[FolderFile]) -> str:
    """Return a name for a source: of the folder that all its files are in."""
    parents = {PurePosixPath(file.path).parent for file in files}
    shared = PurePosixPath(files[0].path).parent if len(parents) == 1 else None
    top = files[0].top if len({file.top for file in files}) == 1 else ""
    name = shared.name if shared is not None and shared.name else top or folder.resolve().name
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_") or "texts"


def _language_of(files: Sequence[FolderFile]) -> str | None:
    """Return the language that the folder of all files is named after: "de/a.txt" -> "de"."""
    names = {tuple(PurePosixPath(file.path).parts[:-1]) for file in files}
    parts = set.intersection(*map(set, names)) if names else set()
    return next((part for part in sorted(parts) if part in _KNOWN_LANGUAGES), None)


def _with_names(sources: Sequence[DraftSource]) -> tuple[DraftSource, ...]:
    """Return the sources, each with a name of its own: a second "web" is "web-parquet" or "web-3"."""
    taken: set[str] = set()
    named = []
    for source in sources:
        kind = re.sub(r"[^a-z0-9]+", "-", source.format.lower())
        names = [source.name, f"{source.name}-{kind}"]
        names += [f"{source.name}-{n}" for n in range(2, len(sources) + 2)]
        name = next(one for one in names if one not in taken)
        taken.add(name)
        named.append(replace(source, name=name))
    return tuple(named)
