"""Shown rows: the beginning of a row of each dataset, token by token, as the page draws it."""

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from pipeline.report.counted import Counted
from pipeline.report.inspection import Role, RowContent, TokenContent, inspect, readable
from pipeline.report.part import Part
from stages.errors import ConfigError, DataError


class ShownToken(Part):
    """One token of the page."""

    piece: str
    css: str
    was: str | None


class ShownSequence(Part):
    """The beginning of a sequence."""

    name: str
    tokens: tuple[ShownToken, ...]
    more: int
    """Tokens behind them."""


class ShownRow(Part):
    """The beginning of a row."""

    dataset: str
    split: str
    row: int
    epoch: int
    key: tuple[tuple[str, str], ...]
    """Signs, and what each means."""
    sequences: tuple[ShownSequence, ...]


_TOKENS = 160
"""Of a sequence, that are shown."""
_CSS = {Role.TEXT: "", Role.SILENT: "silent"}
_SAID = {
    Role.SPECIAL: "a special token",
    Role.SENTINEL: "stands for a gap",
    Role.MASKED: "masked; behind it, in brackets, what the model is to find",
    Role.RANDOM: "another token in its place; in brackets, what the model is to find",
    Role.KEPT: "shown as it is, and to be found all the same",
    Role.REPLACED: "another token in its place, to be noticed; in brackets, what stood there",
    Role.SILENT: "no loss falls on it",
}


def first_rows(
    output: Path, datasets: Mapping[str, Mapping[str, str]], counted: Counted, *, anew: bool = False
) -> dict[str, ShownRow]:
    """Return the beginning of the first row of each dataset; of a damaged one `verify` says more.

    Args:
        output: folder of the run.
        datasets: their names, with the fingerprints of the splits that they have.
        counted: rows that were shown before.
        anew: whether they are looked at again.
    """
    shown = {}
    for name, splits in datasets.items():
        split = next((one for one in ("train", "validation") if one in splits), None)
        if split is not None:
            look = partial(_first_row, output, name, split)
            with contextlib.suppress(ConfigError, DataError):
                shown[name] = counted.once(f"row {name}", splits[split], ShownRow, look, anew=anew)
    return shown


def _first_row(output: Path, name: str, split: str) -> ShownRow:
    return shown_row(inspect(output, name, split=split))


def shown_row(row: RowContent) -> ShownRow:
    """Return the beginning of a row."""
    sequences = row["sequences"]
    first = [token for one in sequences for token in one["tokens"][:_TOKENS]]
    marks = _some_have_none(first)
    return ShownRow(
        dataset=row["dataset"],
        split=row["split"],
        row=row["row"],
        epoch=row["epoch"],
        key=tuple(_key(first)),
        sequences=tuple(
            ShownSequence(
                name=one["name"],
                tokens=tuple(_token(token, marks=marks) for token in one["tokens"][:_TOKENS]),
                more=max(len(one["tokens"]) - _TOKENS, 0),
            )
            for one in sequences
        ),
    )


def _token(token: TokenContent, *, marks: bool) -> ShownToken:
    role = Role(token["role"])
    css = _CSS.get(role, role.value)
    if marks and token.get("loss"):
        css = f"{css} loss".strip()
    was = token.get("was")
    return ShownToken(
        piece=_on_a_line(token["piece"]), css=css, was=None if was is None else _on_a_line(was)
    )


def _on_a_line(piece: str) -> str:
    return readable(piece).replace("\n", "")  # which stands behind the sign for it


def _key(tokens: list[TokenContent]) -> Iterator[tuple[str, str]]:
    """Yield what the signs of some tokens mean."""
    if _some_have_none(tokens):
        yield "green", "a loss falls on it"
    there = {token["role"] for token in tokens}
    for role, said in _SAID.items():
        if role.value in there:
            yield role.value, said


def _some_have_none(tokens: list[TokenContent]) -> bool:
    """Say whether a loss falls on some tokens and not on others."""
    return {token["loss"] for token in tokens if "loss" in token} == {True, False}
