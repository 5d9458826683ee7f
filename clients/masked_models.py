"""Every model class of transformers under the masks of `shardmill.model_masks`, as a table.

    python clients/masked_models.py [--only NAME ...] [--json FILE]

Each class of the tables of causal, masked and sequence-to-sequence language models is made small, with
weights drawn at random, at each attention that it has, in float32 and bfloat16. A row of three documents
and padding goes through it. Then:

    leak      how far the logits of a document move when tokens that it may not see change: must be 0
    alone     how far they are from those of the document alone under the model's own mask, of the
              largest logit

A class that cannot be equal is named with the reason, and at the end each class that was not compared
and that `model_masks` does not refuse. Exit code 1 if one leaks or differs without a known reason, or
nothing was compared.
"""

import argparse
import inspect
import itertools
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from small_models import VOCABULARY, first_that_computes, said, whole_model
from torch import Tensor, nn
from transformers.models.auto import modeling_auto

import shardmill
from stages.loading.masks import ENCODER_DECODER

DOCUMENTS = (9, 13, 6)
PADDING = 4
LENGTH = sum(DOCUMENTS) + PADDING
TABLES = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
}
ATTENTIONS = {
    "causal": ("causal_within_document", "prefix_within_document"),
    "masked": ("bidirectional_within_document",),
    "seq2seq": ("encoder_decoder",),
}
BOUNDS = {torch.float32: 1e-4, torch.bfloat16: 0.1}
"""Of the largest logit, what two orders of summation may differ by."""
COARSER = torch.finfo(torch.bfloat16).eps / torch.finfo(torch.float32).eps
"""Times as large as those of float32 are the roundings of bfloat16."""
NO_POSITIONS = "takes no position_ids, so positions are counted through the row"
EXPERTS = "experts take the tokens of all documents together, so other tokens change the rounding"
ROUNDING = 1e-5
"""Of the largest logit, what is no leak but another order of summation."""


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    model: str
    kernel: str = ""
    attention: str = ""
    dtype: str = ""
    leak: float | None = None
    alone: float | None = None
    note: str = ""
    known: str = ""
    """Why the class cannot be equal, if it differs."""
    exact: float = 0.0
    """Of a line of bfloat16, what float32 differs by: models that repeat their layers add to it."""


def batch_of(seed: int) -> dict[str, Tensor]:
    """Return a row of documents and padding, with every column that a mask follows from."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(8, VOCABULARY - 1, (1, LENGTH), generator=generator)
    segments = torch.full((1, LENGTH), -1)
    positions = torch.zeros((1, LENGTH), dtype=torch.long)
    shown = torch.zeros((1, LENGTH), dtype=torch.long)
    for number, (begin, end) in enumerate(spans()):
        segments[0, begin:end] = number
        positions[0, begin:end] = torch.arange(end - begin)
        shown[0, begin : begin + (end - begin) // 2] = 1
    ids[segments < 0] = 0
    return {"input_ids": ids, "segment_ids": segments, "position_ids": positions, "in_prefix": shown}


def spans() -> Iterator[tuple[int, int]]:
    """Yield where each document begins and ends."""
    begin = 0
    for length in DOCUMENTS:
        yield begin, begin + length
        begin += length


def alone(batch: Mapping[str, Tensor], begin: int, end: int) -> dict[str, Tensor]:
    """Return the row of one document alone."""
    row = {name: column[:, begin:end] for name, column in batch.items()}
    return row | {"segment_ids": torch.zeros_like(row["segment_ids"])}


def logits_of(model: nn.Module, batch: Mapping[str, Tensor], attention: str | None) -> Tensor:
    """Return the logits (L, V) of a row under its mask, or under the model's own, in float32."""
    known = inspect.signature(model.forward).parameters
    masks = {} if attention is None else shardmill.model_masks(model, batch, attention)
    arguments: dict[str, Any] = {"input_ids": batch["input_ids"], **masks}
    for name in ("position_ids", "decoder_input_ids"):
        if name in known and name in batch:
            arguments[name] = batch[name]
    if "use_cache" in known:  # FSMT's decoder sees later targets if it may cache
        arguments["use_cache"] = False
    with torch.no_grad():
        found: Tensor = model(**arguments).logits
    return found[0].float()


