"""MosaicML Streaming: StreamingDataset over MDS, and its own writer's bytes of the same rows."""

import sys
import tempfile
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
from answers import Answer, Facts, column_answers, read_facts, tell
from numpy.typing import ArrayLike

for name in ("torchvision", "torchvision.datasets", "torchvision.transforms"):
    # imported for its vision datasets; PyPI's wheel of it asks for another build of torch
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__spec__ = ModuleSpec(name, None)  # transformers looks for one
sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
sys.modules["torchvision.datasets.folder"] = types.ModuleType("torchvision.datasets.folder")
sys.modules["torchvision.datasets.folder"].default_loader = None  # type: ignore[attr-defined]
sys.modules["torchvision.transforms"].functional = None  # type: ignore[attr-defined]
sys.modules["torchvision.transforms.functional"] = types.ModuleType("functional")
sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]

from streaming import MDSWriter, StreamingDataset  # noqa: E402  # after what it imports
from streaming.base.util import clean_stale_shared_memory  # noqa: E402


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield every column of each split."""
    for split in facts.splits:
        clean_stale_shared_memory()
        folder = facts.folder / split
        rows = StreamingDataset(local=str(folder), batch_size=1, shuffle=False)
        samples = [rows[number] for number in range(len(rows))]
        shard = rows.shards[0]
        encodings = dict(zip(shard.column_names, shard.column_encodings, strict=True))

        def read(name: str, samples: list[dict[str, ArrayLike]] = samples) -> Iterator[ArrayLike]:
            return (sample[name] for sample in samples)

        yield from column_answers(split, len(rows), encodings, read)
        first = (folder / shard.raw_data.basename).read_bytes()
        with tempfile.TemporaryDirectory() as temporary:
            with MDSWriter(columns=encodings, out=temporary) as writer:
                for sample in samples[: shard.samples]:
                    writer.write({name: np.asarray(value)[()] for name, value in sample.items()})
            same = (Path(temporary) / "shard.00000.mds").read_bytes() == first
        assert same, f"{split}: MDSWriter makes other bytes of the same rows"


if __name__ == "__main__":
    tell(answers(read_facts()))
