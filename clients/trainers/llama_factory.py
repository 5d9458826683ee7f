"""LLaMA-Factory: its `get_dataset` of a `tokenized_path`, and its Trainer of pre-training."""

from stubs import stand_in

stand_in("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "torchaudio")

from hugging_face import arguments, make_model, make_tokenizer, train  # noqa: E402  # after its imports
from llamafactory.data import get_dataset  # noqa: E402
from llamafactory.hparams import DataArguments, FinetuningArguments, TrainingArguments  # noqa: E402
from llamafactory.train.pt.trainer import CustomTrainer  # noqa: E402
from transformers import DataCollatorForLanguageModeling  # noqa: E402
from watched import read_facts, tell  # noqa: E402


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    tokenizer = make_tokenizer(facts)
    options = TrainingArguments(**arguments(facts))
    data = get_dataset(
        None,
        None,
        DataArguments(tokenized_path=str(facts.folder)),
        options,
        stage="pt",
        tokenizer=tokenizer,
    )
    trainer = CustomTrainer(
        finetuning_args=FinetuningArguments(stage="pt", finetuning_type="full"),
        processor=None,
        model=make_model(facts),
        args=options,
        data_collator=DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False),
        tokenizer=tokenizer,
        **data,
    )
    tell("rows", *train(trainer, ("input_ids", "labels")))


if __name__ == "__main__":
    main()
