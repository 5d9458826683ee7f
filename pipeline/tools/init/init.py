"""Init: looks at folders, and writes a run file that runs on what is there.

    shardmill init corpus      ->  run.toml, with every choice explained beside it

Nothing of it is remembered: the run file says all, and whoever reads it may change it.

What a terminal shows of a run file that was written for some folders.
"""

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TypedDict

from rich.table import Table

from pipeline.inputs.files import find_inputs
from pipeline.planning.existing import find_tokenizer
from pipeline.report.plain import PlainConsole, print_json
from pipeline.run_file.config import RunFile
from pipeline.run_file.load import load_run_file
from pipeline.tools.init.defaults import TASKS, Defaults, ModelTask, defaults_for, likely_task
from pipeline.tools.init.draft import Draft
from pipeline.tools.init.sources import draft_sources
from pipeline.tools.init.write import run_file_text, size_said
from stages.errors import ConfigError


class InitSource(TypedDict):
    """One source that was found."""

    name: str
    format: str
    files: int
    bytes: int
    documents: int
    text_bytes: int
    text: str
    bad: float
    """Share of the records looked at that give no document."""
    unread: list[str]
    """Fields of its records that hold text and are not read."""


class FilesLeftOut(TypedDict):
    """Files that are not read."""

    why: str
    files: int
    example: str


class InitContent(TypedDict):
    """What was found, and what was written."""

    run_file: str
    sources: list[InitSource]
    left_out: list[FilesLeftOut]
    task: str
    reason: str
    tokens: int
    output: str


def print_init(content: InitContent, *, as_json: bool) -> None:
    """Print what was found, what was chosen, and how to go on."""
    if as_json:
        print_json(content)
        return
    console = PlainConsole()
    table = Table(box=None, pad_edge=False)
    for column in ("source", "format", "files", "documents", "text", "from"):
        right = column in ("files", "documents", "text")
        table.add_column(column, justify="right" if right else "left")
    for source in content["sources"]:
        table.add_row(
            source["name"],
            source["format"],
            f"{source['files']:,}",
            f"{source['documents']:,}",
            size_said(source["text_bytes"]),
            source["text"],
        )
    console.show(table)
    console.line()
    for source in content["sources"]:
        if source["bad"]:
            console.line(
                f"{source['name']}: {source['bad']:.0%} of the records looked at give no document"
            )
        if source["unread"]:
            fields = ", ".join(source["unread"])
            console.line(f"{source['name']}: fields with text that are not read: {fields}")
    for left in content["left_out"]:
        files = f"{left['files']:,} file{'s' * (left['files'] != 1)}"
        console.line(f"not read: {files}, {left['why']}: {left['example']}")
    console.line(f"task {content['task']}: {content['reason']}")
    console.line(f"{content['run_file']}: written, for about {content['tokens']:,} tokens. Next:")
    console.line()
    place = f"{quote(content['run_file'])} --output {quote(content['output'])}"
    console.line(f"  shardmill plan {place} --sample 10%")
    console.line(f"  shardmill run {place}")


Ask = Callable[[str, str, tuple[str, ...]], str]
"""Asks a question: what is asked, what an empty answer means, and the answers there are (or any)."""


def init_run_file(
    folders: Sequence[Path],
    output: Path,
    *,
    task: str | None,
    tokenizer: Path | None,
    licence: str | None,
    replace: bool,
    ask: Ask | None = None,
) -> InitContent:
    """Do what `init` does, and ask people what is not given; without `ask`, take what is likely."""
    if not folders:
        raise ConfigError("no folder is named; name one or more that hold the texts")
    if output.is_dir():
        raise ConfigError(f"{output}: is a folder; name a file, such as {output / 'run.toml'}")
    if output.exists() and not replace:
        raise ConfigError(f"{output}: is there already; choose another --output, or give --replace")
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {output.parent}; make it, or choose another")
    draft = draft_sources(folders)
    chosen = _task(task, draft, ask)
    model = _tokenizer(tokenizer, chosen, ask)
    if licence is None and ask is not None:
        licence = ask("Licence of the texts, for the report", "", ())
    plan = TASKS[chosen]
    defaults = defaults_for(draft, shortest_row=plan.shortest_row, longest_row=plan.longest_row)
    text = run_file_text(
        draft,
        plan,
        defaults,
        name=_run_name(folders[0]),
        base=output.parent,
        tokenizer=None if model is None else os.path.relpath(model.resolve(), output.parent.resolve()),
        licence=licence or None,
    )
    _write(text, output)
    return _content(output, draft, chosen, defaults)


