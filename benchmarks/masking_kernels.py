"""Masked language modelling against the collator of transformers, one core, 64 rows of 1,024 tokens.

    pip install transformers torch numba xxhash pydantic     in an environment of its own, or nothing
    PYTHONPATH=. python benchmarks/masking_kernels.py [--selection exact] [--json masking.json]

The peer is `DataCollatorForLanguageModeling` on rows of numpy, its tensors of numpy and of torch, and
the masking alone within it, on a batch that is stacked already with its special tokens found already.
Without transformers there is no peer, and no ratio to one. Ours allocates what it gives, at each call,
and its draws depend on nothing but seed, epoch, shard, row and position. One limit makes the draws that
it needs at the least, another copies the ids and fills the labels.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from contests import Contest, Way, hold, markdown
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.scratch import draw_blocks, draw_leading, kernel_rows
from stages.objectives.mlm import config as plain
from stages.objectives.mlm import kernel as compiled
from stages.objectives.mlm.config import MaskedLM, Selection
from stages.objectives.rows import IGNORED, Columns, StoredRows, single_segments
from stages.objectives.vocabulary import vocabulary_of

if TYPE_CHECKING:
    from contest_material import Material  # imports what an environment with transformers may lack

ROWS, LENGTH, VOCABULARY, SPECIAL = 64, 1024, 32_000, 269
NAMED = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "cls": 4, "sep": 5, "mask": 6}
MEGA = 1e6


def transformers_tokenizer(size: int) -> Any:
    """Return a tokenizer of transformers with so many words and no file."""
    from tokenizers import Tokenizer, models  # noqa: PLC0415  # there may be none
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415  # likewise

    words = [f"<{name}>" for name in NAMED] + [f"w{number}" for number in range(len(NAMED), size)]
    table = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.WordLevel(table, unk_token="<unk>"))  # noqa: S106  # no password
    return PreTrainedTokenizerFast(
        tokenizer_object=made, **{f"{name}_token": f"<{name}>" for name in NAMED}
    )


def peers(ids: NDArray[np.integer], amount: float) -> Iterator[Way]:
    """Yield the ways of transformers, if it is there."""
    if find_spec("transformers") is None or find_spec("torch") is None:
        print("transformers or torch is not installed: no peer, no ratio", file=sys.stderr)
        return
    import torch  # noqa: PLC0415  # there may be none
    from transformers import DataCollatorForLanguageModeling  # noqa: PLC0415  # likewise

    torch.set_num_threads(1)
    tokenizer = transformers_tokenizer(VOCABULARY)
    wide = ids.astype(np.int64)
    rows, special = [{"input_ids": row} for row in wide], np.zeros(wide.shape, np.int64)
    for form in ("np", "pt"):
        collator = DataCollatorForLanguageModeling(tokenizer, return_tensors=form)
        yield Way(f"transformers' collator, {form}", partial(collator, rows), amount)
    tensor, none = torch.tensor(wide), torch.tensor(special)
    numpy_, torch_ = collator.numpy_mask_tokens, collator.torch_mask_tokens
    alone: dict[str, Callable[[], object]] = {
        "np": lambda: numpy_(wide.copy(), special_tokens_mask=special),
        "pt": lambda: torch_(tensor.clone(), special_tokens_mask=none),
    }
    for form, call in alone.items():
        yield Way(f"its masking alone, {form}", call, amount)


@kernel
def _draws_alone(
    words: NDArray[np.uint64],
    filled: NDArray[np.int64],
    draws: NDArray[np.uint64],
    room: tuple[NDArray[np.int64], NDArray[np.uint64]],
) -> None:
    """Make the leading bits of all positions, and a block for each that shows a random id: 1.5 %."""
    numbers, out = room
    for row in range(len(filled)):
        draw_leading(words[0], numbers[row : row + 1], filled[row : row + 1], draws)
    draw_blocks(words[2], numbers, numbers, len(numbers) - 8, out, out)


def masking(_: "Material | None", selection: Selection = Selection.BERNOULLI) -> Contest:
    """Stored rows to inputs and labels."""
    generator = np.random.default_rng(1)
    ids = generator.integers(SPECIAL, VOCABULARY, (ROWS, LENGTH)).astype(np.uint16)
    ptr, lengths = single_segments(np.full(ROWS, LENGTH))
    rows = StoredRows(ids, ptr, lengths, np.arange(ROWS), seed=7, epoch=0, shard=0)
    special = NAMED | {f"special_{number}": number for number in range(len(NAMED), SPECIAL)}
    starts = generator.random(VOCABULARY) < 2 / 3
    vocabulary = vocabulary_of(VOCABULARY, special, starts)
    config, amount = MaskedLM(selection=selection), ids.size / MEGA
    words, draws = kernel_rows(rows).stream_keys, np.empty((1, LENGTH // 4), np.uint64)
    room = np.arange(int(0.015 * ids.size) + 8), np.empty(int(0.015 * ids.size) + 8, np.uint64)

    def ours() -> Columns:
        return compiled.mask_tokens(rows, config, vocabulary)

    expected = plain.mask_tokens(rows, config, vocabulary)
    assert all(np.array_equal(column, expected[name]) for name, column in ours().items())
    limits = [
        Way("limit: its draws alone", lambda: _draws_alone(words, lengths, draws, room), amount),
        Way(
            "limit: ids copied, labels filled",
            lambda: (ids.copy(), np.full(ids.shape, IGNORED, np.int32)),
            amount,
        ),
    ]
    without = Way("ours without numba", lambda: plain.mask_tokens(rows, config, vocabulary), amount)
    return Contest(
        f"masks, {selection}",
        "million tokens",
        Way("ours", ours, amount),
        [*peers(ids, amount), without, *(limits if selection is Selection.BERNOULLI else limits[1:])],
    )


def main() -> int:
    """Hold the contest and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--selection", choices=list(Selection), default=Selection.BERNOULLI)
    parser.add_argument("--repeats", type=int, default=9, metavar="N", help="turns of each [default: 9]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    rows = hold(masking(None, Selection(arguments.selection)), repeats=arguments.repeats)
    print(markdown(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
