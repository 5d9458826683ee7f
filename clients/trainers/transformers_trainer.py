"""transformers: Trainer over exported rows, with the collator of their READ.md."""

from hugging_face import arguments, make_model, open_rows, read_collate, train
from transformers import Trainer, TrainingArguments
from watched import read_facts, tell

FIELDS = {
    "clm": ("input_ids", "labels without first"),
    "span_corruption": ("input_ids", "attention_mask", "decoder_input_ids", "labels"),
    "mlm": ("input_ids", "labels"),
}


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    collate = read_collate(facts)
    trainer = Trainer(
        model=make_model(facts),
        args=TrainingArguments(remove_unused_columns=False, **arguments(facts)),
        train_dataset=open_rows(facts).with_format("numpy"),
        data_collator=collate,
    )
    tell("rows", *train(trainer, FIELDS[facts.objective]))


if __name__ == "__main__":
    main()
