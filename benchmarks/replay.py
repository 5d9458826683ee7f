"""What a mix does to a model: small Llamas trained by `shardmill compare --from`, several seeds each.

    replay.py --corpus DIR --work DIR --json replay.json [--pictures DIR] [--experiments replay ...]

CORPUS has files LANG-NNNNN.jsonl.zst of documents with "id", "text" and "lang". General text is English
and Python, the domain is Finnish. A base model is trained on general text first, with a tokenizer of
general text. Every experiment makes its datasets by `shardmill run` with a mix, and trains as many
tokens for each of them:

    replay      the base model goes on on the domain, with 0, 5, 10 and 20% general text
    extended    the same with a tokenizer that is extended by the domain, and a resized base model
    repeats     the base model goes on on domain text of which some documents are repeated often, and on
                the same text deduplicated: for as many tokens as one and as ten passes over the former
    curriculum  from no weights: general text, then mostly the domain; against the same tokens mixed
    languages   from no weights: four languages as they are, against language_alpha = 0.3

With `--experiments` and nothing behind it, tables and pictures are made of the JSON alone.
Finished runs and trained models stay in WORK, so a call that was stopped goes on when it is made again.
"""

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard
from transformers import LlamaConfig

from pipeline.commands.continued import ContinueRequest, compare_continued
from pipeline.commands.tokenizer_extend import ExtendRequest, extend_tokenizer
from pipeline.commands.tokenizer_resize import ResizeRequest, resize_checkpoint
from pipeline.report.continued import continued_rows, draw_pictures
from pipeline.run_file.load import load_run_file
from pipeline.session.session import RunRequest, run_session
from stages.continuing.settings import ContinueSettings
from stages.resize.row_method import RowMethod

Report = Any
SHARES = (0.0, 0.05, 0.1, 0.2)
TOLERANCE = 0.05
"""Of shares: datasets are so small that one document is a percent."""
LANGUAGES = {"en": 1_600_000, "de": 500_000, "nl": 150_000, "fi": 50_000}
"""Characters of text of each language."""
DOMAIN, GENERAL = "fi", ("en", "code-python")
COPIES = (2.0, 12)
"""The exponent of the law that numbers of copies follow, and the most of them."""
SHORTEST, LONGEST = 200, 4_000
"""Characters of a document."""
REPEATED = 0.3
"""Share of the documents that are repeated."""


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
        report = compare_continued(request, stream=sys.stderr)
        show(name, report, None)
        return report


def lines_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the documents of a compressed file of JSON lines."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            yield json.loads(line)


def share_of(name: str, share: float, tokens: int, **sources: Any) -> dict[str, Any]:
    """Return a dataset of the domain with a share of general text."""
    mixed = {"general": {"share": share}} if share else {"general": {"epochs": 0}}
    own = {"domain": {"epochs": 1}, **mixed, **sources}
    return {"name": name, "mix": {"total_tokens": tokens, "tolerance": TOLERANCE, "sources": own}}


