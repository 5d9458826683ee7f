"""Special ids: one fixed set in every model, so that any objective can be made from any run.

All are SentencePiece *control* symbols: no text can produce them (user-defined symbols could), and
they are inserted by number alone. They are counted in `vocab_size`. A run may add control symbols of
its own, which follow and are named by their ids: reserved_269 and so on.
"""

from collections.abc import Sequence

NUM_SENTINELS = 256
"""Sentinels of span corruption; T5 uses up to 100 or 128, UL2's X(3, .5) at 1,024 tokens 256."""

UNK, BOS, EOS, PAD = "<unk>", "<s>", "</s>", "<pad>"

_NAMED = (
    "<cls>",
    "<sep>",
    "<mask>",
    "<fim_prefix>",
    "<fim_middle>",
    "<fim_suffix>",
    "<mode_r>",
    "<mode_x>",
    "<mode_s>",
)
FIRST_CONTROL = 4
"""Id of the first control symbol after unk, bos, eos and pad, which are 0, 1, 2 and 3."""


def control_symbols() -> list[str]:
    """Return the control symbols in order of id, from `FIRST_CONTROL` on; sentinels in order of use."""
    return [*_NAMED, *(f"<sentinel_{number}>" for number in range(NUM_SENTINELS))]


def special_ids(further: int = 0) -> dict[str, int]:
    """Return every reserved id by name.

    -> {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "cls": 4, ..., "sentinel_255": 268}

    Args:
        further: control symbols of the run's own, which follow: {..., "reserved_269": 269}.
    """
    names = ["unk", "bos", "eos", "pad", *(symbol.strip("<>") for symbol in control_symbols())]
    ids = {name: number for number, name in enumerate(names)}
    return ids | {f"reserved_{number}": number for number in range(len(ids), len(ids) + further)}


def special_pieces(further: Sequence[str] = ()) -> dict[int, str]:
    """Return how models that a run trains write every reserved id: {0: "<unk>", 1: "<s>", ...}.

    Args:
        further: control symbols of the run's own.
    """
    return dict(enumerate((UNK, BOS, EOS, PAD, *control_symbols(), *further)))


def num_reserved() -> int:
    """Return the number of ids that no text uses in any model: the special ones."""
    return FIRST_CONTROL + len(_NAMED) + NUM_SENTINELS
