"""The run file as one frozen model: all settings of a run, with their defaults and bounds.

Paths are relative to the run file. Credentials never stand here. `pipeline.run_file.load` reads the
file, `pipeline.run_file.faults` says what is wrong with one.
"""

import re
from typing import Any

from pydantic import ByteSize, Field, field_validator, model_validator

from pipeline.run_file.deduplication import Dedup, SourceRule
from pipeline.run_file.fairness import FairnessSection
from pipeline.run_file.mixes import mix_of, require_possible_mixes, with_whole_mixes
from pipeline.run_file.own_packing import with_whole_packing
from pipeline.run_file.replays import require_files_or_a_run, require_possible_replays
from stages.cleaning.text import clean_text
from stages.config import Config
from stages.decontamination.config import Decontamination
from stages.dedup.lsh import KEYS_PER_PARTITION
from stages.errors import ConfigError
from stages.filtering.length import LengthFilter
from stages.filtering.table import AnyFilter, require_sources
from stages.mixing.config import DatasetMix, Mix, SourceMix
from stages.mixing.placement import ValidationConfig
from stages.objectives.clm import CausalLM
from stages.objectives.learning import LearningConfig
from stages.objectives.table import (
    AnyObjective,
    needs_sentences,
    refuse_begun_documents,
    refuse_framed_rows,
    refuse_impossible,
    traits_of,
)
from stages.packing.layout import PackingConfig
from stages.reading.encodings import UTF_8, known_encoding
from stages.reading.reader import TextSplit
from stages.reading.records import FieldMapping
from stages.tokenizer.framing import BEGIN, ROW_BEGIN, Framing, trained_ids
from stages.tokenizer.ranks.encodings import UNSAID, TiktokenConfig
from stages.tokenizer.roles import SpecialPieces
from stages.tokenizer.special import NUM_SENTINELS
from stages.tokenizer.train import TrainConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
MIN_MEMORY = 1 << 30


def _plain_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("must be letters, digits, '_' and '-', since it names files")
    return name


def _possible_path(path: str | None) -> str | None:
    if path is not None and "\0" in path:
        raise ValueError("no path can hold the character NUL; remove it")
    return path


