"""Masks against the collator of transformers, by chi-square over 40,000 rows of 200 tokens.

    pip install transformers torch numba xxhash pydantic scipy      in an environment of its own
    PYTHONPATH=. python benchmarks/oracles/mlm_transformers.py [--rows 40000]

Compared are, of `DataCollatorForLanguageModeling`: which positions of each tenth of a row are selected,
how many of a whole row, what selected positions show (the mask, their own id, another), and which tenth
of the ordinary ids the random ones are. Then a fault of that code is shown: its random ids are any of
the vocabulary, special ones included; ours are ordinary. Everything is seeded: two runs print the same.
"""

import argparse
import sys

import numpy as np
import torch
from chi_square import Report
from numpy.typing import NDArray
from tokenizers import Tokenizer, models
from transformers import (  # of an environment of its own
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
)

from stages.objectives.mlm.config import MaskedLM
from stages.objectives.mlm.kernel import mask_tokens
from stages.objectives.rows import IGNORED, StoredRows, single_segments
from stages.objectives.vocabulary import vocabulary_of

NAMED = ("unk", "bos", "eos", "pad", "cls", "sep", "mask")
SPECIAL = {name: number for number, name in enumerate(NAMED)}
SIZE, LENGTH, BATCH = 1_007, 200, 500
OTHER = 2
Masked = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Input ids and labels, (N, L) each."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a thousand words and no file."""
    words = [f"<{name}>" for name in NAMED] + [f"w{number}" for number in range(len(NAMED), SIZE)]
    table = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.WordLevel(table, unk_token="<unk>"))  # noqa: S106  # no password
    return PreTrainedTokenizerFast(
        tokenizer_object=made, **{f"{name}_token": f"<{name}>" for name in NAMED}
    )


def theirs(ids: NDArray[np.int64]) -> Masked:
    """Mask rows with the collator, some at a time."""
    torch.manual_seed(7)
    collator = DataCollatorForLanguageModeling(tokenizer(), mlm_probability=0.15)
    parts = [
        collator([{"input_ids": row} for row in ids[begin : begin + BATCH]])
        for begin in range(0, len(ids), BATCH)
    ]
    return (
        np.concatenate([part["input_ids"].numpy() for part in parts]),
        np.concatenate([part["labels"].numpy() for part in parts]),
    )


def ours(ids: NDArray[np.int64]) -> Masked:
    """Mask rows with the compiled function."""
    ptr, lengths = single_segments(np.full(len(ids), LENGTH))
    rows = StoredRows(ids.astype(np.uint16), ptr, lengths, np.arange(len(ids)), seed=7, epoch=0, shard=0)
    columns = mask_tokens(rows, MaskedLM(), vocabulary_of(SIZE, SPECIAL))
    return columns["input_ids"].astype(np.int64), columns["labels"].astype(np.int64)


def compare(report: Report, ids: NDArray[np.int64], their: Masked, our: Masked) -> None:
    """Compare the laws of selection and of what is shown."""
    able = ids >= len(SPECIAL)
    chosen = [labels != IGNORED for _, labels in (their, our)]
    for number, part in enumerate(np.array_split(np.arange(LENGTH), 10), 1):
        inside = able[:, part]
        found = [each[:, part][inside].astype(np.int64) for each in chosen]
        report.compare(f"selected in tenth {number} of a row", *found)
    report.compare("selected of a whole row", *(each.sum(axis=1) for each in chosen))
    selected = [
        (inputs[labels != IGNORED], labels[labels != IGNORED]) for inputs, labels in (their, our)
    ]
    kinds = [
        np.where(shown == SPECIAL["mask"], 0, np.where(shown == own, 1, OTHER))
        for shown, own in selected
    ]
    report.compare("mask, own, other", *kinds)
    randoms = [shown[kind == OTHER] for (shown, _), kind in zip(selected, kinds, strict=True)]
    ordinary = [each[each >= len(SPECIAL)] for each in randoms]
    report.compare("random ordinary ids", *((each - len(SPECIAL)) // 100 for each in ordinary))
    expected = len(randoms[0]) * (len(SPECIAL) - 1) / SIZE
    special = [int((each < len(SPECIAL)).sum()) for each in randoms]
    report.say(
        "transformers draws special ids at random",
        f"{special[0]:,} of n = {len(randoms[0]):,}, expected {expected:,.0f}",
        holds=special[0] > 0,
    )
    report.say("ours draws none", f"{special[1]:,} of n = {len(randoms[1]):,}", holds=special[1] == 0)


def main() -> int:
    """Print every comparison; fail if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=40_000, metavar="N", help="of 200 tokens [default: 40000]"
    )
    rows = parser.parse_args().rows
    ids = np.random.default_rng(1).integers(len(SPECIAL), SIZE, (rows, LENGTH))
    ids[:, 0], ids[:, -1] = SPECIAL["cls"], SPECIAL["sep"]
    report = Report()
    their, our = theirs(ids), ours(ids)
    for name, (_, labels) in (("transformers", their), ("ours", our)):
        found = int((labels != IGNORED)[ids < len(SPECIAL)].sum())
        report.say(f"{name} selects no special id", f"{found:,}", holds=found == 0)
    compare(report, ids, their, our)
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
