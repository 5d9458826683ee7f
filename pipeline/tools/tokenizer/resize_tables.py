"""What `tokenizer resize` prints: tensors with their rows, new ids, and losses before and after."""

from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.report.plain import PlainConsole, PlainTable, print_json
from stages.resize.row_method import RowMethod

_WRITE = {
    RowMethod.MEAN: "the mean of the rows of all old ids",
    RowMethod.PIECES: "the mean of the rows of the old ids that write the piece",
    RowMethod.NORMAL: "drawn around the mean of the old rows, with their covariance",
    RowMethod.RANDOM: "drawn around 0, with a standard deviation of 0.02",
}


@dataclass(frozen=True)
class ResizedTensor:
    """A tensor that got other rows."""

    name: str
    shape: tuple[int, ...]
    """Before."""
    dtype: str
    rows: int
    """After."""
    tied_to: str | None
    """The first tensor of the same memory."""


@dataclass(frozen=True)
class TextLoss:
    """What a model gives for a text, in nats."""

    path: str
    characters: int
    tokens: int
    """Of the old tokenizer."""
    new_tokens: int
    loss: float
    """Of the old model and tokenizer, a character; so are the others."""
    same_ids_loss: float
    """Of the new model for the ids of the old tokenizer: new ids have entered the softmax."""
    new_loss: float
    """Of the new model and tokenizer."""
    largest_difference: float
    """Between logits of old ids for the same ids, before and after."""


@dataclass(frozen=True)
class ResizeResult:
    """What `tokenizer resize` did."""

    output: Path
    method: RowMethod
    tensors: tuple[ResizedTensor, ...]
    old_ids: int
    new_ids: int
    reused: int
    """Rows of the old padding that are now of new ids."""
    padding: int
    """Rows after, that belong to no id."""
    without_text: int
    """New ids that no text gives: with `pieces` they get the mean."""
    left_out: tuple[str, ...]
    """Files of a folder that were not copied."""
    texts: tuple[TextLoss, ...]


def print_resizing(found: ResizeResult, *, as_json: bool) -> None:
    """Print what was changed, and what it does to losses."""
    if as_json:
        print_json(asdict(found) | {"output": str(found.output), "method": found.method.value})
        return
    console = PlainConsole()
    table = PlainTable("tensor", "type", "rows before", "rows after", "").right()
    for one in found.tensors:
        tied = "" if one.tied_to is None else f"one with {one.tied_to}"
        before = next((size for size in one.shape if size != 1), 0)
        table.add(one.name, one.dtype, f"{before:,}", f"{one.rows:,}", tied)
    console.show(table)
    console.line()
    console.line(f"{found.old_ids:,} old ids keep their rows, bit for bit")
    console.line(
        f"{found.new_ids:,} new ids have new rows (--rows {found.method.value}): {_WRITE[found.method]}"
    )
    if found.method is RowMethod.PIECES and found.without_text:
        console.line(f"{found.without_text:,} of them are in no text: the mean of all old rows")
    if found.reused:
        console.line(f"{found.reused:,} of them have rows that were padding before")
    if found.padding:
        console.line(
            f"{found.padding:,} rows belong to no id (padding); new ones hold the mean of all old rows"
        )
    if found.left_out:
        console.line(f"not copied: {', '.join(found.left_out)}")
        console.line("the new tokenizer's files: shardmill tokenizer export")
    if found.texts:
        console.line()
        _print_losses(console, found.texts)
    console.line()
    console.line(f"tokenizer resize: {found.output}")


def _print_losses(console: PlainConsole, texts: tuple[TextLoss, ...]) -> None:
    table = PlainTable(
        *("nats a character", "characters", "tokens", "new tokens", "before", "same ids, after"),
        *("new ids, after", "old logits differ by"),
    ).right()
    for one in texts:
        losses = (f"{loss:.4f}" for loss in (one.loss, one.same_ids_loss, one.new_loss))
        counts = (f"{count:,}" for count in (one.characters, one.tokens, one.new_tokens))
        table.add(one.path, *counts, *losses, f"{one.largest_difference:.1e}")
    console.show(table)
