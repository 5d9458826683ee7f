"""The clients whose own code reads our exports, and the trainers that train on them: what is installed.

`clients/run.py` makes an environment for each, on top of its own: torch, numpy and pyarrow are shared,
everything else is the client's. Some clients are installed without their dependencies: those ask for
versions of torch or Python that they do not need to read a file, or for much that has nothing to do
with it; what they do import is named.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Client:
    """A program that reads a format."""

    name: str
    """Its package, whose version is reported; empty for code that is in no package."""
    reader: str
    """The script in `clients/readers` that lets it read."""
    formats: tuple[str, ...]
    """What it reads, as `shardmill export --format` calls it."""
    alone: tuple[str, ...] = ()
    """What is installed without dependencies."""
    requirements: tuple[str, ...] = ()
    """What is installed with them."""


CLIENTS = (
    Client("", "nanogpt", ("nanogpt",)),
    Client(
        "megatron-core",
        "megatron_datasets",
        ("megatron", "megatron-sentences"),
        alone=("megatron-core==0.16.1",),
        requirements=("packaging",),
    ),
    Client(
        "ai2-olmo-core",
        "olmo_core_arrays",
        ("olmo-core",),
        requirements=("ai2-olmo-core==3.0.0",),
    ),
    Client("datatrove", "datatrove_folder", ("datatrove",), requirements=("datatrove==0.10.1",)),
    Client(
        "litdata",
        "litdata_tokens",
        ("litdata",),
        alone=("litdata==0.2.76",),
        requirements=("boto3==1.44.5", "lightning-utilities==0.15.3", "requests", "filelock"),
    ),
    Client(
        "mosaicml-streaming",
        "mosaicml_streaming",
        ("mds",),
        alone=("mosaicml-streaming==0.13.0",),
        requirements=(
            "brotli==1.2.1",
            "catalogue==2.0.10",
            "pillow",
            "python-snappy==0.7.3",
            "requests",
            "tqdm",
            "transformers==5.23.0",
            "xxhash",
            "zstd==1.5.7.2",
        ),
    ),
    Client("datasets", "huggingface_datasets", ("hf", "hf-parquet"), requirements=("datasets==5.2.0",)),
    Client(
        "grain",
        "grain_array_record",
        ("array-record",),
        alone=("grain==0.2.18", "array-record==0.8.6"),
        requirements=("absl-py", "cloudpickle", "etils[epath,epy]", "portpicker", "protobuf"),
    ),
    Client("safetensors", "safetensors_files", ("safetensors",), requirements=("safetensors==0.8.0",)),
)
"""All of them; their versions are written here and nowhere else."""


@dataclass(frozen=True)
class Trainer:
    """A program that trains on a format."""

    name: str
    """Its package, whose version is reported."""
    script: str
    """The script in `clients/trainers` that lets it train."""
    cases: tuple[tuple[str, str], ...]
    """Format and dataset of each training; the format `native` is the dataset itself."""
    alone: tuple[str, ...] = ()
    """What is installed without dependencies, and for whatever Python it asks."""
    requirements: tuple[str, ...] = ()
    """What is installed with them."""
    cannot: str = ""
    """Why it cannot run here; it is named, and nothing is installed."""


_ROWS = ("datasets==5.2.0", "transformers==5.24.0", "accelerate==1.15.0")
_STREAMING = ("brotli==1.2.1", "catalogue==2.0.10", "pillow", "python-snappy==0.7.3", "zstd==1.5.7.2")

TRAINERS = (
    Trainer(
        "transformers",
        "transformers_trainer",
        (("hf", "clm"), ("hf-parquet", "clm"), ("hf", "t5"), ("hf-parquet", "t5"), ("hf", "mlm")),
        requirements=_ROWS,
    ),
    Trainer(
        "trl",
        "trl_sft",
        (("hf", "clm"), ("native", "clm")),
        requirements=("trl==1.16.0", "xxhash", "pydantic", *_ROWS),
    ),
    Trainer(
        "axolotl",
        "axolotl_rows",
        (("hf", "clm"),),
        alone=(
            "axolotl==0.21.0",
            "axolotl-contribs-lgpl==0.0.7",
            "axolotl-contribs-mit==0.0.6",
            "bitsandbytes==0.49.0",
            "peft==0.21.2",
            "transformers==5.20.1",
            "trl==1.14.1",
        ),
        requirements=(
            "accelerate==1.15.0",
            "addict",
            "art",
            "colorama",
            "datasets==5.0.1",
            "evaluate==0.4.6",
            "fastcore",
            "fire",
            "langdetect",
            "pillow",
            "posthog",
            "python-dotenv",
            "schedulefree",
        ),
    ),
    Trainer(
        "llamafactory",
        "llama_factory",
        (("hf", "clm"),),
        alone=("llamafactory==0.9.5", "trl==0.24.0", "peft==0.18.1", "tyro==0.8.14"),
        requirements=(
            "accelerate==1.11.0",
            "datasets==4.0.0",
            "docstring-parser",
            "einops",
            "huggingface-hub==0.36.2",
            "httpx",
            "omegaconf",
            "shtab",
            "tokenizers==0.22.2",
            "transformers==4.57.6",
        ),
    ),
    Trainer(
        "llm-foundry",
        "llm_foundry_text",
        (("mds", "clm"),),
        alone=("llm-foundry==0.22.0", "mosaicml==0.32.1", "mosaicml-streaming==0.13.0"),
        requirements=(
            "accelerate==1.8.1",
            "beautifulsoup4",
            "coolname",
            "datasets==3.6.0",
            "einops==0.8.1",
            "GitPython",
            "importlib_metadata",
            "mlflow-skinny",
            "omegaconf",
            "py-cpuinfo",
            "setuptools<81",
            "tabulate",
            "tenacity",
            "torch-optimizer",
            "transformers==4.51.3",
            *_STREAMING,
        ),
    ),
    Trainer(
        "litgpt",
        "litgpt_litdata",
        (("litdata", "clm"),),
        alone=("litgpt==0.5.13", "litdata==0.2.76"),
        requirements=(
            "boto3==1.44.5",
            "filelock",
            "jsonargparse[signatures]==4.41.0",
            "lightning==2.6.6",
            "requests",
            "tqdm",
        ),
    ),
    Trainer(
        "ai2-olmo-core",
        "olmo_core_loader",
        (("olmo-core", "clm"),),
        requirements=("ai2-olmo-core==3.0.0",),
    ),
    Trainer(
        "megatron-core",
        "megatron_gpt",
        (("megatron", "clm"),),
        alone=("megatron-core==0.16.1",),
        requirements=("packaging",),
    ),
    Trainer(
        "maxtext",
        "maxtext_grain",
        (("hf-parquet", "clm"), ("megatron", "clm"), ("array-record", "clm")),
        alone=("maxtext==0.2.5", "grain==0.2.18", "array-record==0.8.6"),
        requirements=(
            "absl-py",
            "cloudpickle",
            "datasets==5.2.0",
            "etils[epath,epy]",
            "flax==0.12.8",
            "jax==0.10.2",
            "ml_collections==1.1.0",
            "optax==0.2.8",
            "pathwaysutils==0.1.13",
            "pillow",
            "portpicker",
            "sentencepiece",
            "tiktoken==0.14.0",
            "transformers==5.24.0",
        ),
    ),
    Trainer(
        "torchtitan",
        "torchtitan_batches",
        (("native", "clm"),),
        alone=("torchtitan==0.3.0", "triton==3.9.0"),
        requirements=(
            "datasets==5.2.0",
            "einops",
            "pydantic",
            "spmd_types==0.2.3",
            "tensorboard==2.21.0",
            "torch_checkpointing==0.1.1",
            "tyro==1.0.17",
            "xxhash",
        ),
    ),
    Trainer(
        "levanter",
        "",
        (),
        cannot="PyPI has 1.1 of 2023 alone, which asks for datasets 2.11, pydantic 1 and fsspec 2023.3",
    ),
)
"""All of them."""
