"""TRL: SFTTrainer over exported rows as they are, or over the dataset itself as an IterableDataset."""

from datasets import Dataset, IterableDataset
from hugging_face import arguments, make_model, make_tokenizer, open_rows, train
from trl import SFTConfig, SFTTrainer
from watched import Facts, read_facts, tell

import shardmill

NATIVE = "native"
FIELDS = ("input_ids", "labels")


def _open(facts: Facts) -> Dataset | IterableDataset:
    if facts.format != NATIVE:
        return open_rows(facts)
    return shardmill.to_iterable_dataset(shardmill.open_dataset(facts.folder, split="train"))


def main() -> None:
    """Train on one export, or on the dataset."""
    facts = read_facts()
    trainer = SFTTrainer(
        model=make_model(facts),
        args=SFTConfig(max_length=facts.seq_len, bf16=False, **arguments(facts)),
        train_dataset=_open(facts),
        processing_class=make_tokenizer(facts),
    )
    tell("rows", *train(trainer, FIELDS))


if __name__ == "__main__":
    main()