class Source(FieldMapping, SourceMix):
    """A set of files with one name."""

    name: str
    """Part of every document's id, so it must stay the same over runs."""
    paths: tuple[str, ...] = ()
    """Globs of files, relative to the run file, or URLs such as s3://bucket/*.parquet. The ending of a
    file says how it is read. Text: .jsonl, .ndjson, .json (a list of objects, or objects one after the
    other), .csv, .tsv, .txt, .md, .rst, .tex, .html, .htm, .warc, .wet, and source code such as .py and
    .java. Each of these may have .gz or .zst after it. Tables: .parquet, .arrow and .feather. A folder
    that is named like a file, as Spark and Dask write them, is read without the files whose names begin
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

    _name = field_validator("name")(_plain_name)
    _possible_root = field_validator("root", "run")(_possible_path)

    _known_encoding = field_validator("encoding")(known_encoding)

    @model_validator(mode="after")
    def _files_or_a_run(self) -> "Source":
        require_files_or_a_run(self)
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
            _possible_path(path)
        return paths


class Resources(Config):
    """What a run may use; part of no fingerprint."""

    memory: ByteSize = Field(ByteSize(8 << 30), ge=MIN_MEMORY, validate_default=True)
    """What a node may hold: anonymous and shared memory of all processes of the run, Ray's included. A
    step that does not fit is refused, workers that do not fit are not started, and a task that takes
    more is stopped. The lowest value is enough for the default settings and one worker. Only the
    training of a tokenizer on the default sample needs more, 2.4 GiB."""
    keys_per_partition: int = Field(KEYS_PER_PARTITION, ge=16, le=1 << 26)
    """Keys in a partition of deduplication, on average. The keys of each band, and the digests of texts,
    are cut into ranges. Each range is one task, the owner of its keys, which takes about 100 bytes for
    each of them. Fewer keys need less memory, and make more tasks and files. No result depends on the
    number. A deduplication that was stopped continues with the number that it began with."""


class Ingest(LengthFilter):
    """Reading and cleaning."""

    unit_size: ByteSize = Field(ByteSize(64 << 20), ge=1 << 10, validate_default=True)
    """Bytes that are committed together. Of a text file, decompressed bytes are counted. Of a table, the
    bytes of the text column in whole row groups or record batches are counted, at least one of them.
    Files of at most a 64th of it share units. No result depends on it."""
    max_document_bytes: ByteSize = Field(ByteSize(32 << 20), ge=1 << 10, validate_default=True)
    """Longest document that is read: a line, a text or a cell. A longer one is dropped and counted. The
    same happens to a JSON line of which the parsing could take more than twice this and 1 MiB beside its
    text."""
    max_bad_fraction: float = Field(0.05, ge=0.0, le=1.0)
    """Largest share of records that may be unreadable (bad JSON or UTF-8, no text, too large); past it
    the run stops. A record of a CSV file counts as its lines. The share is checked over all records, and
    before that over the first ones, in the order of sources, paths and positions, from 1,000 on."""


class TokenizerLimits(Config):
    """What stops a run before texts are encoded: a tokenizer that costs a language too much."""

    max_byte_fallback: float | None = Field(None, ge=0.0, le=1.0)
    """Largest share of bytes among the tokens of a language of the corpus. It is measured on held-out
    text, or for an existing tokenizer on parallel text. Without it, a run warns of languages above
    0.1."""
    max_parity: float | None = Field(None, ge=1.0)
    """Largest parity of a language of the corpus: its tokens for the same text, divided by those of
    `tokenizer.fairness.reference`, whose own parity is 1. Without it, a run warns of languages above
    3."""


class TokenizerSection(Config):
    """The tokenizer: trained by the run, or an existing one."""

    train: TrainConfig = TrainConfig()
    path: str | None = None
    """An existing tokenizer instead, relative to the run file. It is a SentencePiece model, a
    tokenizer.json of Hugging Face, a tekken.json of Mistral or a file of tiktoken's ranks. It may also
    be a folder that holds one of them. The content says which it is, not the name."""
    special: SpecialPieces = SpecialPieces()
    tiktoken: TiktokenConfig = UNSAID
    limits: TokenizerLimits = TokenizerLimits()
    fairness: FairnessSection = FairnessSection()

    _possible = field_validator("path")(_possible_path)

    @model_validator(mode="after")
    def _one_tokenizer(self) -> "TokenizerSection":
        if self.path is not None and self.train != TrainConfig():
            raise ValueError("path and train are both given: a run trains a tokenizer or takes one")
        for symbol in (*self.train.user_symbols, *self.train.control_symbols):
            clean = clean_text(symbol)
            if clean != symbol:
                raise ValueError(f"train: {symbol!r} is {clean!r} in cleaned texts; write that")
        if self.path is None and self.special != SpecialPieces():
            raise ValueError("special names ids of an existing tokenizer; set path, or leave it out")
        if self.path is None and self.tiktoken != UNSAID:
            raise ValueError("tiktoken is for an existing tokenizer; set path, or leave it out")
        return self


class Dataset(Config):
    """One dataset to make."""

    name: str
    """Name of the dataset and of its folder."""
    objective: AnyObjective = CausalLM()
    """What is learned from the rows; `kind` says which, "clm" unless given."""
    packing: PackingConfig | None = None
    """`seq_len` and `strategy` of this dataset. Without them, those of the run apply. `shards` and
    `shard_size` are always the run's: all datasets share the shards of one token store."""
    mix: DatasetMix | None = None
    """Settings of the mix of this dataset. Those that are left out are the run's."""
    materialized_epochs: int = Field(0, ge=0, le=1000)
    """Number of epochs that are also written to disk, for programs that only read files. The loader
    gives the same bits. Objectives that cannot be drawn from rows have only the epochs on disk, at least
    one."""

    _name = field_validator("name")(_plain_name)

    @property
    def epochs_on_disk(self) -> int:
        """Epochs that are written out."""
        return max(self.materialized_epochs, int(bool(traits_of(self.objective).written_for)))

    @field_validator("objective", mode="before")
    @classmethod
    def _causal_by_default(cls, value: object) -> object:
        return {"kind": CausalLM().kind, **value} if isinstance(value, dict) else value


