"""megatron-core: the loop that encodes every text by SentencePiece and writes an indexed dataset.

    megatron_write.py '{"texts": ..., "output": ..., "model": ...}'

`texts` is the folder that text-dedup saved: Arrow streams with a column of texts.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
from sentencepiece import SentencePieceProcessor


def read_texts(folder: Path) -> Iterator[str]:
    """Yield the texts that text-dedup kept, in their order."""
    for path in sorted(folder.glob("*.arrow")):
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            for batch in stream:
                yield from batch.column("text").to_pylist()


def main() -> None:
    """Encode and write."""
    facts = json.loads(sys.argv[1])
    output = Path(facts["output"])
    output.mkdir(parents=True)
    processor = SentencePieceProcessor(model_file=facts["model"])
    end = processor.eos_id()
    dtype = DType.optimal_dtype(processor.get_piece_size())
    builder = IndexedDatasetBuilder(str(output / "text.bin"), dtype=dtype)
    for text in read_texts(Path(facts["texts"])):
        ids = [*processor.encode(text), end]
        builder.add_document(ids, [len(ids)])
    builder.finalize(str(output / "text.idx"))


if __name__ == "__main__":
    main()
