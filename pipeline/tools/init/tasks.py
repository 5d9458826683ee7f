"""Tasks: what a model is to be for, and the objective that suits it, with the reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipeline.tools.init.draft import Draft


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
