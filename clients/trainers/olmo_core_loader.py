"""OLMo-core: NumpyFSLDataset, its data loader, and a small model of its own."""

from collections.abc import Iterator

from olmo_core.data import (
    NumpyDataLoaderConfig,
    NumpyDatasetDType,
    NumpyFSLDatasetConfig,
    TokenizerConfig,
)
from olmo_core.data.data_loader import DataLoaderBase
from olmo_core.data.utils import get_labels
from olmo_core.nn.transformer import TransformerConfig
from torch import Tensor
from watched import Facts, Watch, read_facts, tell, train

DTYPES = {2: NumpyDatasetDType.uint16, 4: NumpyDatasetDType.uint32}
FIELDS = ("input_ids",)


def _loader(facts: Facts) -> DataLoaderBase:
    dataset = NumpyFSLDatasetConfig(
        tokenizer=TokenizerConfig(
            vocab_size=facts.vocab_size,
            eos_token_id=facts.special_ids["eos"],
            pad_token_id=facts.special_ids["pad"],
        ),
        paths=[str(facts.folder / "train" / "*.npy")],
        expand_glob=True,
        dtype=DTYPES[facts.id_bytes],
        sequence_length=facts.seq_len,
        work_dir=facts.scratch,
    ).build()
    tokens = facts.batch_size * facts.seq_len
    config = NumpyDataLoaderConfig(global_batch_size=tokens, seed=1, work_dir=facts.scratch)
    return config.build(dataset)


def _batches(loader: DataLoaderBase) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of an epoch, with the labels that OLMo-core's train module makes of them."""
    loader.reshuffle(epoch=1)
    for batch in loader:
        yield batch["input_ids"], get_labels(batch)
    loader.reset()


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    model = TransformerConfig.llama_like(
        vocab_size=facts.vocab_size, d_model=64, n_layers=2, n_heads=4
    ).build(init_device="cpu")
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    losses = train(model, _batches(_loader(facts)), fed, facts)
    for ids, _ in _batches(_loader(facts)):
        epoch.saw({"input_ids": ids})
    tell("windows of a file", losses, fed, epoch)


if __name__ == "__main__":
    main()
