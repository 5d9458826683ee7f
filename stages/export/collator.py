"""The collator of exported rows: Python that makes a batch of them for the models of transformers.

It is pasted from the READ.md of an export. Ids become int64, and the attention of the dataset becomes a
mask of numbers that models add to their scores, right under eager attention and SDPA. Where a model
shifts labels, the first token of each document has none, since nothing is to be predicted from the
document before.

Axes of the masks: N rows, L tokens, V views of a row.
"""

import json
from collections.abc import Sequence

from stages.export.columns import ATTENTION_MASK, TOKENS
from stages.export.source import ExportSource

_TAKEN = (
    "input_ids",
    TOKENS,
    "labels",
    "decoder_input_ids",
    ATTENTION_MASK,
    "position_ids",
    "token_type_ids",
    "next_sentence_label",
    "sentence_order_label",
)
"""What a model's forward may take."""
_WITHIN = "_within_document"
_PREFIX = {"prefix": "prefix_length", f"prefix{_WITHIN}": "in_prefix"}
_SHAPES = {"prefix_length": "[:, None, None]", "in_prefix": "[:, None, :]"}


def collator(source: ExportSource) -> str | None:
    """Return the Python of a function `collate`, or None if the columns do not tell who sees whom.

    Args:
        source: with the columns that are exported.
    """
    body = _body(source)
    if body is None:
        return None
    needed = ("segment_ids", *_PREFIX.values())
    names = [name for name in source.columns if name in _TAKEN or (name in needed and name in body)]
    masked = "dtype" in body
    lines = [
        "import numpy as np",
        "import torch",
        "",
        "",
        *(
            ["def collate(rows, dtype=torch.float32):  # dtype: the one that the model computes in"]
            if masked
            else ["def collate(rows):"]
        ),
        f"    names = {_listed(names)}",
        "    columns = {name: np.stack([row[name] for row in rows]).astype(np.int64) for name in names}",
        "    batch = {name: torch.from_numpy(column) for name, column in columns.items()}",
        *(f"    {line}" for line in body.splitlines()),
        "    return batch",
    ]
    if TOKENS in names:
        lines.insert(-1, f'    batch["input_ids"] = batch.pop("{TOKENS}")')
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    """Return a tuple of names as Python writes it."""
    return f"({''.join(f'{json.dumps(name)}, ' for name in names).strip()})"


def _body(source: ExportSource) -> str | None:
    """Return what is done with the columns; None if one is lacking."""
    attention, columns = source.manifest.attention, source.columns
    if attention == "encoder_decoder":
        return "" if {"labels", ATTENTION_MASK} <= columns.keys() else None
    if attention == "bidirectional":
        return _flat_views(source)
    prefix = _PREFIX.get(attention)
    wanted = {prefix} if prefix else set()
    wanted.add("segment_ids" if attention.endswith(_WITHIN) else ATTENTION_MASK)
    is_shifted = source.manifest.label_convention == "unshifted"
    if is_shifted and attention.endswith(_WITHIN):
        wanted |= {"labels", "position_ids"}
    if not wanted <= columns.keys():
        return None
    return "\n".join(_mask(attention, prefix, is_shifted=is_shifted))


def _mask(attention: str, prefix: str | None, *, is_shifted: bool) -> list[str]:
    """Return the lines that make the mask (N, 1, L, L)."""
    lines = []
    if attention.endswith(_WITHIN):
        lines.append('segments = batch.pop("segment_ids")')
        lines.append("visible = segments[:, :, None] == segments[:, None, :]  # no other document")
    else:
        lines.append(f'visible = batch["{ATTENTION_MASK}"][:, None, :].bool()  # no padding')
    if not attention.startswith("bidirectional"):
        lines.append("earlier = torch.ones(visible.shape[-1:] * 2, dtype=torch.bool).tril()")
        if prefix:
            at = _SHAPES[prefix]
            inside = (
                f"torch.arange(visible.shape[-1]) < batch.pop({prefix!r}){at}"
                if prefix == "prefix_length"
                else f"batch.pop({prefix!r}){at}.bool()"
            ).replace("'", '"')
            lines.append(f"earlier = earlier | ({inside})")
        lines.append("visible = visible & earlier" if attention.endswith(_WITHIN) else _SELF)
    if is_shifted and attention.endswith(_WITHIN):
        lines.append('batch["labels"][batch["position_ids"] == 0] = -100  # the model shifts the labels')
    return [
        *lines,
        "hidden = ~visible[:, None]",
        "scores = torch.zeros(hidden.shape, dtype=dtype)",
        f'batch["{ATTENTION_MASK}"] = scores.masked_fill(hidden, torch.finfo(dtype).min)',
    ]


_SELF = (
    "visible = visible & earlier | torch.eye(visible.shape[-1], dtype=torch.bool)  # padding sees itself"
)


def _flat_views(source: ExportSource) -> str | None:
    """Return the line that makes V views of N rows N V rows."""
    columns = source.columns
    if ATTENTION_MASK not in columns:
        return None
    if len(columns["input_ids"].shape) == 1:
        return ""
    return "batch = {name: column.flatten(0, 1) for name, column in batch.items()}  # views of a row"
