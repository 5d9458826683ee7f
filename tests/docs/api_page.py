"""docs/api.md: the public names of the package `shardmill`, with their signatures and docstrings."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike

import shardmill

GROUPS = {
    "Open and read datasets": (
        *("open_dataset", "ShardDataset", "Batch", "Batches", "Blend", "Stage", "Sequence"),
        "open_sequence",
    ),
    "Tensors, masks and losses": (
        *("Loader", "validation_loader", "TorchtitanLoader", "to_iterable_dataset", "collate"),
        *("dense_masks", "model_masks", "refuse_boolean_mask", "flex_block_masks", "masks_of"),
        "cu_seqlens",
        *("next_labels", "Loss", "causal_lm_loss", "masked_lm_loss", "pair_classification_loss"),
        *("replaced_token_loss", "electra_loss", "seq2seq_loss", "contrastive_loss", "duplicate_rows"),
    ),
    "Commands": (
        *("init", "RunFile", "plan", "forecast", "run", "verify", "open_run", "inspect"),
        *("find_document", "duplicates", "export", "export_stages", "export_texts", "export_tokenizer"),
    ),
    "Errors": (
        *("ShardmillError", "ConfigError", "DataError", "FormatError", "VerificationError"),
        *("Stopped", "Interrupted"),
    ),
}
HEAD = """\
# Python API

Generated from the code by `python tests/docs/test_docs.py`.

These are all public names of the package `shardmill`. [Python and notebooks](python.md) shows the
commands in use. [loading.md](loading.md) explains how rows are read, and
[objectives.md](objectives.md#masks-and-losses) masks and losses.

Opening datasets needs `pip install shardmill`. Tensors need torch. The commands need
`pip install 'shardmill[run]'`. The packages `stages` and `pipeline` are internal, and may change without
notice.
"""
_SECTION = re.compile(r"^(Args|Raises|Returns|Yields|Attributes|Example|Examples):$", re.MULTILINE)
_TITLES = {"Args": "Parameters"}
_LINE = 90
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")
"""What an annotation says before the name of a class."""
_ARRAY = re.compile(r"numpy\.ndarray\[tuple\[Any, \.\.\.\], numpy\.dtype\[([\w.]+)\]\]")
_HIDDEN = {"RunFile"}
"""Classes whose members are described elsewhere."""


def render_api() -> str:
    """Return docs/api.md."""
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(shardmill.__all__)
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _described(name, getattr(shardmill, name), "###")
            if inspect.isclass(getattr(shardmill, name)) and name not in _HIDDEN:
                for member, value in _members(getattr(shardmill, name)):
                    parts += _described(member, value, "####", of=name)
    return "\n".join(parts)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, in the order of its code."""
    for name, value in vars(kind).items():
        shown = isinstance(value, property) or inspect.isfunction(value)
        if shown and not name.startswith("_") and inspect.getdoc(value):
            yield name, value


def _described(name: str, value: Any, level: str, of: str = "") -> Iterator[str]:
    """Yield the title, the signature and the docstring of a name."""
    yield f"{level} {of + '.' if of else ''}{name}\n"
    if isinstance(value, property):
        result = inspect.signature(value.fget).return_annotation if value.fget else ""
        yield f"```text\n{name}: {_annotation(result)}\n```\n"
    elif name == "Batch":
        yield "```text\ndict[str, NDArray[Any]]\n```\n\nThe columns of a row or of several, by name.\n"
        return
    elif isinstance(value, type) and issubclass(value, Exception):
        yield f"```text\nclass {name}({value.__bases__[0].__name__})\n```\n"
    elif name not in _HIDDEN:
        yield f"```text\n{_signature(name, value)}\n```\n"
    if document := inspect.getdoc(value):
        yield from _prose(document)


def _signature(name: str, value: Any) -> str:
    """Return a call with its parameters, in one line if it fits."""
    signature = inspect.signature(value)
    parameters = [one for key, one in signature.parameters.items() if key != "self"]
    texts: list[str] = []
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        text = one.name if one.kind is not one.VAR_POSITIONAL else f"*{one.name}"
        if one.annotation is not one.empty:
            text += f": {_annotation(one.annotation)}"
        if one.default is not one.empty:
            text += f" = {one.default!r}" if one.annotation is not one.empty else f"={one.default!r}"
        texts.append(text)
    result = signature.return_annotation
    silent = inspect.isclass(value) or result is inspect.Signature.empty
    end = ")" if silent else f") -> {_annotation(result)}"
    line = f"{name}({', '.join(texts)}{end}"
    if len(line) <= _LINE:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + end


def _annotation(annotation: Any) -> str:
    """Return a type as its author wrote it, without modules."""
    if annotation == ArrayLike:  # a union of many types, up to Python 3.11
        return "ArrayLike"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"(?:typing|collections\.abc|pathlib)\.", "", text)
    text = _ARRAY.sub(r"NDArray[\1]", text)
    return _MODULES.sub("", text).replace("~", "")


def _prose(document: str) -> Iterator[str]:
    """Yield a docstring as Markdown: its text, and a list for each of its sections."""
    pieces = _SECTION.split(document)
    yield _text(pieces[0])
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        inside, after = _inside(body)
        text = inspect.cleandoc(inside)
        yield f"**{_TITLES.get(title, title)}**\n"
        if title.startswith("Example"):
            yield f"```text\n{text}\n```\n"
        elif title in ("Returns", "Yields"):
            yield _text(text)
        else:
            yield "\n".join(f"- `{name}`: {said}" for name, said in _entries(text)) + "\n"
        if after:
            yield _text(after)


def _inside(body: str) -> tuple[str, str]:
    """Return the indented lines that belong to a section, and the text that follows them."""
    lines = body.strip("\n").splitlines()
    end = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return "\n" + "\n".join(lines[:end]), "\n".join(lines[end:])


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a section with what is said of them."""
    for entry in re.split(r"\n(?=\S)", text):
        name, _, said = entry.partition(":")
        yield name.strip(), _escaped(" ".join(said.split()))


def _text(text: str) -> str:
    """Return paragraphs as they are, and what is indented or a prompt as blocks."""
    parts = []
    for paragraph in text.strip().split("\n\n"):
        if all(line.startswith((" ", ">>>")) or not line for line in paragraph.splitlines()):
            parts.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        elif re.search(r"\S {2,}\S", paragraph):  # columns
            parts.append(f"```text\n{paragraph}\n```")
        else:
            parts.append(_escaped(paragraph))
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    """Return a text in which nothing but code in backticks is markup."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else piece.replace("<", "&lt;") for piece in pieces)
