"""Limited inputs: the first documents of each source, as JSON lines, for a trial of a run.

They are read as the run would read them, in the order of files and positions; records that give no
document are passed over. Fields that only go along with a document are left out.
"""

from glob import escape
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import orjson

from pipeline.inputs.files import FoundFile, find_inputs
from pipeline.inputs.own_files import TRIAL
from pipeline.inputs.place_files import open_place
from pipeline.inputs.spread_records import chance_records
from pipeline.run_file.config import RunFile
from pipeline.run_file.source import Source
from stages.columns import Drop
from stages.errors import ConfigError
from stages.reading.decompress import reading_stream
from stages.reading.records import LanguageColumn, RawDocument

_TEXT, _ID, _LANGUAGE, _SECTION = "_text", "_id", "_language", "_section_{}"
_DIALOGUE = "_messages"
"""Columns of a sample; what filters read beside them has the names that it had."""


def limited_folder(output: Path) -> Path:
    """Return the folder beside a run that holds the first documents of its sources."""
    return Path(f"{output.resolve()}{TRIAL}")


def limited_note(run: RunFile, output: Path) -> str | None:
    """Say that a run is a trial over the first documents of its sources, or return None."""
    folder = limited_folder(output)
    if not any(
        Path(path).parent == Path(escape(str(folder))) for source in run.sources for path in source.paths
    ):
        return None
    return (
        f"a trial: run with --limit, so it read no more than the first documents of each source, which"
        f" are copied to {folder}; for all of them, run without --limit into another folder"
    )


def limit_inputs(run: RunFile, base: Path, output: Path, *, limit: int) -> RunFile:
    """Write the first documents of each source, and return the run over these.

    Args:
        run: the whole run; earlier runs among its sources stay whole.
        base: folder that its paths are relative to.
        output: folder of the run; the documents go beside it, a file for each source.
        limit: documents of each source.

    Raises:
        ShardmillError: an input cannot be found or read, or a source has no document.
    """
    found = find_inputs(run, base, output=output).files
    folder = limited_folder(output)
    folder.mkdir(parents=True, exist_ok=True)
    limited = []
    for source in run.sources:
        files = [file for file in found if file.source == source.name]
        limited.append(_limited(source, files, run, folder, limit=limit) if files else source)
    return run.model_copy(update={"sources": tuple(limited)})


def _limited(
    source: Source, files: list[FoundFile], run: RunFile, folder: Path, *, limit: int
) -> Source:
    place, left = folder / f"{source.name}.jsonl", limit
    with place.open("wb") as target:
        for file in files:
            left -= _write(file, run, target, limit=left)
            if not left:
                break
    if left == limit:
        raise ConfigError(f"--limit {limit}: no record of source {source.name} gives a document")
    read = sample_source(source, place)
    kept = {"epochs", "share", "max_epochs"}
    return read.model_copy(update={key: getattr(source, key) for key in kept})


def _write(file: FoundFile, run: RunFile, target: BinaryIO, *, limit: int) -> int:
    """Write the first documents of a file; return how many there are."""
    most = int(run.ingest.max_document_bytes)
    with reading_stream(str(file.place)), open_place(file.place, key=f"sources.{file.source}") as opened:
        records = chance_records(file, opened, most, share=1.0)
        documents = (record for record in records if not isinstance(record, Drop))
        count = 0
        for record in islice(documents, limit):
            target.write(sample_line(record, file))
            count += 1
    return count


def sample_line(record: RawDocument, file: FoundFile) -> bytes:
    """Return a document as a line of JSON."""
    values = map(_plain, record.values)
    content: dict[str, object] = dict(zip(file.fields.beside, values, strict=False))
    content |= {_TEXT: record.text, _LANGUAGE: record.language}
    content |= {_SECTION.format(number): text for number, text in enumerate(record.sections)}
    if record.turns:
        del content[_TEXT]
        content[_DIALOGUE] = [turn.message() for turn in record.turns]
    if record.own_id is not None:
        content[_ID] = record.own_id
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)


def _plain(value: object) -> object:
    """Return a value as JSON can hold it: what it cannot is the text that a filter sees of it."""
    if value is None or isinstance(value, str | bool):
        return value
    try:
        same = orjson.loads(orjson.dumps(value)) == value
    except TypeError:
        same = False
    return value if same or value != value else str(value)  # noqa: PLR0124  # NaN is missing, as null is


def sample_source(source: Source, place: Path) -> Source:
    """Return a source of the run as one of its sample: all of it that decides what becomes of documents.

    Limits are not carried: they would be held against the sample.
    """
    sections = tuple(_SECTION.format(number) for number in range(len(source.section_columns)))
    own = {"column": _DIALOGUE, "completion_column": None}  # whose messages have their weights
    chat = None if source.chat is None else source.chat.model_copy(update=own)
    return Source(
        name=source.name,
        paths=(escape(str(place)),),
        license=source.license,
        text_column=_TEXT if chat is None else Source.model_fields["text_column"].default,
        section_columns=sections,
        chat=chat,
        id_column=_ID if source.id_column is not None else None,
        language=LanguageColumn(column=_LANGUAGE),
        dedup=source.dedup,
    )
