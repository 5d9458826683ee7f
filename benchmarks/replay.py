"""What a mix does to a model: small Llamas trained by `shardmill compare --from`, several seeds each.

    replay.py --corpus DIR --work DIR --json replay.json [--pictures DIR] [--experiments replay ...]

CORPUS has files LANG-NNNNN.jsonl.zst of documents with "id", "text" and "lang". General text is English
and Python, the domain is Finnish. A base model is trained on general text first, with a tokenizer of
general text. Every experiment makes its datasets by `shardmill run` with a mix, and trains as many
tokens for each of them:

    replay      the base model goes on on the domain, with 0, 5, 10 and 20% general text: the
                tokens of the run that the base model was trained on
    extended    the same with a tokenizer that is extended by the domain, and a resized base model
    repeats     the base model goes on on domain text of which some documents are repeated often, and on
                the same text deduplicated: for as many tokens as one and as ten passes over the former
    curriculum  from no weights: general text, then mostly the domain; against the same tokens mixed
    languages   from no weights: four languages as they are, against language_alpha = 0.3

With `--experiments` and nothing behind it, tables and pictures are made of the JSON alone.
Finished runs and trained models stay in WORK, so a call that was stopped goes on when it is made again.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from replay_bench import Bench, Report

from pipeline.commands.tokenizer_extend import ExtendRequest, extend_tokenizer
from pipeline.commands.tokenizer_resize import ResizeRequest, resize_checkpoint
from pipeline.report.continued import continued_rows, draw_pictures
from stages.resize.row_method import RowMethod

SHARES = (0.0, 0.05, 0.1, 0.2)
TOLERANCE = 0.05
"""Of shares: datasets are so small that one document is a percent."""
LANGUAGES = {"en": 1_600_000, "de": 500_000, "nl": 150_000, "fi": 50_000}
"""Characters of text of each language."""
DOMAIN, GENERAL = "fi", ("en", "code-python")
COPIES = (2.0, 12)
"""The exponent of the law that numbers of copies follow, and the most of them."""
REPEATED = 0.3
"""Share of the documents that are repeated."""


def share_of(name: str, share: float, tokens: int, **sources: Any) -> dict[str, Any]:
    """Return a dataset of the domain with a share of general text."""
    mixed = {"general": {"share": share}} if share else {"general": {"epochs": 0}}
    own = {"domain": {"epochs": 1}, **mixed, **sources}
    return {"name": name, "mix": {"total_tokens": tokens, "tolerance": TOLERANCE, "sources": own}}


def general_source(bench: Bench) -> dict[str, Any]:
    """Return the source of general text."""
    size = bench.general_size // len(GENERAL)
    return bench.source("general", [one for name in GENERAL for one in bench.texts(name, size)])


def domain_source(bench: Bench) -> dict[str, Any]:
    """Return the source of domain text."""
    return bench.source("domain", bench.texts(DOMAIN, bench.domain_size))


def general_run(bench: Bench) -> Path:
    """Return the run over general text, which trains a tokenizer."""
    return bench.run("general", sources=[general_source(bench)])


def tokenizer_of(bench: Bench) -> Path:
    """Return the tokenizer of general text."""
    return general_run(bench) / "tokenizer" / "tokenizer.model"


def base_model(bench: Bench) -> Path:
    """Return the base model, trained on general text."""
    run = general_run(bench)
    bench.compare(
        "base",
        run,
        bench.config("base", vocab_size_of(run)),
        evaluations={"old": run / "datasets" / "clm"},
        settings={"seeds": 1, "tokens": bench.base_tokens, "learning_rate": 3e-3},
        save=True,
    )
    return bench.work / "compare-base" / "weights" / "clm" / "seed-1"


def vocab_size_of(run: Path) -> int:
    """Return the ids of a run's tokenizer."""
    manifest = next((run / "datasets").glob("*/train/dataset.json"))
    return int(json.loads(manifest.read_text(encoding="utf-8"))["vocab_size"])


