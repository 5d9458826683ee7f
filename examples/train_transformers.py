"""Train a small GPT-2, BERT or T5 from its config with transformers' Trainer, and look at what it gives.

    pip install transformers accelerate
    python examples/train_transformers.py DIR/datasets/clm --steps 20

The kind of the dataset chooses the model: clm and fim train GPT-2, which then generates or, of fim,
fills a middle; mlm trains BERT, which fills its masks; span_corruption trains T5, which fills its gaps.
Nothing is downloaded. The Trainer takes a `Loader` as it is.
"""

import argparse
import tempfile
from collections.abc import Callable

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

import shardmill
from shardmill import Batch, Batches, Loader, ShardDataset, collate, next_labels

BATCH_ROWS, WIDTH, LAYERS, HEADS = 4, 64, 2, 4
NEW_TOKENS = 8
BERT_ADDS_HEADS = transformers.__version__.startswith("4.")
"""Its masks are (rows, from, to) there, and (rows, 1, from, to) since transformers 5."""


class Columns:
    """What a model's forward takes of a batch; a class, so that workers may be spawned."""

    def __init__(self, kind: str, attention: str) -> None:
        self._kind = kind
        self._attention = attention

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Return tensors by the names of forward's arguments."""
        columns = collate(batch, self._attention)
        taken = {name: columns[name] for name in ("input_ids", "labels")}
        if self._kind == "span_corruption":
            width = np.arange(batch["input_ids"].shape[1])
            shown = width < batch["input_length"][:, None]
            taken["attention_mask"] = torch.from_numpy(shown.astype(np.int64))
            return taken  # type: ignore[return-value]
        taken["position_ids"] = columns["position_ids"]
        taken["attention_mask"] = columns["attention_mask"]
        if self._kind == "mlm":
            if BERT_ADDS_HEADS:
                taken["attention_mask"] = taken["attention_mask"][:, 0]  # type: ignore[index]
        else:  # the end of a document is not held to the beginning of the next
            following = next_labels(columns["labels"], columns["segment_ids"])  # type: ignore[arg-type]
            taken["labels"] = torch.cat([following.new_full((len(following), 1), -100), following], 1)
        return taken  # type: ignore[return-value]


class ShardTrainer(Trainer):  # type: ignore[misc]  # transformers has few types
    """A Trainer that reads its batches from a Loader."""

    def __init__(self, loader: Loader, model: PreTrainedModel, arguments: TrainingArguments) -> None:
        super().__init__(model=model, args=arguments)
        self._loader = loader

    def get_train_dataloader(self) -> Loader:
        """Return the loader; the Trainer moves its tensors to the device."""
        return self._loader


def make_gpt2(rows: ShardDataset) -> PreTrainedModel:
    """Return a GPT-2 without weights."""
    ids = rows.manifest.special_ids
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=rows.manifest.vocab_size,
            n_positions=rows.manifest.seq_len + NEW_TOKENS,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            bos_token_id=ids["eos"],
            eos_token_id=ids["eos"],
            pad_token_id=ids["pad"],
        )
    )


def make_bert(rows: ShardDataset) -> PreTrainedModel:
    """Return a BERT without weights."""
    return BertForMaskedLM(
        BertConfig(
            vocab_size=rows.manifest.vocab_size,
            max_position_embeddings=rows.manifest.seq_len,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            pad_token_id=rows.pad,
        )
    )


def make_t5(rows: ShardDataset) -> PreTrainedModel:
    """Return a T5 without weights; its decoder begins with padding."""
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=rows.manifest.vocab_size,
            d_model=WIDTH,
            d_kv=WIDTH // HEADS,
            d_ff=4 * WIDTH,
            num_layers=LAYERS,
            num_heads=HEADS,
            pad_token_id=rows.pad,
            eos_token_id=rows.manifest.special_ids["eos"],
            decoder_start_token_id=rows.pad,
        )
    )


def generated(model: PreTrainedModel, prompt: Tensor) -> list[int]:
    """Return the ids that a model goes on with, or that its decoder gives."""
    ids = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS, do_sample=False
    )[0]
    return ids[0 if model.config.is_encoder_decoder else prompt.shape[1] :].tolist()  # type: ignore[no-any-return]


def look(model: PreTrainedModel, rows: ShardDataset) -> str:
    """Return what the model makes of a row: what follows, what was masked, what stood in the gaps."""
    model.eval()
    row = {name: torch.as_tensor(column)[None] for name, column in rows[0].items()}
    ids, special = row["input_ids"], rows.manifest.special_ids
    match rows.objective.kind:
        case "mlm":
            masked = ids[0] == special["mask"]
            return f"masks filled with {model(ids).logits[0, masked].argmax(-1).tolist()}"
        case "span_corruption":
            return f"gaps filled with {generated(model, ids[:, : int(row['input_length'])])}"
        case "fim":
            marks = [torch.tensor([special[f"fim_{part}"]]) for part in ("prefix", "suffix", "middle")]
            prompt = torch.cat([marks[0], ids[0, :8], marks[1], ids[0, 16:24], marks[2]])[None]
            return f"middle filled with {generated(model, prompt)}"
        case _:
            return f"generated {generated(model, ids[:, :8])}"


MODELS: dict[str, Callable[[ShardDataset], PreTrainedModel]] = {
    "clm": make_gpt2,
    "fim": make_gpt2,
    "mlm": make_bert,
    "span_corruption": make_t5,
}


def main() -> None:
    """Train, and print the loss and what the model gives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="a clm, fim, mlm or span_corruption dataset: DIR/datasets/NAME")
    parser.add_argument("--steps", type=int, default=20, help="steps to train")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rows = shardmill.open_dataset(arguments.dataset)
    kind = rows.objective.kind
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            max_steps=arguments.steps,
            learning_rate=3e-3,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
        )
        walk = Batches(
            rows, BATCH_ROWS, rank=settings.process_index, world_size=settings.world_size
        )  # under torchrun; the Trainer would give each process the same rows
        loader = Loader(walk, collate=Columns(kind, rows.manifest.attention))
        model = MODELS[kind](rows)
        result = ShardTrainer(loader, model, settings).train()
    print(f"{kind}: loss {result.training_loss:.4f}, {loader.state_dict()['position']} rows")
    print(look(model, rows))


if __name__ == "__main__":
    main()
