"""Who takes part in the end-to-end benchmark: what each one runs, and how its output is counted.

Counts are read from the files that a contestant wrote, never from what it says about itself. A token is
counted for the EOS of each document everywhere.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from encode_alone import COUNTS
from peer_environments import DATATROVE, MEGATRON, TEXT_DEDUP, PeerEnvironment
from run_processes import corpus_override, run_command

HERE = Path(__file__).resolve().parent
RUN_FILE = HERE / "end_to_end.toml"
SEED = 7
EOS = "</s>"
_IDX_MAGIC = b"MMIDIDX\x00\x00"
_IDX_COUNT = 18
"""Byte of an .idx file at which its number of sequences stands, behind magic, version and dtype."""
_IDX_LENGTHS = 34
_IDX_DTYPES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2}
"""Bytes of a token by the number that an .idx file gives its dtype."""


class Side(StrEnum):
    """What a contestant is in the table."""

    OURS = "ours"
    PEER = "peer"
    LIMIT = "limit"
    START_UP = "start-up"


@dataclass(frozen=True)
class Counts:
    """What a contestant wrote."""

    documents: int
    tokens: int | None
    """Nothing for one that makes none."""


@dataclass(frozen=True)
class Assignment:
    """What all contestants work on."""

    corpus: Path
    """Folder of .jsonl.zst files."""
    model: Path
    converted: Path
    """The same tokenizer as a tokenizer.json."""
    shardmill: str
    """Command line of this program."""
    python: str
    pythons: Mapping[str, Path]
    """Of each peer's environment."""
    shingle: int
    bands: int
    rows: int
    num_perm: int
    threshold: float


Commands = list[list[str]]


@dataclass(frozen=True)
class Contestant:
    """A program, or a limit, that is measured."""

    name: str
    side: Side
    commands: Callable[[Assignment, Path], Commands]
    """What is run one after the other, given a new folder for the output."""
    count: Callable[[Path], Counts]
    """Reads that folder."""
    environments: tuple[PeerEnvironment, ...] = ()


def shardmill(workers: int) -> Callable[[Assignment, Path], Commands]:
    """Return the commands of a run with some workers."""

    def commands(task: Assignment, output: Path) -> Commands:
        overrides = [
            corpus_override(str(task.corpus / "*.jsonl.zst")),
            f"tokenizer={{path={json.dumps(str(task.model))}}}",
            f"dedup.minhash.size={task.shingle}",
            f"dedup.minhash.num_perm={task.num_perm}",
            f"dedup.minhash.threshold={task.threshold}",
        ]
        return [
            run_command(task.shardmill, RUN_FILE, output / "run", workers=workers, overrides=overrides)
        ]

    return commands


def count_shardmill(output: Path) -> Counts:
    """Return the documents and tokens of a run's dataset, both splits."""
    manifests = [
        json.loads(path.read_bytes())
        for path in sorted((output / "run" / "datasets" / "clm").glob("*/dataset.json"))
    ]
    if not manifests:
        raise FileNotFoundError(f"{output}: no dataset was written")
    totals = [manifest["totals"] for manifest in manifests]
    return Counts(sum(t["documents"] for t in totals), sum(t["tokens"] for t in totals))


def datatrove(words: str) -> Callable[[Assignment, Path], Commands]:
    """Return the commands of datatrove with some words."""

    def commands(task: Assignment, output: Path) -> Commands:
        facts = {
            "corpus": str(task.corpus),
            "output": str(output),
            "tokenizer": str(task.converted),
            "words": words,
            "shingle": task.shingle,
            "bands": task.bands,
            "rows": task.rows,
            "eos": EOS,
            "seed": SEED,
        }
        return [_peer(task, DATATROVE, output, str(HERE / "peers/datatrove_run.py"), json.dumps(facts))]

    return commands


def count_datatrove(output: Path) -> Counts:
    """Return the documents and tokens of datatrove's merged files."""
    indexes = sorted((output / "merged").glob("*.ds.index"))
    if not indexes:
        raise FileNotFoundError(f"{output}: no merged file was written")
    documents = tokens = 0
    for path in indexes:
        ends = np.fromfile(path, np.uint64)
        size = path.with_suffix("").stat().st_size
        last = int(ends[-1]) if len(ends) else 0
        if last and size % last:
            raise ValueError(f"{path}: ends at token {last:,}, but the file has {size:,} bytes")
        documents, tokens = documents + len(ends), tokens + last
    return Counts(documents, tokens)


