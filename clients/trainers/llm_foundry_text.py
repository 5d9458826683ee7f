"""llm-foundry: the dataloader of its configs of pre-training, over rows of MDS, and a small model."""

from typing import Any

from stubs import stand_in

stand_in("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "mcli")
stand_in("torchvision.datasets", "torchvision.datasets.folder", "torchvision.models")
stand_in("torchvision.models.resnet", "torchvision.ops", "torchvision.utils")

import torch  # noqa: E402  # after what llm-foundry imports
from llmfoundry.data.text_data import build_text_dataloader  # noqa: E402
from streaming.base.util import clean_stale_shared_memory  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM  # noqa: E402
from watched import LEARNING_RATE, Facts, Watch, read_facts, tell  # noqa: E402

FIELDS = ("input_ids", "labels")


def _loader(facts: Facts) -> DataLoader[Any]:
    clean_stale_shared_memory()
    dataset = {
        "local": str(facts.folder),
        "split": "train",
        "shuffle": True,
        "max_seq_len": facts.seq_len,
    }
    loader: DataLoader[Any] = build_text_dataloader(
        tokenizer=AutoTokenizer.from_pretrained(facts.folder / "tokenizer"),
        device_batch_size=facts.batch_size,
        dataset=dataset,
        drop_last=True,
        num_workers=0,
        pin_memory=False,
        prefetch_factor=None,
        persistent_workers=False,
    ).dataloader
    return loader


def _model(facts: Facts) -> LlamaForCausalLM:
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=facts.vocab_size, num_attention_heads=4, **sizes)
    ).train()


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    model = _model(facts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step, batch in enumerate(_loader(facts)):
        epoch.saw(batch)
        if step >= facts.steps:
            continue
        fed.saw(batch)
        loss = model(input_ids=batch["input_ids"], labels=batch["labels"]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tell("rows", losses, fed, epoch)


if __name__ == "__main__":
    main()
