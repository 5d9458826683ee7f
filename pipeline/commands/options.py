"""Options that several commands have, and the examples under the help of each."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer


def local(parameter: typer.CallbackParam, value: Any) -> Any:
    """Return folders as they are given, if none of them is a URL."""
    from pipeline.planning.outputs import require_local

    name = _name_of(parameter)
    for path in value if isinstance(value, list) else [value]:
        if path is not None:
            require_local(path, name)
    return value


def no_url(parameter: typer.CallbackParam, value: Any) -> Any:
    """Return what is read as it is given, PATH or NAME=PATH, if none of it is a URL."""
    from pipeline.planning.outputs import require_no_url

    name = _name_of(parameter)
    for given in value if isinstance(value, list) else [value]:
        if given is not None:
            require_no_url(Path(given), name)
        if isinstance(given, str):
            require_no_url(Path(given.partition("=")[2]), name)
    return value


def placed(parameter: typer.CallbackParam, value: Any) -> Any:
    """Return a folder, or the URL of a store, as it is given."""
    from pipeline.planning.outputs import require_place

    return value if value is None else require_place(value, _name_of(parameter))


def opened(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Return the folder of a run; one in a store has a tree here until the command ends."""
    from pipeline.state.places import reading

    placed(parameter, value)
    return context.with_resource(reading(value, key=_name_of(parameter)))


def _name_of(parameter: typer.CallbackParam) -> str:
    """Return the name of an option, or what stands for an argument."""
    return parameter.opts[0] if parameter.opts[0].startswith("-") else f"{parameter.metavar}".rstrip(".")


def integer(given: Any) -> int:
    """Return a whole number; what it is for holds it to bounds."""
    try:
        return int(given)
    except ValueError:
        raise typer.BadParameter(f"{given} is not a whole number") from None


def whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    """Return what reads a whole number within bounds from a word of the command line."""
    bounds = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"

    def parse(given: Any) -> int:
        number = integer(given)
        if number < least or (most is not None and number > most):
            raise typer.BadParameter(f"{given}: must be {bounds}")
        return number

    return parse


def share(given: Any) -> float:
    """Return a share: 0.05 or 5% is 0.05."""
    text = str(given)
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise typer.BadParameter(f"{text} is not a share; write 0.05, or 5%") from None
    if not 0 <= number <= 1:
        raise typer.BadParameter(f"{text}: a share is from 0 to 1, or from 0% to 100%")
    return number


def some_share(given: Any) -> float:
    """Return a share that is more than 0."""
    number = share(given)
    if not number:
        raise typer.BadParameter(f"{given}: reads nothing; a share is above 0, such as 0.01, or 1%")
    return number


def rate(given: Any) -> float:
    """Return a number above 0."""
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise typer.BadParameter(f"{given}: must be a number above 0, such as 0.0003")
    return number


RunFileArgument = Annotated[
    Path, typer.Argument(metavar="RUN.toml", help="The run file.", callback=no_url)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the run file."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        parser=whole(0),
        metavar="N",
        help="Ray actors; 0 runs in this process. [default: cores]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show each unit of work when it is done.")
]


def progress(*, quiet: bool) -> TextIO | None:
    """Return where progress is shown."""
    return None if quiet else sys.stderr


EXAMPLES = {
    "init": (
        "shardmill init corpus",
        "shardmill init mails chats --task chat --output chat.toml",
        "shardmill init repository --task code --yes",
    ),
    "plan": (
        "shardmill plan run.toml --output out",
        "shardmill plan run.toml --output out --sample 1%",
    ),
    "run": (
        "shardmill run run.toml --output out",
        "shardmill run run.toml --output trial --limit 1000",
        "shardmill run run.toml --output out --workers 0 --until dedup",
        "shardmill run run.toml --output out --set packing.seq_len=1024 --replace",
    ),
    "status": ("shardmill status out", "shardmill status out --json"),
    "verify": ("shardmill verify out", "shardmill verify out --full --workers 0"),
    "inspect": (
        "shardmill inspect out --dataset clm --row 3",
        "shardmill inspect out --clusters",
        "shardmill inspect out --document a17",
    ),
    "export": (
        "shardmill export out --dataset clm --format megatron --to out-megatron",
        "shardmill export out --dataset clm --format hf --to out-hf --split train",
        "shardmill export out --dataset clm --format mds --columns tokens --to out-mds",
        "shardmill export out --format text-parquet --to out-texts",
    ),
    "quick": (
        "shardmill quick 'texts/*.jsonl' --tokenizer tokenizer.json --format megatron --to tokens",
    ),
    "compare": (
        "shardmill compare out --tokens 500000 --seeds 2",
        "shardmill compare out --dataset clm --from model --evaluate old=earlier/datasets/clm",
    ),
    "schema": ("shardmill schema > run-file.schema.json",),
    "tokenizer compare": ("shardmill tokenizer compare out other=other/tokenizer.json",),
    "tokenizer sweep": (
        "shardmill tokenizer sweep run.toml --sizes 16000,32000 --alphas 0.3,1.0 --save sweep",
    ),
    "tokenizer verify": ("shardmill tokenizer verify tokenizer.json --text texts.jsonl",),
    "tokenizer extend": (
        "shardmill tokenizer extend old.model --text new-texts --pieces 2000 --output new.model",
    ),
    "tokenizer resize": (
        "shardmill tokenizer resize checkpoint --old old.model --new new.model --output resized",
    ),
    "tokenizer export": ("shardmill tokenizer export out tokenizer-folder",),
    "launch slurm": (
        "shardmill launch slurm run.toml --output /shared/out --nodes 4 --time 12:00:00",
        "shardmill launch slurm run.toml --output /shared/out --nodes 2 --dry-run > job.sh",
    ),
}
"""By command, behind `shardmill`. Each is parsed in a test."""


def examples_of(command: str) -> str:
    """Return what stands under the help of a command: its examples, a line each."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
