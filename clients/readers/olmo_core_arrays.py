"""OLMo-core: NumpyFSLDataset, and each document as its metadata says."""

import tempfile
from collections.abc import Iterator

from answers import Answer, Facts, digest, read_facts, stream_answer, tell
from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, TokenizerConfig
from olmo_core.data.utils import iter_document_indices, load_array_slice

DTYPES = {2: NumpyDatasetDType.uint16, 4: NumpyDatasetDType.uint32}


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield instances of a trainer's length, and the documents that the metadata cuts out."""
    dtype = DTYPES[facts.id_bytes]
    tokenizer = TokenizerConfig(
        vocab_size=facts.vocab_size,
        eos_token_id=facts.special_ids["eos"],
        pad_token_id=facts.special_ids["pad"],
    )
    for split in facts.splits:
        with tempfile.TemporaryDirectory() as work:
            instances = NumpyFSLDatasetConfig(
                tokenizer=tokenizer,
                paths=[str(facts.folder / split / "*.npy")],
                expand_glob=True,
                dtype=dtype,
                sequence_length=facts.seq_len,
                work_dir=work,
            ).build()
            instances.prepare()
            ids = (instances[number]["input_ids"] for number in range(len(instances)))
            yield Answer(f"{split} windows", len(instances), None, digest(ids))
        documents = [
            load_array_slice(path, start, end, dtype.as_np_dtype())
            for path in map(str, instances.paths)
            for start, end in iter_document_indices(path, use_array_if_local=False)
        ]
        yield stream_answer(split, documents, map(len, documents))


if __name__ == "__main__":
    tell(answers(read_facts()))
