"""The clients whose own code reads our exports: what is installed, and what each one reads.

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
    Client("safetensors", "safetensors_files", ("safetensors",), requirements=("safetensors==0.8.0",)),
)
"""All of them; their versions are written here and nowhere else."""
