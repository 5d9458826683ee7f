"""The run file as one frozen model: all settings of a run, with their defaults and bounds.

Paths are relative to the run file. Credentials never stand here. `pipeline.run_file.load` reads the
file, `pipeline.run_file.faults` says what is wrong with one.

The section `[tokenizer.fairness]` of the run file: what a run's tokenizer is measured on.
"""

import re
from typing import Any

from pydantic import ByteSize, Field, field_validator, model_validator

from pipeline.run_file.dataset import Dataset, with_whole_packing
from pipeline.run_file.deduplication import Dedup
from pipeline.run_file.mixes import mix_of, require_possible_mixes, with_whole_mixes
from pipeline.run_file.source import Source, possible_path
from stages.cleaning.text import clean_text
from stages.config import Config
from stages.decontamination.config import Decontamination
from stages.dedup.lsh import KEYS_PER_PARTITION
from stages.errors import ConfigError
from stages.filtering.length import LengthFilter
from stages.filtering.table import AnyFilter, require_sources
from stages.mixing.config import DatasetMix, Mix
from stages.mixing.placement import ValidationConfig
from stages.objectives.learning import LearningConfig
from stages.objectives.table import (
    needs_sentences,
    refuse_begun_documents,
    refuse_framed_rows,
    refuse_impossible,
)
from stages.packing.layout import PackingConfig
from stages.tokenizer.framing import BEGIN, ROW_BEGIN, Framing, trained_ids
from stages.tokenizer.ranks.encodings import UNSAID, TiktokenConfig
from stages.tokenizer.roles import SpecialPieces
from stages.tokenizer.special import NUM_SENTINELS
from stages.tokenizer.train import TrainConfig

_NAMED = re.compile(r"([^=/\0]+)=([^\0]+)")
OWN = "run"
"""The name of the run's own tokenizer beside others."""


class FairnessSection(Config):
    """The same text in many languages, to measure the tokenizer on. No token depends on it."""

    parallel: str | None = None
    """Folder of LANG.txt, relative to the run file; line N of each file is the same sentence. Without
    it, the text is the Universal Declaration of Human Rights, in 62 languages."""
    reference: str = Field("en", min_length=1)
    """Language that the others are compared with."""
    compare: tuple[str, ...] = Field((), max_length=16)
    """Other tokenizers to measure on the same text, each as NAME=PATH, such as
    "gemma=gemma/tokenizer.json". The paths are relative to the run file. The kinds of files are those of
    `path`."""
    digests: dict[str, str] | None = None
    """XXH3-128 of each file of `parallel`, by language, and of each of `compare`, by name. The run fills
    it in. If you set it, files with other digests are refused."""

    @field_validator("compare")
    @classmethod
    def _named(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        names = []
        for model in models:
            found = _NAMED.fullmatch(model)
            if found is None:
                raise ValueError(f"{model!r} is not NAME=PATH; write gemma=gemma/tokenizer.json")
            names.append(found[1])
        for name in names:
            if name == OWN or names.count(name) > 1:
                who = "the run's own tokenizer" if name == OWN else "two tokenizers"
                raise ValueError(f"{name!r} is the name of {who}; choose another")
        return models

    @property
    def others(self) -> dict[str, str]:
        """The paths of the other tokenizers by name."""
        return dict(model.split("=", 1) for model in self.compare)


MIN_MEMORY = 1 << 30


class Cache(Config):
    """Where the files of stores lie on a node; part of no fingerprint."""

    folder: str = ""
    """On a local disk, the same path on each node. Without it, `SHARDMILL_CACHE` of the environment, or
    else `~/.cache/shardmill`."""
    size: ByteSize | None = Field(None, ge=1 << 20)
    """Bytes that it may hold. Without it, `SHARDMILL_CACHE_BYTES` of the environment, or else 100 GiB.
    What was used longest ago goes first; what is in use stays."""


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
    cache: Cache = Cache()


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

    _possible = field_validator("path")(possible_path)

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
        _require_possible_replays(self)
        return self

    @model_validator(mode="after")
    def _mixes_are_possible(self) -> "RunFile":
        require_possible_mixes(self.datasets, self.sources, self.mix)
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
        sections = [len(source.text_columns) + bool(source.chat) for source in self.file_sources]
        chats = [source.name for source in self.sources if source.chat]
        for dataset in self.datasets:
            wanted = dataset.traits.sections
            if chats and not dataset.traits.takes_dialogues:
                raise ValueError(
                    f"dataset {dataset.name!r}: kind = {dataset.objective.kind!r} takes documents apart,"
                    f" and source {chats[0]!r} has dialogues, whose turns belong together; make it in a"
                    " run without this source"
                )
            fits = any(count > 1 if wanted < 0 else count == wanted for count in sections)
            if wanted and not fits and dataset.traits.loss_mask:
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
        return any(needs_sentences(one.traits, self.packing_of(one)) for one in self.datasets)

    @model_validator(mode="after")
    def _rates_are_of_sources(self) -> "RunFile":
        names = [source.name for source in self.sources]
        for dataset in self.datasets:
            strangers = sorted(set(dataset.traits.sources) - set(names))
            if strangers:
                raise ValueError(
                    f"dataset {dataset.name!r}: objective.sources.{strangers[0]}: no such source;"
                    f" the run has {', '.join(names)}"
                )
        return self

    def mix_of(self, dataset: Dataset) -> DatasetMix | None:
        """Return a dataset's mix, in which every source is named; None if it is every document once."""
        return mix_of(dataset, self.sources, self.mix)

    def packing_of(self, dataset: Dataset) -> PackingConfig:
        """Return a dataset's packing: its own, or the run's."""
        return dataset.packing or self.packing


def _require_possible_replays(file: RunFile) -> None:
    """Refuse a run that could not take documents of another as they are.

    Raises:
        ValueError: says why, and the way out.
    """
    replays = file.replays
    if not replays:
        return
    name, folder = next(iter(replays.items()))
    begin = f"source {name!r}: run = {folder!r}"
    if not file.file_sources:
        raise ValueError(
            f"{begin}: no source has files; add one with paths, or train on that run's own datasets"
        )
    if file.tokenizer.path is None:
        raise ValueError(
            f"{begin}: its ids are of that run's tokenizer, and this run trains one; write [tokenizer]"
            f" path = {folder!r}"
        )
    for dataset in file.datasets:
        if needs_sentences(dataset.traits, file.packing_of(dataset)):
            raise ValueError(
                f"{begin}: dataset {dataset.name!r} (kind = {dataset.objective.kind!r}) needs the ends"
                " of sentences, and of replayed documents no text is read; make this dataset in a run"
                " without the source"
            )
