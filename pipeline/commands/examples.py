"""Examples under the help of each command, as they can be typed."""

EXAMPLES = {
    "init": (
        "shardmill init corpus",
        "shardmill init mails chats --task chat --output chat.toml",
        "shardmill init repository --task code --yes",
    ),
    "plan": (
        "shardmill plan run.toml --output out",
        "shardmill plan run.toml --output out --sample 1%",
    ),
    "run": (
        "shardmill run run.toml --output out",
        "shardmill run run.toml --output trial --limit 1000",
        "shardmill run run.toml --output out --workers 0 --until dedup",
        "shardmill run run.toml --output out --set packing.seq_len=1024 --replace",
    ),
    "status": ("shardmill status out", "shardmill status out --json"),
    "verify": ("shardmill verify out", "shardmill verify out --full --workers 0"),
    "inspect": (
        "shardmill inspect out --dataset clm --row 3",
        "shardmill inspect out --clusters",
        "shardmill inspect out --document a17",
    ),
    "export": (
        "shardmill export out --dataset clm --format megatron --to out-megatron",
        "shardmill export out --dataset clm --format hf --to out-hf --split train",
        "shardmill export out --dataset clm --format mds --columns tokens --to out-mds",
        "shardmill export out --format text-parquet --to out-texts",
    ),
    "quick": (
        "shardmill quick 'texts/*.jsonl' --tokenizer tokenizer.json --format megatron --to tokens",
    ),
    "compare": (
        "shardmill compare out --tokens 500000 --seeds 2",
        "shardmill compare out --dataset clm --from model --evaluate old=earlier/datasets/clm",
    ),
    "schema": ("shardmill schema > run-file.schema.json",),
    "tokenizer compare": ("shardmill tokenizer compare out other=other/tokenizer.json",),
    "tokenizer sweep": (
        "shardmill tokenizer sweep run.toml --sizes 16000,32000 --alphas 0.3,1.0 --save sweep",
    ),
    "tokenizer verify": ("shardmill tokenizer verify tokenizer.json --text texts.jsonl",),
    "tokenizer extend": (
        "shardmill tokenizer extend old.model --text new-texts --pieces 2000 --output new.model",
    ),
    "tokenizer resize": (
        "shardmill tokenizer resize checkpoint --old old.model --new new.model --output resized",
    ),
    "tokenizer export": ("shardmill tokenizer export out tokenizer-folder",),
}
"""By command, behind `shardmill`. Each is parsed in a test."""


def examples_of(command: str) -> str:
    """Return what stands under the help of a command: its examples, a line each."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
