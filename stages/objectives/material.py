"""Materialised kinds: columns that need more than a row, drawn once and written out by epochs.

What is theirs alone is drawn by plain functions: reading text, encoding it or asking a model takes
longer than what a kernel would save. The masks and noises that they share with row kinds are compiled.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.objectives.bart import BART
from stages.objectives.clm import IGNORED
from stages.objectives.drawing import PLAIN, given_back, usual_ways
from stages.objectives.electra import ReplacedTokens
from stages.objectives.fim import FIM
from stages.objectives.fim_characters import Spelling, check_text, fill_in_text
from stages.objectives.generated import Generate, replace_by_model
from stages.objectives.mlm import select_positions
from stages.objectives.permuted_sentences import permute_and_add_noise
from stages.objectives.rows import Columns, StoredRows, Widths, bodies
from stages.objectives.sentence_pairs import (
    NextSentence,
    SentenceOrder,
    check_borrowed,
    label_name,
    make_pairs,
    restore_pairs,
)
from stages.objectives.table import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard


@dataclass(frozen=True)
class Material:
    """What the rows of a shard are drawn with."""

    shard: WholeShard
    spelling: Spelling | None = None
    """Of the tokenizer, if text is to be cut."""
    generate: Generate | None = None
    """The model of an objective that asks one."""


def repeatable(objective: Objective) -> bool:
    """Say whether rows drawn again have the same bits anywhere: not where a model was asked."""
    return not (isinstance(objective, ReplacedTokens) and objective.model is not None)


def draw_material(
    rows: StoredRows,
    objective: Objective,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material,
    plainly: bool = False,
) -> Columns:
    """Give the columns of rows of a materialised kind, each (N, ...), in the dtypes of the disk.

    `plainly` draws them by numpy alone, which gives the same.
    """
    ways, shard = PLAIN if plainly else usual_ways(), material.shard
    match objective:
        case NextSentence() | SentenceOrder():
            return make_pairs(rows, objective, vocabulary, widths, shard=shard, mask=ways.mlm)
        case FIM():
            assert material.spelling is not None, objective.level
            return fill_in_text(
                rows,
                objective,
                vocabulary,
                widths,
                shard=material.shard,
                spelling=material.spelling,
            )
        case BART():
            return permute_and_add_noise(
                rows, objective, vocabulary, widths, shard=material.shard, add_noise=ways.bart
            )
        case ReplacedTokens():
            assert material.generate is not None, objective.model
            return replace_by_model(rows, objective, vocabulary, generate=material.generate)
        case _:
            raise AssertionError(f"{objective.kind} is a row kind")


def counted_apart(columns: Columns, objective: Objective) -> dict[str, int]:
    """Give what must be known of drawn rows beside their tokens: nothing, for most kinds.

    nsp    borrowed_tokens: shown a second time, from other documents
    pairs  rows_without_a_pair: there was nothing to pair them with
    fim    segments_without_room: were to be transformed, and stayed plain
    """
    match objective:
        case NextSentence() | SentenceOrder():
            labels = columns[label_name(objective)]
            counts = {"rows_without_a_pair": int(np.count_nonzero(labels == IGNORED))}
            if isinstance(objective, NextSentence):
                borrowed = columns["token_type_ids"][labels == 1]
                counts["borrowed_tokens"] = int(borrowed.sum(dtype=np.int64)) - len(borrowed)
            return counts
        case FIM(level="character"):
            return {"segments_without_room": int(columns["plain"].sum())}
        case _:
            return {}


def given_back_material(
    rows: StoredRows,
    columns: Columns,
    objective: Objective,
    vocabulary: Vocabulary,
    *,
    material: Material,
) -> NDArray[np.bool_]:
    """Say of which rows the columns, put together again, give the stored text: (N,) bool.

    Of characters to fill in, the bytes; of pairs, the tokens of both halves, and what was borrowed is a
    text of another document; of a model's replacements, that they stand where they are drawn to stand,
    labels tell them and none is a special id.
    """
    match objective:
        case FIM():
            assert material.spelling is not None, objective.level
            return check_text(rows, columns, vocabulary, material.spelling.pieces)
        case NextSentence() | SentenceOrder():
            ids, lengths = restore_pairs(columns, objective, vocabulary)
            wanted = bodies(rows, vocabulary.named("eos"))
            inside = np.arange(rows.input_ids.shape[1]) < wanted[:, None]
            differ = ((ids[:, : inside.shape[1]] != rows.input_ids) & inside).any(axis=1)
            same: NDArray[np.bool_] = (lengths == wanted) & ~differ
            if isinstance(objective, NextSentence):
                same &= check_borrowed(rows, columns, objective, vocabulary, material.shard)
            return same
        case ReplacedTokens():
            replaced = columns["input_ids"] != columns["original_ids"]
            selected = np.zeros(replaced.shape, np.bool_)
            selected[select_positions(rows, objective, vocabulary)] = True
            right = np.where(rows.covered, replaced, IGNORED) == columns["labels"]
            right &= (columns["selected"] != 0) == selected
            right &= selected | ~replaced
            right &= ~(replaced & vocabulary.special(columns["input_ids"]))
            back = given_back(rows, columns, objective, vocabulary)
            return np.asarray(right.all(axis=1) & back)
        case _:
            return given_back(rows, columns, objective, vocabulary)