def compare(model: nn.Module, attention: str, kernel: str, dtype: torch.dtype) -> Line:
    """Return how far logits move with what they may not see, and how far they are from those alone."""
    name = type(model).__name__
    batch = batch_of(1)
    whole = logits_of(model, batch, attention)
    leak, seen, apart = 0.0, 0.0, []
    for begin, end in spans():
        for other in hidden_from(batch, attention, begin, end):
            moved = logits_of(model, other, attention)
            leak = max(leak, (moved - whole)[other["kept"][0]].abs().max().item())
        first = torch.zeros_like(batch["segment_ids"], dtype=torch.bool)
        first[:, begin] = True  # all others of the document see it
        moved = logits_of(model, changed(batch, first, kept=first), attention)
        seen = max(seen, (moved - whole)[begin + 1 : end].abs().max().item())
        own = None if "prefix" not in attention else attention  # models have no mask for a prefix
        found = logits_of(model, alone(batch, begin, end), own)
        apart.append((found - whole[begin:end]).abs().max().item())
    if not seen:
        raise ValueError("its tokens do not see each other on a CPU, so a leak of 0 says nothing")
    largest = whole[batch["segment_ids"][0] >= 0].abs().max().item()
    known = known_reason(model, leak / largest, [one / largest <= BOUNDS[dtype] for one in apart])
    distance = max(apart) / largest
    return Line(name, kernel, attention, str(dtype).split(".")[1], leak, distance, known=known)


def known_reason(model: nn.Module, leak: float, equal: Sequence[bool]) -> str:
    """Return why a class cannot give the logits of documents alone, if that explains what was found.

    Args:
        model: of the class.
        leak: of the largest logit.
        equal: of each document, whether its logits are those of it alone. Positions that are counted
            through the row are right in the first.
    """
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return NO_POSITIONS if leak == 0 and equal[0] else ""
    experts = any("expert" in name for name, _ in model.named_modules())
    return EXPERTS if experts and leak < ROUNDING and all(equal) else ""


