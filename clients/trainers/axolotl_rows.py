"""axolotl: its config, its loader of tokenised datasets, and the trainer that it builds."""

import json
import os
from pathlib import Path

from stubs import stand_in

stand_in("wandb")
os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"

from axolotl.cli.config import load_cfg  # noqa: E402  # after the switch that it reads
from axolotl.common.datasets import load_datasets  # noqa: E402
from axolotl.train import setup_model_and_trainer  # noqa: E402
from hugging_face import make_model, make_tokenizer, train  # noqa: E402
from watched import LEARNING_RATE, Facts, read_facts, tell  # noqa: E402


def _write_config(facts: Facts) -> Path:
    """Write what a user of axolotl has: a model, and a config that names the export."""
    scratch = Path(facts.scratch)
    model = make_model(facts)
    model.save_pretrained(scratch / "model")
    make_tokenizer(facts).save_pretrained(scratch / "model")
    config = {
        "base_model": str(scratch / "model"),
        "datasets": [{"path": str(facts.folder), "type": "completion"}],
        "test_datasets": [{"path": str(facts.folder), "type": "completion", "split": "validation"}],
        "dataset_prepared_path": str(scratch / "prepared"),
        "output_dir": str(scratch / "output"),
        "sequence_len": facts.seq_len,
        "micro_batch_size": facts.batch_size,
        "gradient_accumulation_steps": 1,
        "max_steps": facts.steps,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler": "constant",
        "optimizer": "adamw_torch",
        "logging_steps": 1,
        "save_strategy": "no",
        "eval_strategy": "no",
        "dataloader_num_workers": 0,
        "dataset_num_proc": 1,
        "bf16": False,
        "attn_implementation": "eager",
        "use_tensorboard": False,
    }
    path = scratch / "axolotl.yml"
    path.write_text(json.dumps(config))
    return path


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    config = load_cfg(str(_write_config(facts)))
    trainer, *_ = setup_model_and_trainer(config, load_datasets(cfg=config))
    tell("rows", *train(trainer, ("input_ids", "attention_mask", "labels")))


if __name__ == "__main__":
    main()
