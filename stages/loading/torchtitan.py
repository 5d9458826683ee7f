"""Batches as torchtitan takes them: inputs with positions, and labels that are shifted already.

    input      3  7  E  8  9  E  .
    positions  0  1  2  0  1  2  0       from 0 in each document: its block-causal mask follows from them
    labels     7  E  .  9  E  .  .       the next token of the same document; . is -100

Source: torchtitan 0.3, `components/dataloader.py` and the text dataloader's contract of
`({"input": ..., "positions": ...}, labels)`.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from stages.errors import ConfigError
from stages.loading.batches import Batches
from stages.loading.losses import next_labels
from stages.loading.resumable import BatchesState
from stages.loading.sequence import Sequence
from stages.loading.torch_loader import Loader, Tensors
from stages.objectives.rows import IGNORED

TitanBatch = tuple[dict[str, Tensor], Tensor]
"""What one step takes: {"input": (N, L), "positions": (N, L)} and labels (N, L), all int64."""
_NEEDED = ("input_ids", "labels", "position_ids", "segment_ids")


class TorchtitanLoader:
    """An endless iterable of batches for torchtitan's trainer, with the exact state of a `Loader`.

    After the last batch of an epoch come those of the next one. Around `validation_loader` an iteration
    gives every row once, and ends. The dataset's labels are its inputs, and its documents do not see
    each other; one of `clm` is such a dataset. Give each data-parallel rank batches of its own,
    `Batches(rows, n, rank=dp_rank, world_size=dp_degree)`.

    >>> loader = TorchtitanLoader(Loader(Batches(rows, 8, rank=dp_rank, world_size=dp_degree)))
    >>> inputs, labels = next(iter(loader))

    Args:
        loader: of the rank's batches, without a collate function.
    """

    def __init__(self, loader: Loader[Batches] | Loader[Sequence]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[TitanBatch]:
        """Yield batches without end, from where the state stands; those of a Sequence to its end.

        Around a `Loader` that restarts, yield those of one epoch.

        Raises:
            ConfigError: the dataset is not of that kind, or the stages of a Sequence are over.
        """
        while True:
            for batch in self._loader:
                yield titan_batch(batch)
            if self._loader.restarts:
                return

    def close(self) -> None:
        """End the workers of the loader."""
        self._loader.close()

    def state_dict(self) -> BatchesState:
        """Return the state, from which a loader of any number of ranks continues, as plain JSON."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go to the position of a state; an empty one, as torchtitan gives first, changes nothing."""
        if state:
            self._loader.load_state_dict(state)


def titan_batch(batch: Tensors) -> TitanBatch:
    """Return a batch as torchtitan takes it.

    Args:
        batch: columns of a dataset such as one of `clm`, each (N, L).

    Raises:
        ConfigError: a column is not there.
    """
    absent = [name for name in _NEEDED if name not in batch]
    if absent:
        raise ConfigError(
            f"torchtitan: the dataset has no {absent[0]}; it takes rows with a label for each"
            " input, whose documents do not see each other, such as those of clm"
        )
    following = next_labels(batch["labels"], batch["segment_ids"])
    labels = torch.nn.functional.pad(following, (0, 1), value=IGNORED)
    return {"input": batch["input_ids"], "positions": batch["position_ids"]}, labels
