"""Names in manifests: plain, relative, and of the documented form, so that none leads out of its folder.

    shard            epoch-0000/00000               drawn shard   drawn/epoch-0000/00000
    file of a shard  input_ids.npy, segments/doc.npy
    column           input_ids                      tokenizer     ../../../tokenizer/tokenizer.model

A part of a path begins with a letter, a digit or `_`, and goes on with these, `.` and `-`. So there is
no `..`, no absolute path, no empty part, no drive and no hidden file.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

_PART = "[A-Za-z0-9_][A-Za-z0-9_.-]*"

ShardPath = Annotated[str, Field(pattern="^epoch-[0-9]{4,}/[0-9]{5,}$")]
"""The folder of a shard, relative to the manifest."""
DrawnPath = Annotated[str, Field(pattern="^drawn/epoch-[0-9]{4,}/[0-9]{5,}$")]
"""The folder of a shard in an epoch that was written out, relative to the manifest."""
FileName = Annotated[str, Field(pattern=f"^{_PART}(/{_PART})*$")]
"""A file in the folder of a shard, or beside the manifest."""
ColumnName = Annotated[str, Field(pattern="^[A-Za-z0-9_]+$")]
"""A column; its file is named after it."""
TokenizerPath = Annotated[str, Field(pattern=f"^([.][.]/){{0,3}}{_PART}(/{_PART})*$")]
"""The tokenizer, relative to the manifest: it lies in the folder of the run, three levels up at most."""


def refuse_repeated(names: Iterable[str]) -> None:
    """Refuse names of which two are the same.

    Raises:
        ValueError: says which.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name!r} is named twice; each shard has a folder of its own")
        seen.add(name)
