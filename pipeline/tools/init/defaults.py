"""Tasks and defaults: what a model is to be for, and the settings that suit it and a corpus.

They are written into the run file. No run derives them: the same file means the same everywhere.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipeline.system.memory import machine_memory
from pipeline.tools.init.draft import Draft
from stages.tokenizer.special import num_reserved
from stages.tokenizer.train_config import NUM_BYTES

MIB = 1 << 20
_BYTES_A_PIECE = 512
"""Text for each piece of a vocabulary: of less, its last pieces are of words seen a few times."""
_VOCABULARIES = (600, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
_LARGE_VOCABULARY = 64_000
_MOST_FOR_CHARACTERS = 8_000
"""To which the characters of a text raise the vocabulary, not higher."""
_MANY_LANGUAGES = 4
_ENOUGH_FOR_LARGE = 1 << 30
_CHARACTERS_A_TOKEN = 4
_HELD_OUT = 100
"""Documents that validation holds out at least, if they are no more than a tenth."""
_LEARNED_TOKENS = 60_000
"""Of fewer, the learning check cannot say anything."""


@dataclass(frozen=True)
class Defaults:
    """What is written for a corpus."""

    vocab_size: int
    sample_size: int
    validation: float
    seq_len: int
    unit_size: int
    shard_size: int
    memory: int
    learning: bool
    tokens: float
    """About."""


def defaults_for(draft: Draft, *, shortest_row: int, longest_row: int) -> Defaults:
    """Return what suits a corpus.

    Args:
        draft: what is known of it.
        shortest_row: tokens that a row of the objective has at least.
        longest_row: and at most.
    """
    text = max(draft.text_bytes, 1)
    languages = {name for source in draft.sources for name in (source.languages or (source.language,))}
    fitting = [size for size in _VOCABULARIES if size * _BYTES_A_PIECE <= text]
    vocabulary = fitting[-1] if fitting else _VOCABULARIES[0]
    vocabulary = max(vocabulary, min(_with_characters(draft), _MOST_FOR_CHARACTERS))
    if len(languages) >= _MANY_LANGUAGES and text >= _ENOUGH_FOR_LARGE:
        vocabulary = _LARGE_VOCABULARY
    tokens = text / _CHARACTERS_A_TOKEN
    return Defaults(
        vocab_size=vocabulary,
        sample_size=64 * MIB,
        validation=_share(_HELD_OUT / max(draft.documents, 1)),
        seq_len=_row_length(draft, shortest_row, longest_row),
        unit_size=_power(text / 32, MIB, 64 * MIB),
        shard_size=_power(text / 8, 4 * MIB, 512 * MIB),
        memory=_memory(),
        learning=tokens >= _LEARNED_TOKENS,
        tokens=tokens,
    )


def _with_characters(draft: Draft) -> int:
    """Return a vocabulary, in hundreds, in which half of the learned pieces can be single characters."""
    characters: frozenset[str] = frozenset().union(*(source.characters for source in draft.sources))
    return -(-(num_reserved() + NUM_BYTES + 2 * len(characters)) // 100) * 100


def _share(share: float) -> float:
    """Round a share up to one digit, between a thousandth and a tenth: 0.0123 -> 0.02."""
    bounded = min(max(share, 0.001), 0.1)
    unit = 10.0 ** math.floor(math.log10(bounded))
    return round(min(math.ceil(round(bounded / unit, 6)) * unit, 0.1), 4)


def _row_length(draft: Draft, shortest: int, longest: int) -> int:
    """Return a row that most documents fit in, as a power of two."""
    lengths = sorted(length for source in draft.sources for length in source.lengths)
    if not lengths:
        return longest
    most = lengths[min(len(lengths) - 1, len(lengths) * 9 // 10)] / _CHARACTERS_A_TOKEN
    return _power(most, shortest, longest)


def _power(value: float, least: int, most: int) -> int:
    """Return the power of two that is not less, within bounds that are such powers."""
    return min(max(1 << math.ceil(math.log2(max(value, 1))), least), most)


def _memory() -> int:
    """Return three quarters of this machine's memory, in whole GiB, from 1 to 64."""
    return min(max(machine_memory() * 3 // 4 >> 30, 1), 64) << 30


class ModelTask(StrEnum):
    """What the shards are for."""

    PRETRAIN = "pretrain"
    CODE = "code"
    CHAT = "chat"
    EMBEDDING = "embedding"
    SEQ2SEQ = "seq2seq"
    CONTINUE = "continue"


@dataclass(frozen=True)
class TaskPlan:
    """What a task needs."""

    said: str
    """In a few words, for who chooses."""
    reason: str
    datasets: tuple[tuple[str, str], ...]
    """Name and objective of each, the objective as TOML."""
    shortest_row: int
    longest_row: int
    needs_tokenizer: bool = False
    best_fit: bool = True


_CLM = '{ kind = "clm" }'
TASKS: Mapping[ModelTask, TaskPlan] = {
    ModelTask.PRETRAIN: TaskPlan(
        "a model that writes",
        "clm (causal language modelling): the model learns each next token, as GPT and Llama did",
        (("clm", _CLM),),
        256,
        2_048,
    ),
    ModelTask.CODE: TaskPlan(
        "a model that writes code, and completes it at the cursor",
        "fim (fill in the middle): half of the documents are written prefix, suffix, middle, so that the"
        " model completes at the cursor; what it learns from left to right hardly suffers",
        (("fim", '{ kind = "fim" }'),),
        512,
        4_096,
    ),
    ModelTask.CHAT: TaskPlan(
        "a model that answers",
        'clm with loss = "targets": the whole dialogue is read, and a loss falls on the answers alone',
        (("chat", '{ kind = "clm", loss = "targets" }'),),
        512,
        4_096,
    ),
    ModelTask.EMBEDDING: TaskPlan(
        "an encoder, for search and classification",
        "mlm (masked tokens) makes an encoder that knows the language; simcse after it places texts that"
        " mean the same close together",
        (("mlm", '{ kind = "mlm" }'), ("simcse", '{ kind = "simcse" }')),
        128,
        512,
    ),
    ModelTask.SEQ2SEQ: TaskPlan(
        "an encoder-decoder, to translate or summarise",
        "span_corruption: the decoder learns to fill the gaps in a text, as T5 did",
        (("t5", '{ kind = "span_corruption" }'),),
        256,
        512,
    ),
    ModelTask.CONTINUE: TaskPlan(
        "a finished model that goes on with new texts",
        "clm, with the tokenizer of that model: other ids would mean nothing to it",
        (("clm", _CLM),),
        512,
        4_096,
        needs_tokenizer=True,
    ),
}
"""By task."""


def likely_task(draft: Draft) -> ModelTask:
    """Return the task that most of the texts suggest."""
    answers = sum(source.text_bytes for source in draft.sources if source.has_answers)
    code = sum(source.text_bytes for source in draft.sources if source.is_code)
    if answers > draft.text_bytes / 2:
        return ModelTask.CHAT
    return ModelTask.CODE if code > draft.text_bytes / 2 else ModelTask.PRETRAIN
