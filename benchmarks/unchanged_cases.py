"""The runs of `unchanged.py`: what they read, and the commands that are called in their folders.

A case is a folder of inputs and run files, and calls in order. `+ NAME` is no call: the files of the
folder NAME come into the folder of the case, as new months of a corpus do. `! CALL` must be refused, and
every other call must succeed, so that no case ends before it has made anything.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.run_file.config import RunFile
from stages.export.table import FORMATS
from tests.laws.everything_on import everything_on, write_everything
from tests.material.signed_evidence import settings, write_corpus
from tests.stages.chat.chat_files import CHATML, chat_tokenizer, dialogues
from tests.stages.tokenizer.existing_files import data_of, kind_of_file, texts

ROOT = Path(__file__).resolve().parent.parent
_SENTENCES = "megatron-sentences"
"""A format that only datasets of pairs of sentences have."""
RUN = "run run.toml --output run --workers $WORKERS --quiet"
LOOKS = (
    "status run",
    "plan run.toml --output run",
    "inspect run --clusters",
    "verify run --workers 0 --quiet",
)
"""Calls after a run, which only read."""
TOKENIZERS: Mapping[str, tuple[list[Mapping[str, Any]], Mapping[str, Any]]] = {
    "gpt2": ([{"kind": "clm"}], {"special": {"pad": "<|endoftext|>"}}),
    "bert": (
        [{"kind": "mlm"}, {"kind": "nsp"}, {"kind": "bart"}],
        {"special": {"eos": "[SEP]", "bos": "[CLS]"}},
    ),
    "t5": ([{"kind": "span_corruption"}], {}),
    "llama-json": ([{"kind": "clm"}], {"special": {"pad": "<unk>"}}),
    "albert-model": ([{"kind": "mlm"}], {}),
    "llama-model": (
        [{"kind": "fim", "level": "character"}],
        {"special": {"fim_prefix": 1497, "fim_middle": 1498, "fim_suffix": 1499, "pad": 1496}},
    ),
}
"""Of each tokenizer's file, objectives that can be made with it, and its settings."""


@dataclass(frozen=True)
class Case:
    """One run or more, and what is called beside them."""

    name: str
    write: Callable[[Path], None]
    """Writes what is there before the first call."""
    calls: tuple[str, ...]
    stops: bool = False
    """Whether the run is also stopped by one program and resumed by the other."""


def toml_of(value: Any) -> str:
    """Return a value in one line of TOML; a table without those that are None."""
    if isinstance(value, Mapping):
        inside = (f"{json.dumps(key)} = {toml_of(one)}" for key, one in value.items() if one is not None)
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_of, value))}]"
    return json.dumps(value, ensure_ascii=False)


def write_run_file(folder: Path, content: Mapping[str, Any], name: str = "run.toml") -> None:
    """Write a run file, a line for each section."""
    lines = (f"{key} = {toml_of(value)}\n" for key, value in content.items() if value is not None)
    (folder / name).write_text("".join(lines), encoding="utf-8")