class RunFile(Config):
    """A run: only `sources` and `datasets` are required."""

    name: str = "run"
    """For people."""
    seed: int = Field(0, ge=0, lt=1 << 63)
    """Seed of every random choice."""
    sources: tuple[Source, ...] = Field(min_length=1)
    resources: Resources = Resources()
    ingest: Ingest = Ingest()
    filters: tuple[AnyFilter, ...] = ()
    """Filters in the order in which they look at a document; `kind` says which. See docs/filters.md."""
    dedup: Dedup = Dedup()
    decontamination: Decontamination | None = None
    """Remove or report documents that hold items of evaluation sets. Off unless given."""
    tokenizer: TokenizerSection = TokenizerSection()
    framing: Framing = Framing()
    validation: ValidationConfig = ValidationConfig()
    packing: PackingConfig = PackingConfig()
    mix: Mix = Mix()
    datasets: tuple[Dataset, ...] = Field(min_length=1)
    verify: LearningConfig = LearningConfig()

    @model_validator(mode="before")
    @classmethod
    def _datasets_continue_the_run(cls, content: Any) -> Any:
        return with_whole_mixes(with_whole_packing(content))

    @model_validator(mode="after")
    def _replays_are_possible(self) -> "RunFile":
        require_possible_replays(self)
        return self

    @model_validator(mode="after")
    def _mixes_are_possible(self) -> "RunFile":
        require_possible_mixes(self)
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> "RunFile":
        for kind, items in (("sources", self.sources), ("datasets", self.datasets)):
            names = [item.name for item in items]
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{kind}: the name {min(twice)!r} stands twice")
        strangers = set(self.dedup.source_order) - {source.name for source in self.file_sources}
        if strangers:
            there = ", ".join(source.name for source in self.file_sources)
            raise ValueError(f"dedup.source_order: no source {min(strangers)!r}; the run has {there}")
        require_sources(
            self.filters,
            {one.name: 0 if one.chat else len(one.text_columns) for one in self.file_sources},
        )
        return self

    @model_validator(mode="after")
    def _objectives_fit_their_rows(self) -> "RunFile":
        for dataset in self.datasets:
            seq_len = self.packing_of(dataset).seq_len
            # how many an existing tokenizer has is known once it is read: pipeline.planning.existing
            sentinels = NUM_SENTINELS if self.tokenizer.path is None else seq_len
            try:
                refuse_impossible(dataset.objective, seq_len=seq_len, num_sentinels=sentinels)
            except ConfigError as error:
                raise ValueError(f"dataset {dataset.name!r}: {error}") from error
        return self

    @model_validator(mode="after")
    def _sections_are_there(self) -> "RunFile":
        held = [len(source.text_columns) + bool(source.chat) for source in self.file_sources]
        chats = [source.name for source in self.sources if source.chat]
        for dataset in self.datasets:
            wanted = traits_of(dataset.objective).sections
            if chats and not traits_of(dataset.objective).takes_dialogues:
                raise ValueError(
                    f"dataset {dataset.name!r}: kind = {dataset.objective.kind!r} takes documents apart,"
                    f" and source {chats[0]!r} has dialogues, whose turns belong together; make it in a"
                    " run without this source"
                )
            fits = any(count > 1 if wanted < 0 else count == wanted for count in held)
            if wanted and not fits and traits_of(dataset.objective).loss_mask:
                raise ValueError(
                    f'dataset {dataset.name!r}: loss = "targets" has a loss on targets alone, and no'
                    ' source says what they are: write chat = { template = "chatml" } for a source'
                    ' of lists of messages, or text_column = "prompt" and section_columns = ["target"]'
                    " for a source of prompts and targets"
                )
            if wanted and not fits:
                columns = "section_columns" if wanted < 0 else f"{wanted - 1} section_columns"
                raise ValueError(
                    f"dataset {dataset.name!r}: its rows are laid out by a source's sections, and no"
                    f" source has {columns}; name the fields that continue text_column"
                )
        return self

    @model_validator(mode="after")
    def _framing_fits(self) -> "RunFile":
        if self.tokenizer.path is None:
            try:
                begun = BEGIN in trained_ids(self.framing)
            except ConfigError as error:
                raise ValueError(str(error)) from error
            for dataset in self.datasets if begun else ():
                try:
                    refuse_begun_documents(dataset.objective)
                except ConfigError as error:
                    raise ValueError(f"dataset {dataset.name!r}: {error}") from error
        return self

    @model_validator(mode="after")
    def _rows_can_be_framed(self) -> "RunFile":
        for dataset in self.datasets if self.framing.per == "row" else ():
            # what a file's own framing puts before rows is known later: pipeline.planning.existing
            begun = self.framing.row_begin not in (None, ROW_BEGIN)
            try:
                seq_len = self.packing_of(dataset).seq_len
                refuse_framed_rows(dataset.objective, seq_len=seq_len, begun=begun)
            except ConfigError as error:
                raise ValueError(f"dataset {dataset.name!r}: {error}") from error
        return self

    @property
    def file_sources(self) -> tuple[Source, ...]:
        """The sources that are files."""
        return tuple(source for source in self.sources if source.run is None)

    @property
    def replays(self) -> dict[str, str]:
        """The folders of the runs that are replayed, as the run file names them, by source."""
        return {source.name: source.run for source in self.sources if source.run is not None}

    @property
    def needs_sentences(self) -> bool:
        """Whether a dataset asks where sentences end."""
        return any(needs_sentences(one.objective, self.packing_of(one)) for one in self.datasets)

    @model_validator(mode="after")
    def _rates_are_of_sources(self) -> "RunFile":
        names = [source.name for source in self.sources]
        for dataset in self.datasets:
            objective = dataset.objective
            strangers = sorted(set(traits_of(objective).sources) - set(names))
            if strangers:
                raise ValueError(
                    f"dataset {dataset.name!r}: objective.sources.{strangers[0]}: no such source;"
                    f" the run has {', '.join(names)}"
                )
        return self

    def mix_of(self, dataset: Dataset) -> DatasetMix | None:
        """Return a dataset's mix, in which every source is named; None if it is every document once."""
        return mix_of(self, dataset)

    def packing_of(self, dataset: Dataset) -> PackingConfig:
        """Return a dataset's packing: its own, or the run's."""
        return dataset.packing or self.packing
