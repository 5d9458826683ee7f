"""Drift: what becomes of the ids of texts as pieces are appended.

    old ids   _the  cat  sat  on     a token is the same if both encodings have it at the same bytes
    new ids   _the  catsat    on     ->  2 of 4 old tokens changed, in one stretch: cat sat -> catsat

Lengths of tokens are those of what they spell. An unknown token spells nothing, so behind it the places
differ, and the rest of the text counts as changed.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.texts import TextIds


@dataclass
class Drift:
    """What became of some texts."""

    documents: int = 0
    same_documents: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    changed_tokens: int = 0
    """Of those before."""
    stretches: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=Counter)
    """Old and new ids of what changed."""

    @property
    def share(self) -> float:
        """The share of the tokens that changed."""
        return self.changed_tokens / max(self.tokens_before, 1)

    def add(self, old: TextIds, new: TextIds, sizes: NDArray[np.int64], *, listed: bool = True) -> None:
        """Count what became of texts.

        Args:
            old: their ids before.
            new: their ids after.
            sizes: (V,) the bytes that each new id spells; the old ids are among them.
            listed: whether the stretches that changed are counted, too.
        """
        found = np.empty((len(old.ids) + len(old.ends), 4), np.int64)
        stretches = found[: find_stretches(old, new, sizes, found)]
        self.documents += len(old.ends)
        self.tokens_before += len(old.ids)
        self.tokens_after += len(new.ids)
        self.changed_tokens += int((stretches[:, 1] - stretches[:, 0]).sum())
        texts = np.searchsorted(old.ends, stretches[:, 1], side="left")
        self.same_documents += len(old.ends) - len(np.unique(texts))
        for begin, end, first, last in stretches.tolist() if listed else ():
            ids = tuple(old.ids[begin:end].tolist()), tuple(new.ids[first:last].tolist())
            self.stretches[ids] += 1

    def __add__(self, other: "Drift") -> "Drift":
        """Return the counts of both."""
        return Drift(
            self.documents + other.documents,
            self.same_documents + other.same_documents,
            self.tokens_before + other.tokens_before,
            self.tokens_after + other.tokens_after,
            self.changed_tokens + other.changed_tokens,
            self.stretches + other.stretches,
        )


@lean_kernel
def find_stretches(
    old: TextIds, new: TextIds, sizes: NDArray[np.int64], found: NDArray[np.int64]
) -> int:
    """Fill in where tokens changed, (S, 4): first and behind the last, old and new; return S."""
    count, one, other = 0, 0, 0
    for text in range(len(old.ends)):
        end, stop = old.ends[text], new.ends[text]
        while one < end or other < stop:
            if one < end and other < stop and old.ids[one] == new.ids[other]:
                one, other = one + 1, other + 1
                continue
            begin, first, ahead = one, other, np.int64(0)
            while one < end or other < stop:
                if (ahead <= 0 and one < end) or other == stop:
                    ahead += sizes[old.ids[one]]
                    one += 1
                else:
                    ahead -= sizes[new.ids[other]]
                    other += 1
                if ahead == 0 and one > begin and other > first:
                    break
            found[count, 0], found[count, 1], found[count, 2], found[count, 3] = begin, one, first, other
            count += 1
    return count
