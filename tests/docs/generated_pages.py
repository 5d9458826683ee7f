"""Pages that say what the code says of itself: docs/api.md, docs/cli.md and docs/config.md.

A section of docs/config.md is described by the docstrings of its fields.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ByteSize
from typer.testing import CliRunner

from pipeline import cli
from pipeline.run_file.config import (
    Cache,
    FairnessSection,
    Ingest,
    Resources,
    RunFile,
    TokenizerLimits,
    TokenizerSection,
)
from pipeline.run_file.dataset import Dataset
from pipeline.run_file.deduplication import Dedup
from pipeline.run_file.source import Source
from stages.chat.config import ChatConfig
from stages.config import meanings_of
from stages.decontamination.config import Decontamination, EvaluationSet
from stages.dedup.containment import ContainmentConfig
from stages.dedup.lsh import MinHashConfig
from stages.dedup.ranking import KeepColumn
from stages.dedup.semantic import SemanticConfig
from stages.dedup.spans import RepeatedLines, RepeatedSubstrings
from stages.filtering.table import FILTERS
from stages.mixing.config import DatasetMix, Mix, SourceMix
from stages.mixing.placement import ValidationConfig
from stages.objectives.fim.config import FIMRates
from stages.objectives.learning import LearningConfig
from stages.objectives.mixture.kind import Component
from stages.objectives.table import KINDS
from stages.packing.layout import PackingConfig
from stages.reading.records import LanguageColumn
from stages.tokenizer.framing import Framing
from stages.tokenizer.ranks.encodings import TiktokenConfig
from stages.tokenizer.roles import SpecialPieces
from stages.tokenizer.train import TrainConfig
from stages.tokenizer.train_config import ParityBalance
from tests.docs.api_page import render_api

COMMANDS = (
    "init",
    *("plan", "run", "status", "verify", "inspect", "export", "quick", "compare", "schema"),
    *("tokenizer", "tokenizer compare", "tokenizer sweep", "tokenizer verify", "tokenizer extend"),
    *("tokenizer resize", "tokenizer export", "launch", "launch slurm"),
)

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", RunFile),
    ("[[sources]]", Source),
    ("[sources.language]", LanguageColumn),
    ("[sources.chat]", ChatConfig),
    ("[resources]", Resources),
    ("[resources.cache]", Cache),
    ("[ingest]", Ingest),
    *((f'[[filters]] with kind = "{name}"', one.config) for name, one in FILTERS.items()),
    ("[dedup]", Dedup),
    ("[dedup.minhash]", MinHashConfig),
    ("[dedup.containment]", ContainmentConfig),
    ("[dedup.semantic]", SemanticConfig),
    ("[dedup] keep", KeepColumn),
    ("[dedup.lines] and [dedup.paragraphs]", RepeatedLines),
    ("[dedup.substrings]", RepeatedSubstrings),
    ("[decontamination]", Decontamination),
    ("[[decontamination.sets]]", EvaluationSet),
    ("[tokenizer]", TokenizerSection),
    ("[framing]", Framing),
    ("[tokenizer.train]", TrainConfig),
    ("[tokenizer.train.parity]", ParityBalance),
    ("[tokenizer.special]", SpecialPieces),
    ("[tokenizer.tiktoken]", TiktokenConfig),
    ("[tokenizer.limits]", TokenizerLimits),
    ("[tokenizer.fairness]", FairnessSection),
    ("[validation]", ValidationConfig),
    ("[packing]", PackingConfig),
    ("[mix]", Mix),
    ("[[datasets]]", Dataset),
    ("[datasets.mix]", DatasetMix),
    ("[datasets.mix.sources.NAME]", SourceMix),
    *((f'[datasets.objective] with kind = "{name}"', kind.config) for name, kind in KINDS.items()),
    ("[datasets.objective.sources.NAME]", FIMRates),
    ("[[datasets.objective.components]]", Component),
    ("[verify]", LearningConfig),
)
"""The tables of a run file in the order of a run."""

CONFIG_HEAD = """\
# The run file

Generated from the code by `python tests/docs/test_docs.py`.

A run file is TOML. Only `sources` and `datasets` are required. Unknown keys are refused. Paths are
relative to the run file. Sizes are numbers of bytes or strings such as `"64MiB"` and `"500MB"`. Names of
sources and datasets are letters, digits, `_` and `-`, and no two are the same. `shardmill schema` prints
the JSON schema. `--set KEY=VALUE` changes one key for a trial, such as `--set packing.seq_len=1024`;
a source or a dataset goes by its name: `--set sources.web.text_column=body`.

