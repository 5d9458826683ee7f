"""A loader's state in torch.distributed.checkpoint: a whole checkpoint loads in a new loader."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from stages.loading.batches import Batches
from stages.loading.blend import Blend
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.sequence import Sequence
from stages.loading.stage import Stage
from stages.loading.torch_loader import Loader
from stages.loading.torchtitan import TorchtitanLoader
from tests.stages.loading.test_batches import numbered

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of torch, that no process group was made
]
Make = Callable[[ShardDataset], Any]


def in_stages(rows: ShardDataset) -> Loader[Sequence]:
    later = open_dataset(rows.folder.parent, epoch=1)
    return Loader(Sequence([Stage(rows, 3, name="one"), Stage(later, 2, epochs=2, name="two")]))


MAKES: dict[str, Make] = {
    "batches": lambda rows: Loader(Batches(rows, 3)),
    "blend": lambda rows: Loader(Batches(Blend([rows, rows], [2, 1]), 3)),
    "stages": in_stages,
    "torchtitan": lambda rows: TorchtitanLoader(in_stages(rows)),
}


@pytest.mark.parametrize("made", MAKES)
@pytest.mark.parametrize("steps", [0, 1, 3, 4, 9])
def test_a_checkpoint_of_any_step_loads_in_a_new_loader(tmp_path: Path, made: str, steps: int) -> None:
    rows = numbered(tmp_path / "rows", 11)
    first, again = MAKES[made](rows), MAKES[made](rows)
    walk = first._loader.batches if made == "torchtitan" else first.batches  # noqa: SLF001  # to move it
    walk.advance(steps)
    save({"loader": first}, checkpoint_id=tmp_path / "saved")
    load({"loader": again}, checkpoint_id=tmp_path / "saved")
    assert again.state_dict() == first.state_dict()
    assert again.state_dict() != MAKES[made](rows).state_dict() or steps == 0
