"""The forms of a question about one token of a text, in which a model has learned to answer.

    text          The quick brown fox jumps              the token asked for: brown

                  continuation                           cloze
    next          The quick -> brown
    prefix        The quick -> brown                     (the quick is read both ways)
    rest          The quick </s> => brown
    mask          The quick <mask>                       The quick <mask> fox jumps
    span          The quick <X> </s> => <X> brown        The quick <X> fox jumps </s> => <X> brown
    middle                                               <PRE> The quick <SUF> fox jumps <MID> -> brown

`->` is the next position, `=>` the decoder.
"""

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """How a model is asked for a token."""

    NEXT = "next"
    PREFIX = "prefix"
    REST = "rest"
    MASK = "mask"
    SPAN = "span"
    MIDDLE = "middle"


@dataclass(frozen=True)
class Questions:
    """The forms that an objective's models know; None: no row of the objective asks so."""

    continuation: Form | None = None
    """What comes next."""
    cloze: Form | None = None
    """What stood there."""