`language` of a source is a string, one language for all of it, or the table `[sources.language]`.
`near` of `[dedup]` needs `exact`. `[tokenizer]` has `path`, with `[tokenizer.special]` if need be, or
`[tokenizer.train]`: [tokenizers.md](tokenizers.md). A dataset's own `packing` sets `seq_len`,
`strategy` or both, and takes what it leaves out from the run's; `shards` and `shard_size` are always the
run's, since all datasets are made from one token store. A run file that names a model
(`objective.model`) or a filter's `function` runs code: it imports the module and calls its function.
So run no file that you would not run as a program. What the objectives are for, and how to
choose one: [objectives.md](objectives.md). Which files a source reads, and what of a record goes where:
[sources.md](sources.md).
`[[filters]]` are asked in the order of the run file: [filters.md](filters.md). How often
documents of each source and language are seen: [mixing.md](mixing.md).
"""


def clean(text: str) -> str:
    """Return a docstring as one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def size_of(value: int) -> str:
    """1048576 -> 1MiB."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return str(value)


def type_of(annotation: Any) -> str:  # noqa: PLR0911  # one for each type
    """Return the name of a field's type as a run file's author knows it."""
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(f'"{value}"' for value in annotation)
    if get_origin(annotation) is Annotated:
        return type_of(get_args(annotation)[0])
    if get_origin(annotation) is tuple:
        return f"array of {type_of(get_args(annotation)[0])}s"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    if get_origin(annotation) is dict:
        return "tables by name"
    if parts := get_args(annotation):
        names = [type_of(part) for part in parts if part is not type(None)]
        return " or ".join(dict.fromkeys(names))
    return {ByteSize: "size", str: "string", int: "integer", float: "number", bool: "boolean"}[
        annotation
    ]


def default_of(field: Any) -> str:
    """Return a field's default in TOML."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel | dict):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    if field.annotation is ByteSize:
        return f'"{size_of(value)}"'
    return (
        f'"{value}"'
        if isinstance(value, str)
        else f"{value:_}"
        if isinstance(value, int)
        else str(value)
    )


def bounds_of(field: Any) -> str:
    """Return a field's bounds."""
    shown = size_of if field.annotation is ByteSize else lambda value: f"{value}"
    texts = []
    for bound in field.metadata:
        if isinstance(bound, annotated_types.MinLen):
            texts.append("not empty")
        for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
            if hasattr(bound, name):
                texts.append(f"{sign} {shown(getattr(bound, name))}")
    return ", ".join(texts)


def meaning_of(field: Any, meaning: str | None) -> str:
    """Return what a field is for; a table without a word of its own has its class's."""
    models = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
    documents = [kind.__doc__ or "" for kind in models if issubclass(kind, BaseModel)]
    return clean(meaning or "".join(documents) or "Which one it is.")


def render_config() -> str:
    """Return docs/config.md."""
    parts = [CONFIG_HEAD]
    for name, model in SECTIONS:
        parts.append(f"## `{name}`\n\n{clean(model.__doc__ or '')}\n" if name else "## Top level\n")
        meanings = meanings_of(model)
        rows = [
            f"| `{key}` | {type_of(field.annotation)} | {default_of(field)} | {bounds_of(field)} |"
            f" {meaning_of(field, meanings.get(key))} |"
            for key, field in model.model_fields.items()
        ]
        head = "| key | type | default | bounds | meaning |\n|---|---|---|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    return "\n".join(parts)


def render_cli() -> str:
    """Return docs/cli.md: the help texts at a fixed width, without colours."""
    parts = ["# The command line\n\nGenerated from the code by `python tests/docs/test_docs.py`.\n"]
    for command in ("", *COMMANDS):
        environment = {"COLUMNS": "100", "NO_COLOR": "1"}
        arguments = [*command.split(), "--help"]
        result = CliRunner().invoke(cli.app, arguments, prog_name="shardmill", env=environment)
        assert result.exit_code == 0, result.output
        parts.append(f"## shardmill {command}".rstrip() + f"\n\n```text\n{result.output.strip()}\n```\n")
    codes = (cli.__doc__ or "").split("Exit codes: ")[1].strip().rstrip(".").split("; ")
    rows = [f"| {code.partition(' ')[0]} | {clean(code.partition(' ')[2])} |" for code in codes]
    parts.append("## Exit codes\n\n| code | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


RENDERED = {
    "docs/api.md": render_api,
    "docs/cli.md": render_cli,
    "docs/config.md": render_config,
}
