"""Words: what the names of steps, reasons and gates mean, for people who have read nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.state.commits import SCAN
from pipeline.steps.earlier_runs import BY_KEY, URL
from pipeline.steps.table import STEPS
from stages.reading.reader import StreamReader
from stages.reading.table import READERS

STEP_SAID: Mapping[str, str] = {SCAN: "list files"} | {step.name: step.said for step in STEPS}
"""By step, without the dataset."""
GONE_SAID: Mapping[str, str] = {
    "bad_json": "not JSON",
    "bad_record": "not a record of its format",
    "bad_body": "a body that cannot be decoded",
    "bad_utf8": "not UTF-8",
    "too_large": "over ingest.max_document_bytes",
    "missing_text": "without a text",
    "bad_charset": "in a charset that no browser reads",
    "bad_dialogue": "not a dialogue",
    "template_refuses": "refused by the chat template",
    "empty": "with no character but white space",
    "too_short": "under ingest.min_chars",
    "exact": "identical to a kept document",
    URL: "of the same URL as a kept document",
    "minhash": "nearly the same as a kept document",
    "containment": "contained in a kept document",
    "semantic": "of the same meaning as a kept document",
    "contaminated": "holds an item of an evaluation set",
    "emptied": "nothing left after cutting",
    "held_out": "not shown to the tokenizer, to measure it on",
    "cut": "tokens in no row",
    "mix": "not drawn by the mix",
    **{
        reason: said
        for reader in READERS
        if isinstance(reader, StreamReader)
        for reason, said in reader.drops
    },
}
"""By reason; a filter's reason is said by its own name, a key's by the name of its column."""


@dataclass(frozen=True)
class GateWords:
    """What a gate of the learning check asks, and why."""

    title: str
    why: str


GATES: Mapping[str, GateWords] = {
    "gain": GateWords(
        "The model learned",
        "On rows it has not seen, its loss is below what the frequencies of tokens alone give, in nats."
        " If the labels had nothing to do with the inputs, there would be nothing to learn.",
    ),
    "gain_over_control": GateWords(
        "It learned from the labels",
        "A second model was trained on the same rows with shuffled labels. The bound is what that one"
        " gained, times verify.min_gain_ratio; it is 0 if that one gained nothing.",
    ),
    "leak_floor": GateWords(
        "The inputs do not show the answers",
        "A loss that is too low would mean that a label can be read off its own inputs, as when labels"
        " are off by one. The bound is verify.leak_floor times the unigram entropy of the labels.",
    ),
    "order_ablation": GateWords(
        "The order of tokens matters",
        "With the tokens of each document shuffled, the loss must rise: rows hold texts, not bags"
        " of words.",
    ),
    "finite_share": GateWords(
        "Every loss is a number", "The share of training steps whose loss is finite."
    ),
    "isolation": GateWords(
        "No document sees its neighbour",
        "One document in a row was changed. The model's outputs for the document beside it may not move"
        " at all, because attention ends where a document ends.",
    ),
    "isolation_shown": GateWords(
        "That check can notice a leak",
        "Without the bounds of documents, the same change must move the outputs: the check before this"
        " one would have seen a leak.",
    ),
    "resume": GateWords(
        "Stopping and going on changes nothing",
        "Training with a stop half-way was compared with training without: the largest difference of any"
        " loss.",
    ),
    "twin": GateWords(
        "The labels are those that the tokens give",
        "A third model learned labels that were put together anew from the stored tokens: the difference"
        " of the losses.",
    ),
}
"""By gate."""


def said_of_step(name: str) -> str:
    """Return what a step does: "shard-clm" -> "pack into rows: clm"."""
    step, _, dataset = name.partition("-")
    said = STEP_SAID.get(step, step)
    return f"{said}: {dataset}" if dataset else said


def said_of_reason(reason: str) -> str:
    """Return why documents are gone: "minhash" -> "nearly the same as a kept document"."""
    if reason.startswith(BY_KEY):
        return f"of the same {reason.removeprefix(BY_KEY)} as a kept document"
    return GONE_SAID.get(reason, f"filter {reason}")