def _task(given: str | None, draft: Draft, ask: Ask | None) -> ModelTask:
    likely = likely_task(draft)
    names = tuple(task.value for task in ModelTask)
    if given is None and ask is not None:
        said = "\n".join(f"  {task.value:10} {TASKS[task].said}" for task in ModelTask)
        given = ask(f"What is the model to be?\n{said}\nTask", likely.value, names)
    if given is None:
        return likely
    if given not in names:
        raise ConfigError(f"--task {given}: must be one of {', '.join(names)}")
    task = ModelTask(given)
    if task is ModelTask.CHAT and not any(source.has_answers for source in draft.sources):
        raise ConfigError(
            "--task chat: no file has dialogues (a field of lists of messages with role and content, or"
            " from and value) or prompts with answers (such as prompt and completion); choose another"
            " task, such as pretrain"
        )
    return task


def _tokenizer(path: Path | None, task: ModelTask, ask: Ask | None) -> Path | None:
    """Return the path of the existing tokenizer; None trains one."""
    if path is None and TASKS[task].needs_tokenizer:
        if ask is not None:
            path = Path(ask("Path of the model's tokenizer (tokenizer.json, or a .model)", "", ()))
        if path is None or not str(path).strip("."):
            raise ConfigError(
                f"--task {task}: the model's own tokenizer is needed; give --tokenizer FILE, a"
                " tokenizer.json or a SentencePiece .model"
            )
    if path is not None and not path.exists():
        raise ConfigError(f"--tokenizer {path}: no such file")
    return path


def _run_name(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-") or "run"


def _write(text: str, output: Path) -> None:
    """Write a run file, once it is known that a run takes it.

    Raises:
        ConfigError: something of it cannot be used, which the message names.
    """
    with tempfile.NamedTemporaryFile(
        "w", dir=output.parent, prefix=f".{output.name}.", encoding="utf-8", delete=False
    ) as file:
        file.write(text)
    draft = Path(file.name)
    try:
        run = _load(draft, output)
        find_inputs(run, output.parent)
        find_tokenizer(run, output.parent)
        draft.chmod(0o666 & ~_umask())
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)


def _load(draft: Path, output: Path) -> RunFile:
    """Load a run file that lies under another name until it is known to be one."""
    try:
        return load_run_file(draft)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(draft), str(output))) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _content(output: Path, draft: Draft, task: ModelTask, defaults: Defaults) -> InitContent:
    sources: list[InitSource] = [
        {
            "name": source.name,
            "format": source.format,
            "files": source.files,
            "bytes": source.size,
            "documents": round(source.documents),
            "text_bytes": round(source.text_bytes),
            "bad": round(source.bad, 4),
            "text": ", ".join(source.choice.dialogue_columns)
            or ", ".join(source.choice.text_columns)
            or "the file",
            "unread": list(source.choice.unread),
        }
        for source in draft.sources
    ]
    return {
        "run_file": str(output),
        "sources": sources,
        "left_out": [
            {"why": why, "files": count, "example": example} for why, count, example in draft.left_out
        ],
        "task": task.value,
        "reason": TASKS[task].reason,
        "tokens": round(defaults.tokens),
        "output": f"{output.stem}-output",
    }


def init(
    folders: str | Path | Sequence[str | Path],
    output: str | Path = "run.toml",
    *,
    task: str | None = None,
    tokenizer: str | Path | None = None,
    licence: str | None = None,
    replace: bool = False,
) -> InitContent:
    """Write a commented run file for folders of texts, and return what was found and chosen.

    Args:
        folders: of texts: one, or several.
        output: the run file.
        task: pretrain, code, chat, embedding, seq2seq or continue; None takes what the texts suggest.
        tokenizer: an existing one, instead of training one.
        licence: of the texts.
        replace: whether to write over a run file.

    Raises:
        ShardmillError: nothing there can be read, the run file is there, or a tokenizer is needed.
    """
    places = [Path(one) for one in ([folders] if isinstance(folders, str | Path) else folders)]
    model = None if tokenizer is None else Path(tokenizer)
    return init_run_file(
        places, Path(output), task=task, tokenizer=model, licence=licence, replace=replace
    )