def compare_shares(bench: Bench, name: str, general: Path, start: Path) -> dict[str, Report]:
    """Compare shares of replay: of the tokens of the run over general text.

    Args:
        bench: where everything lies.
        name: of the experiment.
        general: the run.
        start: the model that goes on, with the tokenizer of that run.
    """
    names = [f"replay-{100 * share:.0f}" for share in SHARES]
    run = bench.run(
        f"{name}-shares",
        sources=[{"name": "general", "run": str(general)}, domain_source(bench)],
        tokenizer={"path": str(general / "tokenizer" / "tokenizer.model")},
        datasets=[share_of(*one, bench.tokens) for one in zip(names, SHARES, strict=True)],
    )
    evaluations = old_and_domain(general, run / "datasets" / names[0])
    return {name: bench.compare(name, run, start, datasets=tuple(names), evaluations=evaluations)}


def old_and_domain(general: Path, dataset: Path) -> dict[str, str]:
    """Return the evaluation sets of general text and of a dataset's domain text."""
    return {"old": str(general / "datasets" / "clm"), "domain": f"{dataset}:source=domain"}


def replay(bench: Bench) -> dict[str, Report]:
    """Compare shares of replay."""
    return compare_shares(bench, "replay", general_run(bench), base_model(bench))


def extended(bench: Bench) -> dict[str, Report]:
    """Compare shares of replay with a tokenizer that is extended by the domain."""
    start, old, new = base_model(bench), tokenizer_of(bench), bench.work / "extended.model"
    general, domain = general_source(bench), domain_source(bench)
    if not new.exists():
        extend_tokenizer(
            ExtendRequest(
                model=old,
                text=tuple(map(Path, domain["paths"])),
                output=new,
                pieces=1_024,
                languages=(DOMAIN,),
                old_text=tuple(map(Path, general["paths"])),
            )
        )
    resized = bench.work / "resized"
    if not resized.exists():
        resize_checkpoint(ResizeRequest(start, old, new, resized, RowMethod.PIECES))
    run = bench.run("general-extended", sources=[general], tokenizer={"path": str(new)})
    return compare_shares(bench, "extended", run, resized)


def repeats(bench: Bench) -> dict[str, Report]:
    """Compare repeated text with the same text deduplicated."""
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
    domain = bench.run(
        "domain", sources=[domain_source(bench)], tokenizer={"path": str(tokenizer_of(bench))}
    )
    manifest = json.loads((raw / "datasets/clm/train/dataset.json").read_text(encoding="utf-8"))
    once = int(manifest["totals"]["tokens"])
    found = {}
    for passes in (1, 10):
        found[f"repeats-{passes}"] = bench.compare(
            f"repeats-{passes}",
            raw,
            base_model(bench),
            runs=(raw, clean),
            evaluations=old_and_domain(general_run(bench), domain / "datasets" / "clm"),
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
    run = bench.run(
        "curriculum",
        sources=[general_source(bench), domain_source(bench)],
        tokenizer={"path": str(tokenizer_of(bench))},
        datasets=stages,
    )
    found = bench.compare(
        "curriculum",
        run,
        bench.config("curriculum", vocab_size_of(run)),
        datasets=("mixed",),
        sequences=(("general-first", "domain-heavy"),),
        evaluations=old_and_domain(general_run(bench), run / "datasets" / "mixed"),
        settings={"tokens": first + second, "learning_rate": 3e-3},
    )
    return {"curriculum": found}


def languages(bench: Bench) -> dict[str, Report]:
    """Compare languages as they are with a temperature."""
    documents = [one for name, size in LANGUAGES.items() for one in bench.texts(name, size)]
    tokens = 2 * bench.tokens
    datasets = [
        {
            "name": name,
            "mix": {
                "total_tokens": tokens,
                "tolerance": TOLERANCE,
                "language_alpha": alpha,
                "sources": {"web": {"epochs": 1, "max_epochs": 8}},
            },
        }
        for name, alpha in (("alpha-100", 1.0), ("alpha-30", 0.3))
    ]
    run = bench.run(
        "languages",
        sources=[bench.source("web", documents)],
        tokenizer={"train": {"vocab_size": 2048, "alpha": 0.3, "character_coverage": 0.998}},
        datasets=datasets,
    )
    place = run / "datasets" / "alpha-100"
    found = bench.compare(
        "languages",
        run,
        bench.config("languages", vocab_size_of(run)),
        datasets=("alpha-100", "alpha-30"),
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
