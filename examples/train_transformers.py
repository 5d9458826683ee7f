"""Train a small GPT-2, BERT or T5 with the Trainer of transformers, and read what it writes.

    pip install transformers accelerate
    shardmill run examples/words.toml --output words
    python examples/train_transformers.py words/datasets/clm

The kind of the dataset chooses the model:

    clm               GPT-2   goes on with a text
    fim               GPT-2   fills the middle of a text
    mlm               BERT    fills masks (ModernBERT)
    span_corruption   T5      fills gaps

Each trains for one or two minutes on two cores. Then it fills or continues texts of the validation
split, which it has not seen. Nothing is downloaded. The Trainer takes a `Loader` as it is.
"""

import argparse
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

import shardmill
from shardmill import Batch, Batches, Loader, ShardDataset, collate, next_labels

WIDTH, LAYERS, HEADS = 128, 2, 4
NEW_TOKENS = 32
STEPS = {"clm": 1500, "fim": 1500, "mlm": 2200, "span_corruption": 750}
"""One or two minutes of each kind on two cores."""
BATCH_ROWS = {"clm": 4, "fim": 4, "mlm": 4, "span_corruption": 8}
RATES = {"clm": 1.5e-3, "fim": 1.5e-3, "mlm": 1.5e-3, "span_corruption": 2e-3}
"""Learning rates at their highest."""
SHOWN = 3
"""Texts of the validation split that are filled or continued."""
PROMPT = 24
"""Tokens of a text that the model continues."""
INITIAL = 0.06
"""Deviation of the first weights. With the usual 0.02, models of this width learn far more slowly."""


class Columns:
    """What a model's forward takes of a batch; a class, so that workers may be spawned."""

    def __init__(self, kind: str, attention: str) -> None:
        self._kind = kind
        self._attention = attention

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Return tensors by the names of forward's arguments."""
        columns = collate(batch, self._attention, dtype=torch.float32)  # that of the models below
        taken = {name: columns[name] for name in ("input_ids", "labels")}
        if self._kind == "span_corruption":
            width = np.arange(batch["input_ids"].shape[1])
            shown = width < batch["input_length"][:, None]
            taken["attention_mask"] = torch.from_numpy(shown.astype(np.int64))
            return taken  # type: ignore[return-value]
        taken["position_ids"] = columns["position_ids"]
        taken["attention_mask"] = columns["attention_mask"]
        if self._kind != "mlm":  # the end of a document is not held to the beginning of the next
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
            initializer_range=INITIAL,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=ids["eos"],
            eos_token_id=ids["eos"],
            pad_token_id=ids["pad"],
        )
    )


def make_bert(rows: ShardDataset) -> PreTrainedModel:
    """Return a ModernBERT without weights."""
    ids = rows.manifest.special_ids
    return ModernBertForMaskedLM(
        ModernBertConfig(
            vocab_size=rows.manifest.vocab_size,
            max_position_embeddings=rows.manifest.seq_len,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=2 * WIDTH,
            global_attn_every_n_layers=1,
            initializer_range=INITIAL,
            pad_token_id=rows.pad,
            bos_token_id=ids["bos"],
            eos_token_id=ids["eos"],
            cls_token_id=ids["cls"],
            sep_token_id=ids["sep"],
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
            dropout_rate=0.0,
            pad_token_id=rows.pad,
            eos_token_id=rows.manifest.special_ids["eos"],
            decoder_start_token_id=rows.pad,
        )
    )


def generated(model: PreTrainedModel, prompt: Tensor, **options: Any) -> list[int]:
    """Return the ids that a model continues a prompt with, or that its decoder writes."""
    ids = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=NEW_TOKENS,
        repetition_penalty=1.2,
        **options,
    )[0]
    return ids[1 if model.config.is_encoder_decoder else prompt.shape[1] :].tolist()  # type: ignore[no-any-return]


