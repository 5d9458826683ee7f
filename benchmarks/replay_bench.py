"""Runs and models of `replay.py`: texts of a corpus, runs over them, and models trained on these."""

import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from transformers import LlamaConfig

from pipeline.commands.continued import ContinueRequest, compare_continued
from pipeline.run_file.load import load_run_file
from pipeline.session.session import RunRequest, run_session
from stages.continuing.settings import ContinueSettings

Report = Any
SHORTEST, LONGEST = 200, 4_000
"""Characters of a document."""


@dataclass(frozen=True)
class Bench:
    """Where everything lies, and how much is trained."""

    corpus: Path
    work: Path
    seeds: int
    base_tokens: int
    tokens: int
    domain_size: int
    general_size: int
    layers: int
    width: int

    def texts(self, name: str, size: int, *, after: int = 0) -> list[dict[str, str]]:
        """Return documents of a language, spread over its files: so many characters, after others."""
        documents = [
            one for path in sorted(self.corpus.glob(f"{name}-[0-9]*")) for one in lines_of(path)
        ]
        found, held = [], 0
        for place in np.random.default_rng(0).permutation(len(documents)):
            one = documents[place]
            if SHORTEST <= len(one["text"]) <= LONGEST:
                held += len(one["text"])
                if held > after:
                    found.append(one)
            if held >= after + size:
                break
        return found

    def source(self, name: str, documents: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Return a source of a run, its documents written."""
        place = self.work / "texts" / f"{name}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)
        if not place.exists() or place.read_text(encoding="utf-8") != content:
            place.write_text(content, encoding="utf-8")
        return {
            "name": name,
            "paths": [str(place)],
            "id_column": "id",
            "language": {"column": "lang"},
        }

    def run(self, name: str, **changes: Any) -> Path:
        """Return the folder of a finished run."""
        place = Path(__file__).with_name("replay.toml")
        content = load_run_file(place).model_dump(exclude_unset=True)
        file = type(load_run_file(place)).model_validate({**content, "name": name, **changes})
        output = self.work / name
        run_session(RunRequest(file, self.work, output, 0), stream=sys.stderr)
        return output

    def config(self, name: str, vocab_size: int) -> Path:
        """Return a folder with the config of a model, without weights."""
        folder = self.work / f"config-{name}"
        LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=self.width,
            intermediate_size=3 * self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.width // 32,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            architectures=["LlamaForCausalLM"],
        ).save_pretrained(folder)
        return folder

    def compare(self, name: str, run: Path, start: Path, **options: Any) -> Report:
        """Return what models came to, and print it."""
        settings: dict[str, Any] = {"seeds": self.seeds, "tokens": self.tokens}
        settings |= {"step_tokens": 1_024}
        settings |= {"learning_rate": 1e-3, "evaluation_tokens": 8_000, "evaluations": 4}
        settings |= options.pop("settings", {})
        evaluations = tuple(f"{key}={place}" for key, place in options.pop("evaluations").items())
        runs = options.pop("runs", (run,))
        request = ContinueRequest(
            runs,
            start,
            evaluations=evaluations,
            output=self.work / f"compare-{name}",
            settings=ContinueSettings.model_validate(settings),
            **options,
        )
        return compare_continued(request, stream=sys.stderr)


def lines_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the documents of a compressed file of JSON lines."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            yield json.loads(line)
