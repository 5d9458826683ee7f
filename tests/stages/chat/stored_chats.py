"""Dialogues of a finished run, as ingest and the token store have them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.store.token_store import TokenUnit


@dataclass(frozen=True)
class StoredDialogue:
    """A dialogue of a run."""

    ids: list[int]
    """As stored, framed."""
    ends: list[int]
    """After how many of them each section ends."""
    learned: list[bool]
    """Of each section."""

    def learned_tokens(self) -> NDArray[np.bool_]:
        """Return which of the ids are learned."""
        return np.repeat(self.learned, np.diff(self.ends, prepend=0))


@dataclass(frozen=True)
class WrittenDialogue:
    """A dialogue as ingest wrote it."""

    text: str
    ends: list[int]
    flags: list[int]

    @property
    def sections(self) -> list[str]:
        """Its text in parts."""
        begins = [0, *self.ends[:-1]]
        return [self.text[begin:end] for begin, end in zip(begins, self.ends, strict=True)]


def stored_dialogues(run: Path, *, source: str = "chats") -> dict[int, StoredDialogue]:
    """Return the dialogues of a source in the token store by their own ids."""
    return dict(_stored(run / "tokens" / source))


def _stored(folder: Path) -> Iterator[tuple[int, StoredDialogue]]:
    for place in sorted(folder.rglob("documents.parquet")):
        store = TokenUnit.open(place.parent)
        for group in range(len(store.group_ptr) - 1):
            ids, lengths = store.group(group)
            sections, learned = store.sections(group, count=0), store.learned(group)
            names = store.documents(group).column("own_id").to_pylist()
            for number, (name, end) in enumerate(zip(names, np.cumsum(lengths).tolist(), strict=True)):
                flags = learned[sections.ptr[number] : sections.ptr[number + 1]]
                own = ids[end - lengths[number] : end].tolist()
                yield int(name), StoredDialogue(own, sections[number].tolist(), flags.tolist())


def written_dialogues(run: Path) -> dict[int, WrittenDialogue]:
    """Return the dialogues that ingest wrote by their own ids."""
    found = {}
    for place in sorted((run / "ingest").rglob("documents.parquet")):
        for row in pq.read_table(place).to_pylist():
            written = WrittenDialogue(row["text"], row["section_ends"], row["section_flags"])
            found[int(row["own_id"])] = written
    return found