def _example(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        place = ROOT / name
        shutil.copytree(ROOT / "examples" / "corpus", folder / "corpus")
        content = place.read_text(encoding="utf-8").replace("../examples/corpus", "corpus")
        (folder / "run.toml").write_text(content, encoding="utf-8")

    return write


def _everything(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        write_everything(name, folder)
        plain = everything_on(name).model_dump(mode="json", exclude_unset=True)
        write_run_file(folder, plain)
        assert RunFile.model_validate(plain) == everything_on(name)

    return write


GROWN: Mapping[str, Any] = {
    "keep": "longest",
    "minhash": {"threshold": 0.7, "num_perm": 64},
    "containment": {},
    "semantic": {"threshold": 0.985},
    "url": "url",
    "lines": {"min_documents": 3},
    "paragraphs": {"min_documents": 3},
    "substrings": {"min_bytes": 120},
}
"""Every method of deduplication, and every cut."""
MLM = {"name": "mlm", "objective": {"kind": "mlm"}, "materialized_epochs": 1}


def _grown(folder: Path) -> None:
    for number in range(3):
        place = folder if number == 0 else folder / f"later-{number}"
        place.mkdir(exist_ok=True)
        write_corpus(place, seed=100 + number, name=f"g{number}-")
    for later in ("later-1", "later-2"):
        shutil.copytree(folder / later / "held", folder / "held", dirs_exist_ok=True)
    datasets = [*settings()["datasets"], MLM]
    write_run_file(folder, {**settings(), "dedup": GROWN, "datasets": datasets})


def _replayed(folder: Path) -> None:
    write_corpus(folder, seed=7, name="new-")
    write_corpus(folder / "old", seed=8, name="old-")
    base = {**settings(), "name": "old", "decontamination": None}
    write_run_file(folder / "old", base)
    replay = {"name": "old", "run": "old/run", "share": 0.3, "max_epochs": 4}
    content = {
        **settings(),
        "sources": [*settings()["sources"], replay],
        "dedup": {**GROWN, "against": ["old/run"]},
        "tokenizer": {"path": "old/run"},
        "datasets": [
            {"name": "clm", "mix": {"language_alpha": 0.5}},
            MLM,
        ],
    }
    write_run_file(folder, content)


def _chats(folder: Path) -> None:
    lines = [json.dumps({"messages": one, "id": f"c{n}"}) for n, one in enumerate(dialogues(150))]
    (folder / "chats.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "own.jinja").write_text(CHATML, encoding="utf-8")
    (folder / "tokenizer.json").write_bytes(chat_tokenizer())
    source = {"paths": ["chats.jsonl"], "id_column": "id"}
    content = {
        "name": "chats",
        "seed": 7,
        "sources": [
            {"name": "named", **source, "chat": {"template": "chatml"}},
            {"name": "own", **source, "chat": {"template": "own.jinja"}, "dedup": "within"},
        ],
        "tokenizer": {"path": "tokenizer.json", "special": {"eos": "</s>"}},
        "validation": {"fraction": 0.1},
        "packing": {"seq_len": 256, "shards": 2},
        "datasets": [
            {"name": "sft", "objective": {"kind": "clm", "loss": "targets"}},
            {"name": "all", "objective": {"kind": "clm"}},
        ],
        "verify": {"learning": False},
    }
    write_run_file(folder, content)


def _tokenizers(folder: Path) -> None:
    rows = [{"text": text, "lang": ("en", "de")[n % 2]} for n, text in enumerate(texts())]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "texts.jsonl").write_text(lines, encoding="utf-8")
    for name, (objectives, tokenizer) in TOKENIZERS.items():
        (folder / name).mkdir()
        (folder / name / kind_of_file(name)).write_bytes(data_of(name))
        content = {
            "name": name,
            "seed": 5,
            "sources": [{"name": "some", "paths": ["texts.jsonl"], "language": {"column": "lang"}}],
            "dedup": {"near": False},
            "ingest": {"unit_size": "100KiB"},
            "tokenizer": {"path": f"{name}/{kind_of_file(name)}", **tokenizer},
            "validation": {"fraction": 0.05},
            "packing": {"seq_len": 64, "shards": 2},
            "datasets": [{"name": each["kind"], "objective": each} for each in objectives],
            "verify": {"learning": False},
        }
        write_run_file(folder, content, f"{name}.toml")


TEXTS = "export run --format text-parquet --to exports/texts --quiet"


def _exports(*datasets: str, formats: Iterable[str] = tuple(FORMATS)) -> tuple[str, ...]:
    return tuple(
        f"{'! ' * (name == _SENTENCES and dataset != 'nsp')}"
        f"export run --dataset {dataset} --format {name} --to exports/{dataset}-{name} --quiet"
        for dataset in datasets
        for name in formats
    )


_NOT_VERIFIED = {"bert": "! "}
"""Tokenizers that need to be told their EOS."""
_NOT_EXPORTED = dict.fromkeys(("albert-model", "llama-model"), "! ")
"""Tokenizers that no tokenizer.json can be."""
_OF_TOKENIZERS = (
    *(f"run {name}.toml --output {name}/run --workers $WORKERS --quiet" for name in TOKENIZERS),
    *(
        f"{_NOT_VERIFIED.get(name, '')}tokenizer verify {name}/run --text texts.jsonl"
        for name in TOKENIZERS
    ),
    *(
        f"{_NOT_EXPORTED.get(name, '')}tokenizer export {name}/run {name}/exported"
        for name in TOKENIZERS
    ),
    "tokenizer compare " + " ".join(f"{name}={name}/run" for name in TOKENIZERS),
    "tokenizer extend llama-model/tokenizer.model --text texts.jsonl --pieces 50 --output more.model",
    "tokenizer extend gpt2/tokenizer.json --text texts.jsonl --pieces 50 --output more.json",
    "quick texts.jsonl --tokenizer gpt2/tokenizer.json --format megatron --to quick --workers 0 --quiet",
    "init . --yes --output drafted.toml",
    "plan drafted.toml --output drafted",
)
WITHOUT_LEARNING = "--set verify.learning=false"
CASES = {
    case.name: case
    for case in (
        Case(
            "quickstart",
            _example("examples/quickstart.toml"),
            (RUN, *LOOKS, "compare run --tokens 20000 --output compared --quiet"),
        ),
        Case(
            "objectives",
            _example("benchmarks/objectives.toml"),
            (f"{RUN} {WITHOUT_LEARNING}", *LOOKS, TEXTS, *_exports("clm", "spans", "mlm", "nsp")),
        ),
        Case("dialogues", _everything("dialogues"), (RUN, *LOOKS), stops=True),
        Case("prompts", _everything("prompts"), (RUN, *LOOKS), stops=True),
        Case(
            "grown",
            _grown,
            (
                *(RUN, "+ later-1", RUN, "+ later-2", RUN, *LOOKS),
                *_exports("clm", formats=("megatron", "hf")),
                TEXTS,
                "inspect run --document g1-d3",
            ),
            stops=True,
        ),
        Case(
            "replayed",
            _replayed,
            (
                "run old/run.toml --output old/run --workers $WORKERS --quiet",
                *(RUN, *LOOKS, *_exports("clm", formats=("megatron", "hf"))),
                '! run run.toml --output run --set tokenizer={path="gone"}',
            ),
            stops=True,
        ),
        Case("chats", _chats, (RUN, *LOOKS, *_exports("sft", formats=("hf", "mds")))),
        Case("tokenizers", _tokenizers, _OF_TOKENIZERS),
    )
}
"""Each case by its name."""
