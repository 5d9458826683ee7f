"""An extended tokenizer in a small model: what resizing costs at step 0, and what training makes of it.

    resized_model.py --old old.model --new extended.model --old-text en.jsonl --old-text code.jsonl \
        --new-text ko.jsonl --new-text th.jsonl --work DIR --json resized.json

A Llama of transformers is trained on the old texts with the old tokenizer. It is resized by each method
with `shardmill tokenizer resize`, and trained on the new texts. Beside it, the same model is trained on
the new texts with the old tokenizer ("unresized"). Each step has the same number of tokens. Every tenth
text is held out; losses are in nats a character of these. Medians are over --seeds, which order the
batches and draw the rows; the first training is the same for all, and stays in DIR.

Files have a text a line, as JSON with "text". Needs transformers.
"""

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from pipeline.commands.step_zero import StepZero
from pipeline.commands.tokenizer_resize import ResizeRequest, model_file, resize_checkpoint
from stages.resize.row_method import RowMethod
from stages.tokenizer.new_ids import ModelFile, open_model, roles_of

UNRESIZED = "unresized"
Record = dict[str, Any]


class Tokens:
    """Texts as rows of ids, each behind a BOS.

    Args:
        file: the tokenizer.
        texts: to encode.
        length: of a row.
    """

    def __init__(self, file: ModelFile, texts: Sequence[str], *, length: int) -> None:
        tokenizer, roles = open_model(file), roles_of(file)
        begin = roles.get("bos", roles.get("eos", 0))
        parts = [[begin, *ids.tolist()] for ids in tokenizer.encode_by_library(texts)]
        whole = np.array([one for part in parts for one in part], np.int64)
        self.rows = whole[: len(whole) // length * length].reshape(-1, length)

    def batch(self, step: int, size: int, *, seed: int) -> NDArray[np.int64]:
        """Return the rows of a step."""
        return self.rows[np.random.default_rng((seed, step)).integers(0, len(self.rows), size)]


def train(model: Any, tokens: Tokens, options: argparse.Namespace, *, steps: int, seed: int) -> None:
    """Train a model for some steps; the learning rate rises for a twentieth of them, then falls."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.95))
    model.train()
    for step in range(steps):
        rise = min(1.0, (step + 1) / max(1, steps // 20))
        for group in optimizer.param_groups:
            group["lr"] = options.rate * rise * (1 - 0.9 * step / steps)
        batch = torch.from_numpy(tokens.batch(step, options.rows, seed=seed)).to(options.device)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def split_texts(paths: Sequence[Path], most: int) -> tuple[list[str], list[str]]:
    """Return the texts to train on, of at most so many characters a file, and those held out."""
    kept: list[str] = []
    held: list[str] = []
    for path in paths:
        size = 0
        for number, line in enumerate(path.read_bytes().splitlines()):
            text = json.loads(line)["text"]
            (held if number % 10 == 0 else kept).append(text)
            size += len(text)
            if size > most:
                break
    return kept, held


def losses(model: Any, folder: Path, tokenizer: ModelFile, held: dict[str, list[str]]) -> Record:
    """Return the loss a character of a model for held-out texts."""
    model.save_pretrained(folder)
    measure = StepZero(folder, folder, old=tokenizer, new=tokenizer)
    found = {name: measure.loss(name, texts).loss for name, texts in held.items()}
    shutil.rmtree(folder)
    return found


def pretrained(options: argparse.Namespace, old: ModelFile, texts: Sequence[str]) -> Path:
    """Return the folder of the model that was trained on the old texts."""
    folder: Path = options.work / "pretrained"
    if not folder.exists():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=open_model(old).size,
            hidden_size=options.width,
            intermediate_size=3 * options.width,
            num_hidden_layers=options.layers,
            num_attention_heads=options.width // 32,
            max_position_embeddings=2048,
            tie_word_embeddings=options.tied,
        )
        model = LlamaForCausalLM(config).to(options.device)
        tokens = Tokens(old, texts, length=options.length)
        train(model, tokens, options, steps=options.pretrain_steps, seed=0)
        model.save_pretrained(folder)
    return folder


def trial(options: argparse.Namespace, files: tuple[Path, Path], method: str, *, seed: int) -> Record:
    """Return the losses of one way, before and after training on the new texts."""
    before, after = options.work / "pretrained", options.work / "resized"
    shutil.rmtree(after, ignore_errors=True)
    old, new = (model_file(path, "MODEL") for path in files)
    found: Record = {"method": method, "seed": seed}
    held = {"old": options.old_texts[1], "new": options.new_texts[1]}
    if method == UNRESIZED:
        shutil.copytree(before, after)
        new = old
    else:
        resize_checkpoint(ResizeRequest(before, *files, after, RowMethod(method), seed=seed))
    measure = StepZero(before, after, old=old, new=new)
    for name, texts in held.items():
        zero = measure.loss(name, texts)
        found[f"{name} before"], found[f"{name} same ids"] = zero.loss, zero.same_ids_loss
        found[f"{name} step 0"] = zero.new_loss
        found[f"{name} logits differ"] = zero.largest_difference
        found[f"{name} tokens"], found[f"{name} new tokens"] = zero.tokens, zero.new_tokens
    model = LlamaForCausalLM.from_pretrained(after).to(options.device)
    tokens = Tokens(new, options.new_texts[0], length=options.length)
    started = time.perf_counter()
    train(model, tokens, options, steps=options.steps, seed=seed)
    found["seconds"] = round(time.perf_counter() - started, 1)
    after_training = losses(model, options.work / "trained", new, held)
    return found | {f"{name} step {options.steps}": loss for name, loss in after_training.items()}


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--old", "--new", "--work"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--old-text", "--new-text"):
        parser.add_argument(name, type=Path, required=True, action="append")
    parser.add_argument("--methods", nargs="+", default=[UNRESIZED, *(one.value for one in RowMethod)])
    numbers = {"pretrain-steps": 1000, "steps": 500, "seeds": 3, "width": 128, "layers": 2}
    numbers |= {"rows": 8, "length": 128, "threads": 1, "most": 2_000_000}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    options.old_texts = split_texts(options.old_text, options.most)
    options.new_texts = split_texts(options.new_text, options.most)
    pretrained(options, model_file(options.old, "--old"), options.old_texts[0])
    trials = []
    for method in options.methods:
        for seed in range(options.seeds):
            trials.append(trial(options, (options.old, options.new), method, seed=seed))
            print(json.dumps(trials[-1]), flush=True)
        own = [one for one in trials if one["method"] == method]
        medians = {key: median(one[key] for one in own) for key in own[0] if key != "method"}
        print(method, json.dumps(medians), flush=True)
    if options.json:
        options.json.write_text(json.dumps(trials, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
