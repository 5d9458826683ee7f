"""Replaced token detection with a model: what shows at selected positions is drawn from its logits.

    tokens        The  quick  brown  fox  jumps  </s>
    selected       .     #      .     #     .      .
    it sees       The  <mask> brown <mask> jumps </s>
    input_ids     The   cat   brown  fox  jumps  </s>      (drawn: cat, fox)

The model is any callable that takes what it sees, (N, L) int64, which of it is text, (N, L) bool, and
the selected (rows, positions), (S,) int64 each, and gives logits (S, V) of any float dtype. Special ids
are never drawn. Positions are selected as in `electra.config`; at a selected position t

    sees      tag 6, block t, u64[0], below T(mask_share): the mask, else the token
    drawn     tag 6, block t, u64[1] = r: the first id whose cumulative probability passes r / 2**64 of
              the sum of all, in IEEE doubles, ids ascending

so that with the same logits the same ids are drawn, in whatever batches. Whether logits are the same
on another machine is the model's affair. If the callable has a `version`, the manifest of the epochs
holds it, and epochs of which shards were drawn by several are refused.

Source: Clark et al. 2020, "ELECTRA", section 2, arXiv 2003.10555; in its public code 85 % of the
selected positions show the mask.
"""

import importlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, DataError
from stages.objectives.electra.config import ReplacedTokens
from stages.objectives.mlm.config import MaskTag, Positions, draw_blocks, select_positions
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import threshold

Generate = Callable[[NDArray[np.int64], NDArray[np.bool_], Positions], NDArray[np.floating]]
"""Returns the logits of selected positions."""
_AT_ONCE = 1 << 24
"""Logits, about, that the model gives at a time."""
_SAMPLED = 1 << 22
"""Probabilities held at a time."""


DECLARED = "SHARDMILL_GENERATORS"
"""The list of names by which a module says which of its functions make generators."""


def load_generator(name: str, vocabulary: Vocabulary) -> Generate:
    """Return the model that "package.module:function" makes for a vocabulary.

    Raises:
        ConfigError: there is no such module or function, or the module does not declare that it makes a
            generator; then it is not called.
    """
    module, _, function = name.partition(":")
    try:
        home = importlib.import_module(module)
        declared = getattr(home, DECLARED, ())
        if isinstance(declared, str) or function not in declared:
            raise ConfigError(f"objective.model = {name!r}: {undeclared(name)}")
        make = getattr(home, function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"objective.model = {name!r}: {error}; it must be importable wherever a worker runs, so"
            " install it beside shardmill"
        ) from error
    generate: Generate = make(vocabulary)
    return generate


def undeclared(name: str) -> str:
    """Return why a function is not called, and how its module declares it."""
    module, _, function = name.partition(":")
    return (
        f"{module} does not declare that {function} makes a generator; if it does, write"
        f' {DECLARED} = ["{function}"] in that module'
    )


def version_of(generate: Generate | None) -> str:
    """Return what a model calls itself; nothing if it does not say, or if there is none."""
    return str(getattr(generate, "version", ""))


def replace_by_model(
    rows: StoredRows, config: ReplacedTokens, vocabulary: Vocabulary, *, generate: Generate
) -> Columns:
    """Return the columns of `stages.objectives.electra.config.replace_tokens`."""
    logits = len(vocabulary.is_special) * rows.input_ids.shape[1] * config.mask_probability
    step = max(1, int(_AT_ONCE / logits))
    parts = [
        _replace(
            rows.take(np.arange(begin, min(begin + step, len(rows.numbers)))),
            config,
            vocabulary,
            generate,
        )
        for begin in range(0, max(1, len(rows.numbers)), step)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _replace(
    rows: StoredRows, config: ReplacedTokens, vocabulary: Vocabulary, generate: Generate
) -> Columns:
    row, position = select_positions(rows, config, vocabulary)
    selected = np.zeros(rows.input_ids.shape, np.bool_)
    selected[row, position] = True
    draws = draw_blocks(rows, MaskTag.REPLACEMENT, row, position)
    seen = rows.input_ids.astype(np.int64)
    shows = np.array([draw < threshold(config.mask_share) for draw in draws[:, 0].tolist()], np.bool_)
    seen[row[shows], position[shows]] = vocabulary.named("mask")
    input_ids = rows.input_ids.copy()
    if len(row):
        logits = _asked(generate(seen, rows.covered, (row, position)), len(row), config, vocabulary)
        input_ids[row, position] = _sample(logits, draws[:, 1], vocabulary, config.temperature)
    replaced = (input_ids != rows.input_ids).astype(np.int32)
    return {
        "input_ids": input_ids,
        "labels": np.where(rows.covered, replaced, np.int32(IGNORED)),
        "original_ids": rows.input_ids.copy(),
        "selected": selected,
    }


def _asked(
    logits: NDArray[np.floating], count: int, config: ReplacedTokens, vocabulary: Vocabulary
) -> NDArray[np.floating]:
    """Return logits as they are if they are what was asked for."""
    if logits.shape != (count, vocabulary.size) or not np.isfinite(logits).all():
        raise DataError(
            f"objective.model = {config.model!r}: gave logits of shape {logits.shape}; needed are finite"
            f" ones of shape {(count, vocabulary.size)}"
        )
    return logits


def _sample(
    logits: NDArray[np.floating],
    draws: NDArray[np.uint64],
    vocabulary: Vocabulary,
    temperature: float,
) -> NDArray[np.int64]:
    """Return an ordinary id for each row of logits: (S,)."""
    found = np.empty(len(logits), np.int64)
    step = max(1, _SAMPLED // max(1, vocabulary.size))
    for begin in range(0, len(logits), step):
        part = slice(begin, begin + step)
        scaled = logits[part][:, vocabulary.ordinary].astype(np.float64) / temperature
        sums = np.cumsum(np.exp(scaled - scaled.max(axis=1, keepdims=True)), axis=1)
        places = draws[part].astype(np.float64) * 2.0**-64 * sums[:, -1]
        chosen = np.count_nonzero(sums <= places[:, None], axis=1)
        found[part] = vocabulary.ordinary[np.minimum(chosen, len(vocabulary.ordinary) - 1)]
    return found