def general_and_domain(bench: Bench) -> list[dict[str, Any]]:
    """Return the two sources of most experiments."""
    general = [one for name in GENERAL for one in bench.texts(name, bench.general_size // len(GENERAL))]
    domain = bench.texts(DOMAIN, bench.domain_size)
    return [bench.source("general", general), bench.source("domain", domain)]


def tokenizer_of(bench: Bench) -> Path:
    """Return the tokenizer of general text."""
    general, _ = general_and_domain(bench)
    return bench.run("general-alone", sources=[general]) / "tokenizer" / "tokenizer.model"


def shares_run(bench: Bench, name: str, tokenizer: Path) -> Path:
    """Return the run with a dataset for each share of replay."""
    datasets = [
        share_of(f"replay-{share:.0%}".replace("%", ""), share, bench.tokens) for share in SHARES
    ]
    base = {"name": "base", "mix": {"sources": {"domain": {"epochs": 0}, "general": {"epochs": 1}}}}
    return bench.run(
        name,
        sources=general_and_domain(bench),
        tokenizer={"path": str(tokenizer)},
        datasets=[base, *datasets],
    )


def old_and_domain(run: Path) -> dict[str, str]:
    """Return the evaluation sets of general and of domain text."""
    place = run / "datasets" / "base"
    return {"old": f"{place}:source=general", "domain": f"{place}:source=domain"}


def base_model(bench: Bench) -> tuple[Path, Path]:
    """Return the run with the shares of replay, and the base model, trained on general text."""
    run = shares_run(bench, "shares", tokenizer_of(bench))
    report = bench.compare(
        "base",
        run,
        bench.config("base", vocab_size_of(run)),
        datasets=("base",),
        evaluations=old_and_domain(run),
        settings={"seeds": 1, "tokens": bench.base_tokens, "learning_rate": 3e-3},
        save=True,
    )
    return run, Path(report["output"]) / "weights" / "base" / "seed-1"


def vocab_size_of(run: Path) -> int:
    """Return the ids of a run's tokenizer."""
    manifest = next((run / "datasets").glob("*/train/dataset.json"))
    return int(json.loads(manifest.read_text(encoding="utf-8"))["vocab_size"])


def replay(bench: Bench) -> dict[str, Report]:
    """Compare shares of replay."""
    run, start = base_model(bench)
    names = tuple(f"replay-{share:.0%}".replace("%", "") for share in SHARES)
    found = bench.compare("replay", run, start, datasets=names, evaluations=old_and_domain(run))
    return {"replay": found}


def extended(bench: Bench) -> dict[str, Report]:
    """Compare shares of replay with a tokenizer that is extended by the domain."""
    _, start = base_model(bench)
    old, new = tokenizer_of(bench), bench.work / "extended.model"
    place = bench.work / "texts"
    if not new.exists():
        extend_tokenizer(
            ExtendRequest(
                model=old,
                text=(place / "domain.jsonl",),
                output=new,
                pieces=1_024,
                languages=(DOMAIN,),
                old_text=(place / "general.jsonl",),
            )
        )
    resized = bench.work / "resized"
    if not resized.exists():
        resize_checkpoint(ResizeRequest(start, old, new, resized, RowMethod.PIECES))
    run = shares_run(bench, "shares-extended", new)
    names = tuple(f"replay-{share:.0%}".replace("%", "") for share in SHARES)
    found = bench.compare("extended", run, resized, datasets=names, evaluations=old_and_domain(run))
    return {"extended": found}


def repeats(bench: Bench) -> dict[str, Report]:
    """Compare repeated text with the same text deduplicated."""
    shares, start = base_model(bench)
    documents = bench.texts(DOMAIN, bench.domain_size // 15, after=bench.domain_size)
    draws = np.random.default_rng(1)
    copies = np.minimum(draws.zipf(COPIES[0], len(documents)) + 1, COPIES[1])
    copies = np.where(draws.random(len(documents)) < REPEATED, copies, 1)
    repeated = [
        {**one, "id": f"{one['id']}-{copy}"}
        for one, times in zip(documents, copies.tolist(), strict=True)
        for copy in range(times)
    ]
    common = {
        "sources": [bench.source("repeated", repeated)],
        "tokenizer": {"path": str(tokenizer_of(bench))},
        "validation": {"fraction": 0.0},
    }
    clean = bench.run("clean", **common)
    raw = bench.run("raw", **common, dedup={"exact": False, "near": False})
    manifest = json.loads((raw / "datasets/clm/train/dataset.json").read_text(encoding="utf-8"))
    once = int(manifest["totals"]["tokens"])
    found = {}
    for passes in (1, 10):
        found[f"repeats-{passes}"] = bench.compare(
            f"repeats-{passes}",
            raw,
            start,
            runs=(raw, clean),
            evaluations=old_and_domain(shares),
            settings={"tokens": passes * once},
        )
    return found


def curriculum(bench: Bench) -> dict[str, Report]:
    """Compare general text and then the domain with the same tokens mixed."""
    first, second, rest = bench.tokens, bench.tokens, 0.2
    general = (first + rest * second) / (first + second)
    stages = [
        {
            "name": "general-first",
            "mix": {
                "total_tokens": first,
                "tolerance": TOLERANCE,
                "sources": {"general": {"epochs": 1}, "domain": {"epochs": 0}},
            },
        },
        share_of("domain-heavy", rest, second),
        share_of("mixed", general, first + second),
    ]
    stages[1]["mix"]["after"] = "general-first"
    base = {"name": "base"}
    run = bench.run(
        "curriculum",
        sources=general_and_domain(bench),
        tokenizer={"path": str(tokenizer_of(bench))},
        datasets=[base, *stages],
    )
    found = bench.compare(
        "curriculum",
        run,
        bench.config("curriculum", vocab_size_of(run)),
        datasets=("mixed",),
        sequences=(("general-first", "domain-heavy"),),
        evaluations=old_and_domain(run),
        settings={"tokens": first + second, "learning_rate": 3e-3},
    )
    return {"curriculum": found}


def languages(bench: Bench) -> dict[str, Report]:
    """Compare languages as they are with a temperature."""
    documents = [one for name, size in LANGUAGES.items() for one in bench.texts(name, size)]
    tokens = 2 * bench.tokens
    datasets = [
        {
            "name": f"alpha-{alpha:g}",
            "mix": {
                "total_tokens": tokens,
                "tolerance": TOLERANCE,
                "language_alpha": alpha,
                "sources": {"web": {"epochs": 1, "max_epochs": 8}},
            },
        }
        for alpha in (1.0, 0.3)
    ]
    run = bench.run(
        "languages",
        sources=[bench.source("web", documents)],
        tokenizer={"train": {"vocab_size": 2048, "alpha": 0.3, "character_coverage": 0.998}},
        datasets=datasets,
    )
    place = run / "datasets" / "alpha-1"
    found = bench.compare(
        "languages",
        run,
        bench.config("languages", vocab_size_of(run)),
        datasets=("alpha-1", "alpha-0.3"),
        evaluations={name: f"{place}:language={name}" for name in LANGUAGES},
        settings={"tokens": tokens, "learning_rate": 3e-3},
    )
    return {"languages": found}


EXPERIMENTS: dict[str, Callable[[Bench], dict[str, Report]]] = {
    "replay": replay,
    "extended": extended,
    "curriculum": curriculum,
    "languages": languages,
    "repeats": repeats,
}


def show(name: str, report: Report, pictures: Path | None) -> None:
    """Print what models came to as a table, and write the pictures."""
    headings, rows = continued_rows(report)
    print(f"\n## {name}\n\n| dataset | {' | '.join(headings)} |\n|{'---|' * (1 + len(headings))}")
    for row, cells in rows:
        print(f"| {row} | {' | '.join(cells)} |", flush=True)
    if pictures is None:
        return
    for file, picture in draw_pictures(report).items():
        (pictures / f"mix-{name}-{file}").write_text(picture, encoding="utf-8")


def without_places(report: Report) -> Report:
    """Return a report without the paths of this machine."""
    kept = {name: report[name] for name in ("model", "settings", "before")}
    evaluations = {
        name: {key: one[key] for key in ("documents", "tokens", "bytes")}
        for name, one in report["evaluations"].items()
    }
    datasets = [
        {name: one[name] for name in ("name", "passes", "mean", "models")} for one in report["datasets"]
    ]
    return {**kept, "evaluations": evaluations, "datasets": datasets}


def main() -> None:
    """Measure, and write what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--corpus", "--work", "--json"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--experiments", nargs="*", default=list(EXPERIMENTS), choices=EXPERIMENTS)
    numbers = {"seeds": 3, "base-tokens": 400_000, "tokens": 80_000, "layers": 2, "width": 128}
    numbers |= {"domain-size": 600_000, "general-size": 2_400_000}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    given = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in numbers}
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.corpus.absolute(), options.work.absolute(), **given)
    torch.set_num_threads(1)
    found = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
    for name in options.experiments:
        for key, report in EXPERIMENTS[name](bench).items():
            found[key] = without_places(report)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for key, report in found.items():
        show(key, report, options.pictures)


if __name__ == "__main__":
    main()
