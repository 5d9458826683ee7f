"""Write: a run file as text, with the reason beside each choice."""

import os
import textwrap
from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path

from pipeline.tools.init.defaults import Defaults, TaskPlan
from pipeline.tools.init.draft import Draft, DraftSource
from pipeline.tools.init.fields import FieldChoice

_UPWARD = 2
"""Folders above the run file that a relative path may go up; a farther one is written whole."""
_WIDTH = 98
_USUAL_BAD = 0.03
"""Share of records without a document, of those looked at, up to which the default bound is left."""
_ESCAPED = '"\\'
_AMONG = 6
"""Languages that are named in a comment."""


def run_file_text(  # what a run file is made of
    draft: Draft,
    plan: TaskPlan,
    defaults: Defaults,
    *,
    name: str,
    base: Path,
    tokenizer: str | None,
    licence: str | None,
) -> str:
    """Return a run file.

    Args:
        draft: the sources.
        plan: of the task.
        defaults: sizes that suit the corpus.
        name: of the run.
        base: the folder of the run file.
        tokenizer: path of an existing tokenizer, relative to `base`; None trains one.
        licence: of all texts.
    """
    parts = [
        ["# Written by `shardmill init`. Every key is explained in docs/config.md of Shardmill."],
        [f"name = {_text(name)}", "seed = 1    # of every random choice"],
        *(list(_source(source, base, licence)) for source in draft.sources),
        *_settings(draft, defaults, tokenizer),
        *_datasets(plan, defaults),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _source(source: DraftSource, base: Path, licence: str | None) -> Iterator[str]:
    folder, choice = _relative(source.folder, base), source.choice
    files = f"{source.files:,} file{'s' * (source.files != 1)}"
    yield from _comment(
        f"{files} of {source.format}: about {source.documents:,.0f} documents and"
        f" {size_said(source.text_bytes)} of text."
    )
    if source.bad:
        yield from _comment(f"{source.bad:.0%} of the records that were looked at give no document.")
    yield "[[sources]]"
    yield f"name = {_text(source.name)}"
    yield f"paths = {_list(_joined(folder, pattern) for pattern in source.patterns)}"
    yield f"root = {_text(folder)}"
    yield from _files(source)
    if choice.chat is not None:
        yield from _comment(
            f"Roles: {', '.join(choice.roles)}. The turns of {choice.learned} are learned."
        )
        behind = "" if choice.completion is None else f", completion_column = {_text(choice.completion)}"
        template = f'template = "chatml"{_learn(choice.learned)}'
        yield f"chat = {{ column = {_text(choice.chat)}{behind}, {template} }}"
    elif choice.text not in (None, "text"):
        yield f"text_column = {_text(choice.text or '')}"
    if choice.section is not None:
        behind = "its prompt" if choice.context is None else "the instruction and what it is about"
        yield f"section_columns = {_list(choice.text_columns[1:])}    # what is learned, behind {behind}"
    yield from _unread(choice)
    if choice.own_id is not None:
        yield f"id_column = {_text(choice.own_id)}"
    elif choice.is_usable:
        yield '# id_column = "id"    # a field that names each document; no such field was found'
    yield from _language(source)
    if choice.kept:
        yield f"# keep_columns = {_list(choice.kept)}    # fields that go along with each document"
    if licence:
        yield f"license = {_text(licence)}"
    else:
        named = f" (records name one each, in {choice.licence!r})" if choice.licence else ""
        yield f'# license = "CC-BY-4.0"    # of these texts, for the report{named}'


def _files(source: DraftSource) -> Iterator[str]:
    """Yield what is said of the files of a source: those left out, and their encoding."""
    if source.exclude:
        yield f"exclude = {_list(source.exclude)}"
    if source.delimiter is not None:
        yield f"delimiter = {_text(source.delimiter)}    # between two fields of the first row"
    if source.quoting is not None:
        yield f"quoting = {_text(source.quoting[0])}    # {source.quoting[1]}"
    if source.encoding is not None:
        why = f"    # a guess: {source.foreign:.0%} of the files are not UTF-8"
        yield f"encoding = {_text(source.encoding)}{why}"
    elif source.foreign:
        yield from _comment(
            f"{source.foreign:.0%} of the files are not UTF-8. They are dropped and counted; more than"
            " 5% of all (ingest.max_bad_fraction) stop the run. Convert them, or move them to a"
            " source of their own with its encoding."
        )


def _unread(choice: FieldChoice) -> list[str]:
    """Return what is said of fields that hold text and are not read."""
    if not choice.unread:
        return []
    more = len(choice.unread) - _AMONG
    named = ", ".join(choice.unread[:_AMONG]) + (f" and {more} more" if more > 0 else "")
    way = (
        "To read a field, write it into the messages before the run."
        if choice.chat is not None
        else "section_columns reads a field too, but drops each record in which it is empty; where that"
        " happens, join the fields into one before the run."
    )
    return _comment(f"Not read, though text is there: {named}. {way}")


def _learn(role: str | None) -> str:
    return "" if role is None or role == "assistant" else f", learn = {_list([role])}"


def _language(source: DraftSource) -> Iterator[str]:
    if source.choice.language is not None:
        named = source.languages
        more = f" and {len(named) - _AMONG} more" if len(named) > _AMONG else ""
        listed = f"    # {', '.join(named[:_AMONG])}{more}"
        yield f"language = {{ column = {_text(source.choice.language)} }}{_printable(listed)}"
    elif source.language is not None:
        why = "" if source.is_code else "    # after the name of the folder"
        yield f"language = {_text(source.language)}{why}"
    else:
        yield '# language = "en"    # if all of it is in one'


def _settings(draft: Draft, defaults: Defaults, tokenizer: str | None) -> list[list[str]]:
    held_out = draft.documents * defaults.validation
    return [
        [
            "# What the run may hold: three quarters of the memory of the machine this was written on.",
            "[resources]",
            f'memory = "{defaults.memory >> 30}GiB"',
        ],
        [
            "# Shorter documents are dropped and counted; unit_size is the text that is done at a time.",
            "[ingest]",
            "min_chars = 1",
            *_bad_bound(draft),
            f'unit_size = "{defaults.unit_size >> 20}MiB"',
        ],
        [
            "# Copies of a document are removed, and documents that are nearly the same (MinHash-LSH).",
            "[dedup]",
            "exact = true",
            "near = true",
        ],
        list(_tokenizer(draft, defaults, tokenizer)),
        [
            f"# Documents held out of training, to measure on: about {held_out:,.0f}.",
            "[validation]",
            f"fraction = {defaults.validation}",
        ],
    ]


def _bad_bound(draft: Draft) -> list[str]:
    """Return the bound on records that give no document, where the usual one would stop the run."""
    worst = max(source.bad for source in draft.sources)
    if worst <= _USUAL_BAD:
        return []
    bound = min(1.0, round(worst * 1.2 + 0.05, 2))
    return [
        f"max_bad_fraction = {bound}    # see the records that give no document, above; usual is 0.05"
    ]


def _tokenizer(draft: Draft, defaults: Defaults, tokenizer: str | None) -> Iterator[str]:
    if tokenizer is not None:
        yield "[tokenizer]"
        yield f"path = {_text(tokenizer)}"
        return
    each = size_said(draft.text_bytes / defaults.vocab_size)
    yield from _comment(
        f"With so many pieces, there are {each} of text for each. More pieces make fewer tokens, but"
        " some of them are hardly ever seen."
    )
    yield "[tokenizer.train]"
    yield f"vocab_size = {defaults.vocab_size:_}"
    yield f'sample_size = "{defaults.sample_size >> 20}MiB"'
    if any(source.choice.chat for source in draft.sources):
        yield "template_symbols = true    # the markup of dialogues gets tokens of its own"
    if any(source.is_code for source in draft.sources):
        yield "indentation = true    # runs of spaces are single tokens"


def _datasets(plan: TaskPlan, defaults: Defaults) -> list[list[str]]:
    fits = "; nine of ten documents fit in one" if defaults.seq_len < plan.longest_row else ""
    parts = [
        [
            f"# Tokens in a row{fits}. With best_fit, only documents longer than a row are cut.",
            "[packing]",
            f"seq_len = {defaults.seq_len}",
            'strategy = "best_fit"',
            f'shard_size = "{defaults.shard_size >> 20}MiB"',
        ]
    ]
    if not defaults.learning:
        parts.append(
            [
                "# So few tokens teach a model nothing that could be measured: the exact checks decide.",
                "[verify]",
                "learning = false",
            ]
        )
    for number, (name, objective) in enumerate(plan.datasets):
        comment = [] if number else _comment(f"For {plan.said}: {plan.reason}.")
        parts.append([*comment, "[[datasets]]", f"name = {_text(name)}", f"objective = {objective}"])
    return parts


def size_said(count: float) -> str:
    """Return a number of bytes as people say it: 12_300_000 -> "12.3 MB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} bytes"


def _relative(folder: Path, base: Path) -> str:
    """Return a folder as the run file names it."""
    path = Path(os.path.relpath(folder.resolve(), base.resolve())).as_posix()
    return folder.resolve().as_posix() if path.startswith("../" * (_UPWARD + 1)) else path


def _joined(folder: str, pattern: str) -> str:
    return pattern if folder == "." else f"{escape(folder)}/{pattern}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(_printable(text), _WIDTH)]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _text(text: str) -> str:
    """Return a string of TOML; unlike JSON, it knows no halves of characters beyond U+FFFF."""
    return f'"{"".join(map(_letter, text))}"'


def _letter(letter: str) -> str:
    if letter == "\t":
        return r"\t"
    if letter in _ESCAPED:
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _list(texts: Iterable[str]) -> str:
    return "[" + ", ".join(map(_text, texts)) + "]"