def hidden_from(
    batch: Mapping[str, Tensor], attention: str, begin: int, end: int
) -> Iterator[dict[str, Tensor]]:
    """Yield batches with other tokens where a document may not look, and as `kept` where it stands."""
    inside = torch.zeros_like(batch["segment_ids"], dtype=torch.bool)
    inside[:, begin:end] = True
    others = (batch["segment_ids"] >= 0) & ~inside
    yield changed(batch, others, kept=inside)
    if attention == "bidirectional_within_document":
        return
    later = inside.clone()
    later[:, : begin + (end - begin) * 2 // 3] = False
    yield changed(batch, later, kept=inside & ~later)


def changed(batch: Mapping[str, Tensor], where: Tensor, *, kept: Tensor) -> dict[str, Tensor]:
    """Return a batch with other tokens in some places."""
    ids = batch["input_ids"]
    other = torch.where(where, 8 + (ids + 31) % (VOCABULARY - 9), ids)
    return {**batch, "input_ids": other, "kept": kept}


def compare_pairs(model: nn.Module, kernel: str, dtype: torch.dtype) -> Line:
    """Return the same of an encoder with a decoder, whose rows hold a text each and padding."""
    name, attention = type(model).__name__, ENCODER_DECODER
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randint(8, VOCABULARY - 1, (1, LENGTH), generator=generator)
    targets = torch.randint(8, VOCABULARY - 1, (1, 12), generator=generator)
    length = LENGTH - PADDING
    inputs[:, length:] = 0
    row = {"input_ids": inputs, "decoder_input_ids": targets, "input_length": torch.tensor([length])}
    whole = logits_of(model, row, attention)
    padded = row | {"input_ids": torch.where(inputs == 0, 9, inputs)}
    later = row | {"decoder_input_ids": torch.cat([targets[:, :8], targets[:, 8:] % 100 + 9], 1)}
    leak = max(
        (logits_of(model, padded, attention) - whole).abs().max().item(),
        (logits_of(model, later, attention) - whole)[:8].abs().max().item(),
    )
    short = logits_of(model, row | {"input_ids": inputs[:, :length]}, attention)
    distance = (short - whole).abs().max().item() / whole.abs().max().item()
    return Line(name, kernel, attention, str(dtype).split(".")[1], leak, distance)


def lines_of(task: str, model_type: str, name: str) -> Iterator[Line]:
    """Yield the lines of a class: each attention that it has, each dtype, each kind of rows."""
    if task != "seq2seq" and "ConditionalGeneration" in name:
        yield Line(name, note="an encoder with a decoder, or with pictures or sounds")
        return
    for kernel in ("eager", "sdpa"):
        model, note = first_that_computes(
            task, model_type, name, kernel, batch_of(1)["input_ids"][:, :5]
        )
        if model is None:
            yield Line(name, kernel, note=note)
            continue
        exact = dict.fromkeys(ATTENTIONS[task], 0.0)
        for dtype, attention in itertools.product(BOUNDS, ATTENTIONS[task]):
            try:
                if task == "seq2seq":
                    line = compare_pairs(model.to(dtype), kernel, dtype)
                else:
                    line = compare(model.to(dtype), attention, kernel, dtype)
                yield replace(line, exact=exact[attention])
                exact[attention] = line.alone or 0.0
            except Exception as error:  # noqa: BLE001  # whatever a class of others raises is told
                yield Line(name, kernel, attention, str(dtype).split(".")[1], note=said(error))


def is_refused(task: str, model_type: str, name: str) -> bool:
    """Say whether `model_masks` refuses a class as its type is, which needs no weights."""
    try:
        model = whole_model(model_type, name)
        shardmill.model_masks(model, batch_of(1), ATTENTIONS[task][0])
    except Exception:  # noqa: BLE001  # a class that cannot be made gets no mask either
        return True
    return False


def fault(line: Line) -> str | None:
    """Return what is wrong with a line; None if nothing is."""
    if line.leak is None or line.alone is None:
        return None
    if line.leak and line.dtype == "float32":
        return "leaks"
    bound = max(BOUNDS[getattr(torch, line.dtype)], line.exact * COARSER)
    return None if line.alone <= bound else "differs from the document alone"


def classes(only: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the task, the model type and the name of each class."""
    for task, table in TABLES.items():
        for model_type, name in getattr(modeling_auto, table).items():
            for one in [name] if isinstance(name, str) else name:
                if not only or one in only:
                    yield task, model_type, one


def main() -> int:
    """Compare all classes, print the table, and give the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", default=[], help="names of classes")
    parser.add_argument("--json", type=Path, help="a file for all lines")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    lines, wrong = [], 0
    for task, model_type, name in classes(arguments.only):
        for line in lines_of(task, model_type, name):
            lines.append(line)
            found = fault(line)
            wrong += found is not None and not line.known
            figures = "" if line.leak is None else f"leak {line.leak:.1e}  alone {line.alone:.1e}"
            verdict = f"WRONG: {found}" if found and not line.known else found or ""
            print(
                f"{line.model:42} {line.kernel:6} {line.attention:30} {line.dtype:9} {figures}"
                f" {verdict} {line.known if found else ''} {line.note}",
                flush=True,
            )
    compared = [line for line in lines if line.leak is not None]
    print(
        f"{len({line.model for line in lines})} classes, {len({line.model for line in compared})}"
        f" compared, {len(compared)} comparisons, {wrong} wrong"
    )
    unseen = {line.model for line in lines} - {line.model for line in compared}
    accepted = {
        name: None
        for task, model_type, name in classes(arguments.only)
        if name in unseen and not is_refused(task, model_type, name)
    }
    print(f"not compared and not refused, {len(accepted)}: {', '.join(accepted)}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