def text_dedup_megatron(task: Assignment, output: Path) -> Commands:
    """Return the commands of text-dedup, then megatron-core's builder over what it kept."""
    words = ["-m", "text_dedup.minhash", "--path", "json", "--split", "train", "--column", "text"]
    words += ["--data_files", str(task.corpus / "*.jsonl.zst"), "--output", str(output / "kept")]
    words += ["--cache_dir", str(output / "cache"), "--num_proc", "1", "--min_length", "1"]
    words += ["--ngram", str(task.shingle), "--num_perm", str(task.num_perm)]
    words += ["--threshold", str(task.threshold), "--hash_func", "xxh3"]
    words += ["--b", str(task.bands), "--r", str(task.rows)]
    facts = {
        "texts": str(output / "kept"),
        "output": str(output / "megatron"),
        "model": str(task.model),
    }
    script = str(HERE / "peers/megatron_write.py")
    return [
        _peer(task, TEXT_DEDUP, output, *words),
        _peer(task, MEGATRON, output, script, json.dumps(facts)),
    ]


def count_megatron(output: Path) -> Counts:
    """Return the documents and tokens of an indexed dataset."""
    path = output / "megatron" / "text.idx"
    data = path.read_bytes()
    if not data.startswith(_IDX_MAGIC):
        raise ValueError(f"{path}: not an index of megatron-core")
    (sequences,) = np.frombuffer(data, np.uint64, 1, _IDX_COUNT).tolist()
    (entries,) = np.frombuffer(data, np.uint64, 1, _IDX_COUNT + 8).tolist()
    tokens = int(np.frombuffer(data, np.int32, sequences, _IDX_LENGTHS).sum(dtype=np.int64))
    size, wanted = path.with_suffix(".bin").stat().st_size, tokens * _IDX_DTYPES[data[17]]
    if size != wanted:
        raise ValueError(f"{path}: {tokens:,} tokens need {wanted:,} bytes, but there are {size:,}")
    return Counts(entries - 1, tokens)


def alone(*, encode: bool) -> Callable[[Assignment, Path], Commands]:
    """Return the commands of a limit: reading alone, or reading and encoding."""

    def commands(task: Assignment, output: Path) -> Commands:
        words = [task.python, str(HERE / "encode_alone.py"), str(task.corpus), str(output)]
        return [[*words, "--model", str(task.model)] if encode else words]

    return commands


def count_alone(output: Path) -> Counts:
    """Return what a limit counted; it writes nothing else."""
    return Counts(**json.loads((output / COUNTS).read_bytes()))


def _peer(task: Assignment, environment: PeerEnvironment, output: Path, *words: str) -> list[str]:
    """Return a command in a peer's environment, of one thread, without network, with its own caches."""
    settings = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(output / "cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    assigned = [f"{name}={value}" for name, value in settings.items()]
    python = str(task.pythons[environment.name])
    return ["env", "-u", "PYTHONPATH", *assigned, python, "-W", "ignore", *words]


CONTESTANTS = (
    Contestant("shardmill-0", Side.OURS, shardmill(0), count_shardmill),
    Contestant("shardmill-1", Side.OURS, shardmill(1), count_shardmill),
    Contestant("shardmill-2", Side.OURS, shardmill(2), count_shardmill),
    Contestant("datatrove", Side.PEER, datatrove("default"), count_datatrove, (DATATROVE,)),
    Contestant("datatrove-split", Side.PEER, datatrove("split"), count_datatrove, (DATATROVE,)),
    Contestant(
        "text-dedup-megatron", Side.PEER, text_dedup_megatron, count_megatron, (TEXT_DEDUP, MEGATRON)
    ),
    Contestant("sentencepiece", Side.LIMIT, alone(encode=True), count_alone),
    Contestant("reading", Side.LIMIT, alone(encode=False), count_alone),
    Contestant("start-up-0", Side.START_UP, shardmill(0), count_shardmill),
    Contestant("start-up-2", Side.START_UP, shardmill(2), count_shardmill),
)
"""All of them. Those of the start-up work on the first documents alone."""
