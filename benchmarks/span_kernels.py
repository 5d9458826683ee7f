"""Span corruption against published functions that do the same, one core, 64 rows of 1,024 tokens.

    python benchmarks/span_kernels.py [--flax-script run_t5_mlm_flax.py] [--json spans.json]

The peer is the numpy code that is copied most: a noise mask for each row, sentinel ids, a filter, for
inputs and for targets. It is read from the files of the package text-denoising, which is not imported
(`pip install --no-deps text-denoising`), and from the script `run_t5_mlm_flax.py` of transformers'
examples, wherever that lies. Ours gives more: padding, lengths, the decoder's shifted inputs, and draws
that depend on nothing but seed, epoch, shard and row.
"""

import argparse
import ast
import json
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from contest_material import MEGA, Material
from contests import Contest, Way, hold, markdown
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import fill_draws, stream_key_of
from stages.objectives.rows import Columns, StoredRows, single_segments
from stages.objectives.span_corruption import config as plain
from stages.objectives.span_corruption import kernel as compiled
from stages.objectives.span_corruption.config import (
    SpanCorruption,
    SpanTag,
    corrupted_lengths,
    noise_spans,
)
from stages.objectives.vocabulary import vocabulary_of

ROWS, LENGTH, VOCABULARY, SENTINELS = 64, 1024, 32_000, 100
CONFIG = SpanCorruption()
IDS = {"unk": 0, "bos": 1, "eos": 2, "pad": 3}
NAMES = ("random_spans_noise_mask", "create_sentinel_ids", "filter_input_ids")
Ids = NDArray[np.int32]


class _Tokenizer:
    """What the published functions ask of a tokenizer."""

    eos_token_id = IDS["eos"]
    vocab_size = VOCABULARY

    def __len__(self) -> int:
        """Return the ids there are, sentinels included."""
        return VOCABULARY + SENTINELS


def published(paths: Iterable[Path]) -> dict[str, Callable[..., Any]]:
    """Return the functions of these names that stand anywhere in some files, without importing those."""
    found: dict[str, Any] = {"np": np}
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in NAMES
        ]
        module = ast.Module(body=list(functions), type_ignores=[])
        exec(compile(module, str(path), "exec"), found)  # noqa: S102  # the user's own copy of the peer
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise SystemExit(f"{', '.join(map(str, paths))}: no function {', '.join(missing)}")
    return found


def corrupt_as_published(functions: dict[str, Callable[..., Any]], ids: Ids) -> tuple[Ids, Ids]:
    """Return inputs and targets of rows by the published functions, as their collators call them."""
    made = SimpleNamespace(
        tokenizer=_Tokenizer(),
        noise_density=CONFIG.noise_density,
        mean_noise_span_length=CONFIG.mean_noise_span_length,
    )
    mask, sentinel_ids, keep = (functions[name] for name in NAMES)
    if mask.__code__.co_varnames[0] == "self":
        masks = np.asarray([mask(made, LENGTH) for _ in range(len(ids))])
    else:
        share = made.mean_noise_span_length, made.noise_density
        masks = np.asarray([mask(LENGTH, *share) for _ in range(len(ids))])
    hidden = sentinel_ids(made, masks.astype(np.int8))
    shown = sentinel_ids(made, (~masks).astype(np.int8))
    return keep(made, ids, hidden), keep(made, ids, shown)


def installed() -> list[Path]:
    """Return the files of the package text-denoising, if it is there."""
    spec = find_spec("text_denoising")
    if spec is None or not spec.submodule_search_locations:
        return []
    return [Path(spec.submodule_search_locations[0]) / name for name in ("utils.py", "collate_fn.py")]


@kernel
def _draws_alone(
    noise: NDArray[np.uint64], text: NDArray[np.uint64], rows: int, draws: NDArray[np.uint64]
) -> None:
    """Make the draws of some rows, and nothing of them."""
    for row in range(rows):
        fill_draws(noise, row, draws)
        fill_draws(text, row, draws)


def spans(_: Material | None, scripts: Iterable[Path] = ()) -> Contest:
    """Bodies to inputs and targets."""
    generator = np.random.default_rng(1)
    ids = generator.integers(300, VOCABULARY, (ROWS, LENGTH)).astype(np.uint16)
    ptr, lengths = single_segments(np.full(ROWS, LENGTH))
    rows = StoredRows(ids, ptr, lengths, np.arange(ROWS), seed=7, epoch=0, shard=0)
    sentinels = {f"sentinel_{number}": VOCABULARY + number for number in range(SENTINELS)}
    vocabulary = vocabulary_of(VOCABULARY + SENTINELS, {**IDS, **sentinels})
    widths = plain.span_lengths(CONFIG, int(corrupted_lengths(np.array([LENGTH]), CONFIG)[0][0]))
    words = stream_key_of(rows, SpanTag.NOISE_CUTS), stream_key_of(rows, SpanTag.TEXT_CUTS)
    draws = np.empty(int(noise_spans(np.array([LENGTH]), CONFIG)[1][0]) // 2 * 2, np.uint64)
    amount = ids.size / MEGA

    def ours() -> Columns:
        return compiled.corrupt_spans(rows, CONFIG, vocabulary, widths)

    def others() -> Iterable[Way]:
        sources = [("text-denoising's functions", installed())]
        sources += [(f"functions of {path.name}", [path]) for path in scripts]
        for name, paths in sources:
            if paths:
                functions = published(paths)
                check(functions, ids, ours())
                call = lambda made=functions: corrupt_as_published(made, wide)  # noqa: E731  # bound now
                yield Way(name, call, amount)

    wide = ids.astype(np.int32)
    return Contest(
        "span corruption",
        "million tokens",
        Way("ours", ours, amount),
        [
            *others(),
            Way(
                "ours without numba",
                lambda: plain.corrupt_spans(rows, CONFIG, vocabulary, widths),
                amount,
            ),
            Way("limit: its draws alone", lambda: _draws_alone(*words, ROWS, draws), amount),
            Way("limit: numpy.copyto of the bodies", lambda: np.copyto(wide, ids), amount),
        ],
    )


def check(functions: dict[str, Callable[..., Any]], ids: NDArray[np.uint16], ours: Columns) -> None:
    """Make sure that both do the same work: as many tokens of inputs and of targets in every row."""
    found = corrupt_as_published(functions, ids.astype(np.int32))
    for theirs, length in zip(found, ("input_length", "label_length"), strict=True):
        tokens = np.count_nonzero(theirs > IDS["pad"], axis=1)
        assert np.array_equal(tokens, ours[length] - 1), length


def main() -> int:
    """Hold the contest and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--flax-script", type=Path, metavar="PATH", help="a copy of run_t5_mlm_flax.py")
    parser.add_argument("--repeats", type=int, default=9, metavar="N", help="turns of each [default: 9]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    scripts = [arguments.flax_script] if arguments.flax_script else []
    if not (scripts or installed()):
        parser.error("no peer: pip install --no-deps text-denoising, or name a --flax-script")
    rows = hold(spans(None, scripts), repeats=arguments.repeats)
    print(markdown(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
