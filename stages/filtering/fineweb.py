"""Rules of FineWeb: how lines end, how short they are, how many are repeated or hold nothing but items.

    unended_lines        lines that end with a stop: 0.12 at the least
    short_lines          lines of at most 30 characters: 0.67 at the most
    repeated_characters  characters in lines that stand there before: 0.01 of all but line feeds
    many_lines           line feeds for each word: 0.3 at the most

Lines of white space alone count in none but the last. The paper has the first three, the third with 0.1
in section 3.6 and 0.01 in table 2; the last, the list ratio, is of the code that made the data set.

Source: Penedo et al. 2024, "The FineWeb datasets: decanting the web for the finest text data at scale",
section 3.6, arXiv 2406.17557. Verdicts are those of datatrove's filter of that name, given these words.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.byte_kernels import code_point
from stages.filtering.characters import SPACE, STOP, character_flags
from stages.filtering.filter import Document, Filter, FilterConfig, Judge, Removal, measured
from stages.filtering.repeats import empty_set, mixed, slot_of
from stages.filtering.words import Words
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

_LINE_FEED = 10


class FineWeb(FilterConfig):
    """FineWeb's rules on lines; the numbers of the code that made its data set are the defaults."""

    kind: Literal["fineweb"] = "fineweb"
    """Names the filter."""
    min_ended_lines: float = Field(0.12, ge=0.0, le=1.0)
    """Least share of lines that end with a stop, in whatever script."""
    max_short_lines: float = Field(0.67, ge=0.0, le=1.0)
    """Largest share of lines of at most `short_line` characters."""
    short_line: int = Field(30, ge=0)
    """Characters of a line that is short."""
    max_repeated_characters: float = Field(0.01, ge=0.0, le=1.0)
    """Largest share of characters in lines that repeat an earlier line."""
    max_lines_per_word: float = Field(0.3, ge=0.0)
    """Most line feeds for each word."""


@lean_kernel
def _count_lines(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    short: int,
    table: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    """Count lines with something in them: all, ended, short, and the characters of repeated ones."""
    size, place = len(buffer), 0
    lines = ended = brief = repeated = 0
    while place < size:
        value, length, last, blank = np.uint64(0), 0, 0, True
        while place < size:
            code, width = code_point(buffer, place)
            if code == _LINE_FEED:
                place += 1
                break
            for offset in range(width):
                value = value * GOLDEN + np.uint64(buffer[place + offset]) + np.uint64(1)
            length, last, place = length + 1, code, place + width
            blank = blank and flags[code] & SPACE != 0
        if blank:
            continue
        lines += 1
        ended += flags[last] & STOP != 0
        brief += length <= short
        value = mixed(value)
        slot = slot_of(table, value)
        repeated += length if table[slot] == value else 0
        table[slot] = value
    counts[0], counts[1], counts[2], counts[3] = lines, ended, brief, repeated


def _open(config: FineWeb) -> Judge:
    def judge(document: Document) -> Removal | None:
        data, counts = document.text, np.zeros(4, np.int64)
        feeds = data.count(b"\n")
        table = empty_set(feeds + 1)
        _count_lines(np.frombuffer(data, np.uint8), character_flags(), config.short_line, table, counts)
        lines, ended, brief, repeated = counts.tolist()
        share, least = ended / lines, config.min_ended_lines
        if share < least:
            return measured("unended_lines", "share with a stop", share, "min_ended_lines", least)
        share, most = brief / lines, config.max_short_lines
        if share > most:
            return measured("short_lines", "share of lines", share, "max_short_lines", most)
        share, most = repeated / (document.characters - feeds), config.max_repeated_characters
        if share > most:
            setting = "max_repeated_characters"
            return measured("repeated_characters", "share of characters", share, setting, most)
        share, most = feeds / len(Words(data).hashes), config.max_lines_per_word
        if share > most:
            return measured("many_lines", "line feeds a word", share, "max_lines_per_word", most)
        return None

    return judge


_RULES = ("unended_lines", "short_lines", "repeated_characters", "many_lines")
FINEWEB = Filter(FineWeb, _RULES, _open, memory_factor=28)
