"""nanoGPT: its get_batch, stated again, and the whole stream through the same memory map."""

from collections.abc import Iterator

import numpy as np
import torch
from answers import Answer, Facts, lengths_by_eos, read_facts, stream_answer, tell

FILES = {"train": "train.bin", "validation": "val.bin"}
BATCH = 64


def get_batch(data: "np.memmap[tuple[int], np.dtype[np.uint16]]", block_size: int) -> bool:
    """Return whether a batch of random windows has the targets that nanoGPT trains on."""
    ix = torch.randint(len(data) - block_size, (BATCH,))
    x = torch.stack([torch.from_numpy((data[i : i + block_size]).astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy((data[i + 1 : i + 1 + block_size]).astype(np.int64)) for i in ix])
    return bool((x[:, 1:] == y[:, :-1]).all())


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield the stream of each split."""
    for split in facts.splits:
        data = np.memmap(facts.folder / FILES[split], dtype=np.uint16, mode="r")
        assert get_batch(data, facts.seq_len), "targets are not the inputs, one on"
        yield stream_answer(split, [data], lengths_by_eos(data, facts.special_ids["eos"]))


if __name__ == "__main__":
    tell(answers(read_facts()))
