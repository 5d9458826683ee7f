"""Versions: what reads and writes documents, and so decides them beside the settings.

Most files and sources need none of these: then nothing of them is in a fingerprint.
"""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from pipeline.inputs.files import InputFile
from pipeline.run_file.config import RunFile
from stages.chat.rendering import template_version
from stages.reading.delimiters import Quoting
from stages.reading.reader import StreamReader, TextSplit
from stages.reading.table import reader_of


def libraries_of(files: Iterable[InputFile]) -> dict[str, str]:
    """Return the versions of what else reads some files, by name; most files need none."""
    readers = {reader_of(file.path, TextSplit.FILE) for file in files}
    names = {library.name for reader in readers if reader for library in reader.libraries}
    return {name: _version(name) for name in sorted(names)}


def readers_of(files: Iterable[InputFile]) -> dict[str, int]:
    """Return the versions of the readers of some files, by name; the first version adds nothing."""
    readers = {reader_of(file.path, TextSplit.FILE) for file in files}
    return {one.name: one.version for one in readers if one and one.version > 1}


def templates_of(file: RunFile) -> dict[str, int]:
    """Return the versions of what writes dialogues, by source; the first version adds nothing."""
    found = {source.name: template_version(source.chat) for source in file.sources if source.chat}
    return {name: number for name, number in found.items() if number > 1}


def unquoted_of(file: RunFile, files: Iterable[InputFile]) -> dict[str, list[str]]:
    """Return by source the formats of delimited text in which a quote means nothing; most have none."""
    declared = {source.name: source.quoting for source in file.sources}
    found: dict[str, set[str]] = {}
    for one in files:
        reader = reader_of(one.path, TextSplit.FILE)
        usual = reader.quoting if isinstance(reader, StreamReader) else None
        if reader is not None and usual and (declared.get(one.source) or usual) is Quoting.NONE:
            found.setdefault(one.source, set()).add(reader.name)
    return {source: sorted(names) for source, names in sorted(found.items())}


def _version(package: str) -> str:
    """Return the version of a package; a run may be verified where one of its libraries is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
