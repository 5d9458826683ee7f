"""A source of a run: files with one name, or a finished run whose documents are taken as they are."""

import re

from pydantic import Field, field_validator, model_validator

from pipeline.run_file.deduplication import SourceRule
from stages.mixing.config import SourceMix
from stages.reading.encodings import UTF_8, known_encoding
from stages.reading.reader import TextSplit
from stages.reading.records import FieldMapping

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def plain_name(name: str) -> str:
    """Return a name that may name files, or refuse it."""
    if not _NAME.fullmatch(name):
        raise ValueError("must be letters, digits, '_' and '-', since it names files")
    return name


def possible_path(path: str | None) -> str | None:
    """Return a path that can be one, or refuse it."""
    if path is not None and "\0" in path:
        raise ValueError("no path can hold the character NUL; remove it")
    return path


_OF_RUNS = frozenset({"name", "run", "epochs", "share", "max_epochs", "weight_column", "license"})
"""What a source that is a run may say; all else is how files are read."""


class Source(FieldMapping, SourceMix):
    """A set of files with one name."""

    name: str
    """Part of every document's id, so it must stay the same over runs."""
    paths: tuple[str, ...] = ()
    """Globs of files, relative to the run file, or URLs such as s3://bucket/*.parquet. The ending of a
    file says how it is read; docs/limits.md lists the endings. A folder that is named like a
    file, as Spark and Dask write them, is read without the files whose names begin
    with "_" or ".". Of a dataset folder of Hugging Face (`save_to_disk`), the data of one split is read.
    A file that two paths reach through a link is refused, because it would be read twice."""
    run: str | None = None
    """Folder of a finished run, relative to the run file, in place of `paths`. Its training documents
    are replayed, with the ids that it gave them. It must have the tokenizer and the framing of this run.
    All generations of the folder are replayed. See docs/sources.md."""
    exclude: tuple[str, ...] = ()
    """Globs of files that are not read. One without "/", such as *.log, is compared with the names of a
    file and of each folder that it is in. A glob with "/" is compared with the path below `root`, where
    ** is any number of folders. Files that no source reads are counted and named by `plan`, the run and
    the report."""
    skip_unknown: bool = False
    """Whether files with an ending that no reader knows are skipped, counted and named. If not, the run
    is refused. Such a file that `paths` names without a wildcard is always refused."""
    root: str | None = None
    """Folder that the documents' paths are relative to; by default the part of the glob before any
    wildcard."""
    text_split: TextSplit = TextSplit.FILE
    """What a document of a .txt file is: all of it (`file`), or each text between blank lines
    (`blank_line`)."""
    encoding: str = UTF_8
    """What text, CSV and JSON are written in: utf-8, cp1252 or another of Python's codecs, or else a
    label of the web, such as iso-2022-jp. A byte order mark at the beginning of a file is no part of its
    text. Files in another encoding are read from front to back; positions are those in UTF-8."""
    license: str | None = None
    """Licence of the texts, carried into the report."""
    dedup: SourceRule = True
    """`true`: its documents are compared with those of all sources. "within": only with each other.
    `false`: none of them is removed, and no other document is removed because of them."""
    max_removed_fraction: float | None = Field(None, ge=0.0, le=1.0)
    """Limit on the share of its documents that deduplication removes; a run that would pass it stops, as
    with `dedup.max_removed_fraction`. By default there is no limit, and the run warns if a source loses
    more than 90%."""
    weight_column: str | None = None
    """A field of the records, one of `keep_columns`, that holds a number. Within the source, documents
    are seen in proportion to it. It is rounded to one of 8 levels for each factor of two. 0 or less
    leaves a document out of every mix. A document without a number there has weight 1, and is
    counted."""

    _name = field_validator("name")(plain_name)
    _possible_root = field_validator("root", "run")(possible_path)

    _known_encoding = field_validator("encoding")(known_encoding)

    @model_validator(mode="after")
    def _files_or_a_run(self) -> "Source":
        _require_files_or_a_run(self)
        return self

    @field_validator("exclude")
    @classmethod
    def _name_something(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            if not glob.strip("/."):
                raise ValueError(f"{glob!r} names no file; write a glob such as *.log")
        return globs

    @field_validator("paths")
    @classmethod
    def _name_files(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        if "" in paths:
            raise ValueError("'' names no file; write a file, a glob such as data/*.jsonl, or a URL")
        for path in paths:
            possible_path(path)
        return paths


def _require_files_or_a_run(source: Source) -> None:
    """Refuse a source that is neither files nor a run, or that is a run and says how files are read.

    Raises:
        ValueError: says which setting, and the way out.
    """
    if source.run is None:
        if not source.paths:
            raise ValueError("paths is missing: name the files of the source, or run, a finished run")
        return
    if not source.run.strip():
        raise ValueError("run = '' names no folder; name the folder of a finished run")
    if source.paths:
        raise ValueError(
            "paths and run are both given: a source is files or a run; make them two sources"
        )
    for name, field in type(source).model_fields.items():
        given, default = getattr(source, name), field.get_default(call_default_factory=True)
        if name not in _OF_RUNS and given != default:
            raise ValueError(
                f"{name} is about files, and run = {source.run!r} is a run, whose documents are taken as"
                " they are; leave it out"
            )
