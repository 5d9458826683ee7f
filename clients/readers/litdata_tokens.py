"""LitData: StreamingDataset with TokensLoader, as litgpt reads it."""

import itertools
from collections.abc import Iterator

from answers import Answer, Facts, digest, lengths_by_eos, read_facts, stream_answer, tell
from litdata import StreamingDataset, TokensLoader


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield blocks of a trainer's length, and each chunk as one block."""
    for split in facts.splits:
        folder = str(facts.folder / split)
        blocks = StreamingDataset(folder, item_loader=TokensLoader(facts.seq_len + 1))
        ids = (blocks[number] for number in range(len(blocks)))
        yield Answer(f"{split} windows", len(blocks), None, digest(ids))
        chunks = blocks.cache._reader.config._chunks  # noqa: SLF001  # no public way to the borders
        parts = []
        for number, chunk in enumerate(chunks):
            whole = StreamingDataset(folder, item_loader=TokensLoader(chunk["dim"]))
            parts.append(whole[sum(earlier["dim"] // chunk["dim"] for earlier in chunks[:number])])
        eos = facts.special_ids["eos"]
        lengths = [lengths_by_eos(part, eos) for part in parts]
        assert [*map(len, lengths)] == [chunk["chunk_size"] for chunk in chunks], "documents of a chunk"
        yield stream_answer(split, parts, itertools.chain.from_iterable(lengths))


if __name__ == "__main__":
    tell(answers(read_facts()))
