"""Traits: what follows from an objective's config for the layout, the loader, the trainer and verify.

The forms of a question about one token of a text, in which a model has learned to answer.

    text          The quick brown fox jumps              the token asked for: brown

                  continuation                           cloze
    next          The quick -> brown
    prefix        The quick -> brown                     (the quick is read both ways)
    rest          The quick </s> => brown
    mask          The quick <mask>                       The quick <mask> fox jumps
    span          The quick <X> </s> => <X> brown        The quick <X> fox jumps </s> => <X> brown
    middle                                               <PRE> The quick <SUF> fox jumps <MID> -> brown

`->` is the next position, `=>` the decoder.

The base of every objective's config.
"""

from dataclasses import dataclass
from enum import StrEnum

from stages.config import Config

TARGETS, PAIRS = "targets", "pairs"
"""The label conventions of encoder-decoders, and of views that belong together."""


@dataclass(frozen=True)
class Traits:
    """What follows from an objective's config."""

    attention: str
    """Who may attend to whom; no mask is stored, it follows from segments and lengths."""
    label_convention: str
    """unshifted: labels[t] is input_ids[t]; masked: the token that stood at t before it was masked;
    targets: what the decoder is to give at t; replaced: 1 where a token was replaced; pairs: none, a
    row's views belong together."""
    other_conventions: tuple[str, ...] = ()
    """Conventions that a manifest may declare instead."""
    dynamic: bool = True
    """Whether another epoch gives other columns of the same stored row."""
    single: bool = False
    """Whether a row holds one piece of a document."""
    growth: int = 0
    """Tokens by which each segment of a row may grow when it is transformed."""
    words: bool = False
    """Whether drawing needs to know which ids begin a word."""
    unigram: bool = False
    """Whether drawing needs to know how frequent ids are."""
    written_for: str = ""
    """Why rows are drawn once and written out by epochs, so that only epochs on disk open; empty for
    kinds whose rows are drawn when they are read."""
    sentences: bool = False
    """Whether drawing needs to know where sentences end."""
    sections: int = 0
    """Sections of a document that rows are laid out by: so many, or -1 for any number; 0 if none are."""
    segment_prompts: bool = False
    """Whether each segment of a row says how many of its tokens stand before its source's own target."""
    takes_dialogues: bool = True
    """Whether documents may be dialogues: what moves parts of documents, or lays out rows by their
    sections, would tear turns apart."""
    loss_mask: bool = False
    """Whether a column says of each position of a row whether its token has a loss."""
    sources: tuple[str, ...] = ()
    """Sources of the run that the config names, whose documents are drawn by settings of their own."""
    encodes_text: bool = False
    """Whether parts of the text are encoded anew, so the tokenizer must write every text as it is."""
    model: str = ""
    """The model that drawing asks, as "package.module:function"; its rows cannot be drawn again."""
    copied: bool = False
    """Whether `input_ids` are the stored ids and labels the same, so that rows may be copied undrawn."""
    unlabelled_starts: bool = False
    """Whether the first token of each segment has no label."""
    eos_may_pad: bool = False
    """Whether the EOS may fill rows up: the columns say without it how far a row is filled."""
    may_begin: bool = False
    """Whether documents may begin with a special id, as `framing` has it; the rows of all other kinds
    are framed by the objective itself."""
    restates: bool = False
    """Whether an encoder-decoder's targets are the whole text, not the hidden parts alone."""

    @property
    def form(self) -> str:
        """row, if any epoch can be drawn from a row and what stands beside it; else materialised."""
        return "materialised" if self.written_for else "row"


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


class Objective(Config):
    """What is learned from rows: the settings of one kind of objective."""

    kind: str
    """Names the objective."""
