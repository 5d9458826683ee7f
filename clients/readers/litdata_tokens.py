"""LitData: StreamingDataset with TokensLoader, as litgpt reads it."""

from collections.abc import Iterator

from answers import Answer, Facts, digest, read_facts, tell
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
        documents = sum(chunk["chunk_size"] for chunk in chunks)
        yield Answer(f"{split} stream", None, documents, digest(parts))


if __name__ == "__main__":
    tell(answers(read_facts()))