class Reader:
    """What a trained model makes of rows that it has not seen, in words."""

    def __init__(self, model: PreTrainedModel, rows: ShardDataset, tokenizer: Any) -> None:
        self._model = model.eval()
        self._special = rows.manifest.special_ids
        self._sentinels = {
            number: f"<{name.removeprefix('sentinel_')}>"
            for name, number in self._special.items()
            if name.startswith("sentinel_")
        }
        self._tokenizer = tokenizer

    def words(self, ids: list[int]) -> str:
        """Return ids as text; special ids are left out, and those that name gaps are numbers."""
        parts, run = [], list[int]()
        for number in ids:
            if number in self._sentinels:
                parts += [self._decoded(run), self._sentinels[number]]
                run = []
            else:
                run.append(number)
        return " ".join(part for part in [*parts, self._decoded(run)] if part)

    def _decoded(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return " ".join(text.split())

    def clm(self, row: dict[str, Tensor]) -> Iterator[str]:
        """Continue the beginning of a row."""
        ids = row["input_ids"][:PROMPT]
        written = generated(self._model, ids[None], do_sample=True, top_k=20)
        yield f"prompt     {self.words(ids.tolist())}"
        yield f"goes on    {self.words(written)}"

    def fim(self, row: dict[str, Tensor]) -> Iterator[str]:
        """Fill the middle of the first document in the row that has one."""
        ids = row["input_ids"].tolist()
        first, last, middle = (self._special[f"fim_{part}"] for part in ("prefix", "suffix", "middle"))
        if middle not in ids[:-NEW_TOKENS]:
            return
        at = ids.index(middle)
        begin = max(n for n in range(at) if ids[n] == first)
        end = next((n for n in range(at, len(ids)) if ids[n] == self._special["eos"]), len(ids))
        between = ids.index(last, begin)
        written = generated(self._model, row["input_ids"][None, begin : at + 1], do_sample=False)
        yield f"before     {self.words(ids[begin:between])[-80:]}"
        yield f"after      {self.words(ids[between:at])[:80]}"
        yield f"filled     {self.words(written)}"
        yield f"in truth   {self.words(ids[at:end])[:120]}"

    def mlm(self, row: dict[str, Tensor]) -> Iterator[str]:
        """Fill the masks of a row."""
        ids, labels = row["input_ids"], row["labels"]
        masked = ids == self._special["mask"]
        found = self._model(ids[None]).logits[0].argmax(-1)
        answers, truth = found[masked], labels[masked]
        yield f"filled     {self._marked(torch.where(masked, found, ids).tolist(), masked.tolist())}"
        yield f"in truth   {self._marked(torch.where(masked, labels, ids).tolist(), masked.tolist())}"
        right, different = int((answers == truth).sum()), len(set(answers.tolist()))
        yield f"{right} of {len(truth)} masks are right; {different} different answers"

    def _marked(self, ids: list[int], marked: list[bool]) -> str:
        """Return ids as text, with brackets around those that are marked."""
        text, parts = "", []
        for end, mark in enumerate(marked, 1):
            longer = self._tokenizer.decode(ids[:end], skip_special_tokens=True)
            added, text = longer[len(text) :], longer
            space = " " if added.startswith(" ") else ""
            parts.append(f"{space}[{added.strip()}]" if mark else added)
        return " ".join("".join(parts).split())

    def span_corruption(self, row: dict[str, Tensor]) -> Iterator[str]:
        """Fill the gaps of a row; <N> names a gap."""
        ids, labels = row["input_ids"][: int(row["input_length"])], row["labels"]
        written = generated(self._model, ids[None], do_sample=False, num_beams=4)
        yield f"text       {self.words(ids.tolist())}"
        yield f"filled     {self.words(written)}"
        yield f"in truth   {self.words(labels[labels >= 0].tolist())}"


def show(model: PreTrainedModel, dataset: str, tokenizer: Any) -> None:
    """Print what the model makes of rows of the validation split."""
    rows = shardmill.open_dataset(dataset, split="validation")
    reader = Reader(model, rows, tokenizer)
    read = getattr(reader, rows.objective.kind)
    texts = (list(read(tensors(rows[number]))) for number in range(len(rows)))
    for lines in itertools.islice(filter(None, texts), SHOWN):
        print("", *lines, sep="\n")


def tensors(row: Batch) -> dict[str, Tensor]:
    """Return the columns of a row as tensors."""
    return {name: torch.as_tensor(column) for name, column in row.items()}


MODELS: dict[str, Callable[[ShardDataset], PreTrainedModel]] = {
    "clm": make_gpt2,
    "fim": make_gpt2,
    "mlm": make_bert,
    "span_corruption": make_t5,
}


def main() -> None:
    """Train, and print the loss and what the model writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="a clm, fim, mlm or span_corruption dataset: DIR/datasets/NAME")
    parser.add_argument("--steps", type=int, help=f"steps to train [default: {STEPS}]")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rows = shardmill.open_dataset(arguments.dataset)
    kind = rows.objective.kind
    steps = STEPS[kind] if arguments.steps is None else arguments.steps
    run = Path(arguments.dataset).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        shardmill.export_tokenizer(run, f"{folder}/tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(f"{folder}/tokenizer")
        settings = TrainingArguments(
            folder,
            max_steps=steps,
            learning_rate=RATES[kind],
            adam_beta2=0.98,
            lr_scheduler_type="cosine",
            warmup_steps=min(100, steps // 10),
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
        )
        walk = Batches(
            rows, BATCH_ROWS[kind], rank=settings.process_index, world_size=settings.world_size
        )  # under torchrun; the Trainer would give each process the same rows
        loader = Loader(walk, collate=Columns(kind, rows.manifest.attention))
        model = MODELS[kind](rows)
        result = ShardTrainer(loader, model, settings).train()
    print(f"{kind}: loss {result.training_loss:.4f} on average over {steps} steps")
    show(model, arguments.dataset, tokenizer)


if __name__ == "__main__":
    main()
