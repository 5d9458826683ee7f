"""Rules of C4: lines that are no sentences go, and documents that hold code, filler or little else.

    A line goes that     has a word of over 1,000 characters; ends in none of . ? ! " or in "...";
                         has fewer than 5 words; names Javascript; speaks of cookies or terms of use
    A document goes that has "lorem ipsum" or a "{" in a line that stays, or fewer than 3 sentences in
                         all such lines

Lines are looked at in their order, by the rules in theirs; [1], [edit] and [citation needed] go from a
line before its end is looked at and its words are counted. White space before a citation at a line's end
stays, so that "... was said. [3]" ends in no mark and goes, while "... was said.[3]" stays. What is
left are the lines, stripped of white space. With `remove_lines = false` the same documents go, and the
others stay as they are. A sentence ends with a run of . ? ! and closing quotes before white space or at
a line's end.

Rules and defaults are those of the program that made the data set. Of its rules the list of bad words is
not here: name yours with the filter `function`. It counts sentences with Punkt of NLTK. The filter of
datatrove has 5 sentences, 3 words, and ' as one more end; it counts words before citations go.

Source: `clean_page` of tensorflow_datasets/text/c4_utils.py in github.com/tensorflow/datasets, commit
0560e686; Raffel et al. 2019, "Exploring the limits of transfer learning with a unified text-to-text
transformer", section 2.2, arXiv 1910.10683.
"""

import re
from collections import Counter
from typing import Literal

from pydantic import Field, field_validator

from stages.cleaning.text import clean_text
from stages.filtering.filter import Change, Document, Filter, FilterConfig, Judge, Removal, measured
from stages.filtering.length import EMPTY

CITATION = re.compile(r"\[(?:\d*|edit|citation needed)\]")
_ENDS = (".", "?", "!", '"')
_FILLER, _SCRIPT = "lorem ipsum", "javascript"
_POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
_SENTENCE_END = re.compile("[.?!]+[\"'\u201d\u2019)\\]]*(?:\\s+|$)")
_RULES = ("lorem_ipsum", "curly_bracket", "few_sentences", EMPTY)
_LINES = "lines"


class C4(FilterConfig):
    """The rules of C4."""

    kind: Literal["c4"] = "c4"
    """Names the filter."""
    remove_lines: bool = True
    """Whether lines go from documents that stay, and citations from lines."""
    min_sentences: int = Field(3, ge=0)
    """Fewest sentences in the lines that stay."""
    min_line_words: int = Field(5, ge=0)
    """Fewest words of a line, between white space, without citations."""
    line_ends: tuple[str, ...] = Field(_ENDS, min_length=1)
    """With what a line must end."""
    max_word_length: int = Field(1000, ge=1)
    """Longest word of a line, in characters."""

    @field_validator("line_ends")
    @classmethod
    def _as_in_texts(cls, ends: tuple[str, ...]) -> tuple[str, ...]:
        for end in ends:
            if not clean_text(end) or end != end.strip():
                raise ValueError(f"{end!r}: a line never ends so; name a mark without white space")
        return tuple(map(clean_text, ends))


def count_sentences(line: str) -> int:
    """Return the sentences of a line: 'Go! "Now?" he said.' -> 3."""
    count, last = 0, 0
    for end in _SENTENCE_END.finditer(line):
        count, last = count + 1, end.end()
    return count + (last < len(line))


def _open(config: C4) -> Judge:
    def judge(document: Document) -> Removal | Change | None:
        return _judge(document, config)

    return judge


def _judge(document: Document, config: C4) -> Removal | Change | None:
    text = document.text.decode()
    lowered = text.lower()
    named = "[" in text or any(phrase in lowered for phrase in (_FILLER, _SCRIPT, *_POLICIES))
    kept: list[str] = []
    counts: Counter[str] = Counter()
    sentences = 0
    for whole in text.split("\n"):
        line = whole.strip()
        cited = 0
        if "[" in line:
            line, cited = CITATION.subn("", line)
        if _is_no_sentence(whole, line, config):
            counts[_LINES] += bool(line or cited)
            continue
        lower = line.lower() if named else ""
        if _FILLER in lower:
            return Removal("lorem_ipsum", 'holds "lorem ipsum"')
        if _SCRIPT in lower:
            counts[_LINES] += 1
            continue
        if "{" in line:
            return Removal("curly_bracket", 'holds "{" in a line that stays')
        if named and any(phrase in lower for phrase in _POLICIES):
            counts[_LINES] += 1
            continue
        sentences += count_sentences(line)
        counts["citations"] += cited
        kept.append(line)
    if sentences < config.min_sentences:
        return measured("few_sentences", "sentences", sentences, "min_sentences", config.min_sentences)
    left = "\n".join(kept).strip()
    if not config.remove_lines or left == text:
        return None
    return Change(left.encode(), counts={name: number for name, number in counts.items() if number})


def _is_no_sentence(whole: str, line: str, config: C4) -> bool:
    """Say whether a line goes for its end, its words or their length.

    Args:
        whole: the line.
        line: without white space around it and citations.
        config: the bounds.
    """
    if not line.endswith(config.line_ends) or line.endswith("..."):
        return True
    if len(line.split(None, config.min_line_words)) < config.min_line_words:
        return True
    return len(whole) > config.max_word_length and max(map(len, whole.split())) > config.max_word_length


def _rewrites(config: C4) -> bool:
    return config.remove_lines


C4_RULES = Filter(
    C4,
    _RULES,
    _open,
    version=2,
    rewrites=_rewrites,
    memory_factor=52,
)
