"""Decontamination on a real corpus: items that were planted, and items that are common phrases.

    python benchmarks/contamination.py CORPUS WORK --bytes 150000000 --quotations FILE... --json FILE

CORPUS is a folder of JSON lines (plain, .gz or .zst) with a field `text`. A share of its documents is
held out; the rest is deduplicated. From the documents held out come the texts of items, of which no
13-gram stands in what is kept:

- planted: 200 items, a quarter each as they are, as a part of 13 words, and both again in other letter
  case and punctuation, each in one document; 100 more each in two, three and five documents;
- phrases: 2,000 items around a text of 13 to 25 words that stands in several kept documents by nature,
  in more than ten or in two to ten, half of them with 40 words of their own around it, half without; and
  quotations from FILEs (entries parted by lines of "%" or blank ones) that stand in kept documents;
  collections of them are left out. Those that stand in one document, and longer texts that stand in
  several, are shown and not counted: the document does hold the item.

An item of `planted` that is found is right; a phrase that is found is wrong. Several rules judge the
same overlaps: `plain` is any n-gram anywhere, `gpt3` any that stands in at most ten documents (Brown et
al. 2020, appendix C), and the others ask for more words for each document. The last is the default.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import xxhash
from contamination_items import (
    GramCounts,
    Item,
    Material,
    N,
    phrase_items,
    plant,
    planted_items,
    without_collections,
)
from contest_material import read_documents

from pipeline.engine.tasks import Workspace
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.steps.decontaminate.index import open_index, open_items
from stages.decontamination.config import DecontaminationRule
from stages.decontamination.overlaps import overlaps_of
from stages.decontamination.words import words_of

RULES: dict[str, dict[str, int]] = {
    "plain": {"max_documents": 1 << 40, "words_per_document": 0},
    "gpt3": {"max_documents": 10, "words_per_document": 0},
    "2 documents": {"max_documents": 2, "words_per_document": 0},
    "1 document": {"max_documents": 1, "words_per_document": 0},
    "6 words a document": {"max_documents": 10, "words_per_document": 6},
    "13 words a document": {"max_documents": 10, "words_per_document": 13},
    "20 words a document": {"max_documents": 10, "words_per_document": 20},
    "13 words, or whole": {"max_documents": 10, "words_per_document": 13, "whole_words": 26},
    "20 words, or whole": {"max_documents": 10, "words_per_document": 20, "whole_words": 26},
}


@dataclass
class Judged:
    """How a rule judges the items."""

    found: dict[str, int] = field(default_factory=dict)
    """By kind and form."""
    items: dict[str, int] = field(default_factory=dict)
    recall: float = 0.0
    """Of the planted items with one copy."""
    precision: float = 0.0
    """Planted items with one copy among these and the phrases that are found."""


def read_corpus(folder: Path, most: int) -> list[str]:
    """Return texts of a folder in an order of their own, about `most` bytes."""
    texts: list[tuple[int, str]] = []
    for path in sorted(folder.glob("*.jsonl*")):
        for document in read_documents(path):
            texts.append((xxhash.xxh3_64_intdigest(document.text.encode()), document.text))  # noqa: PERF401
    taken, size = [], 0
    for _, text in sorted(texts):
        size += len(text.encode())
        if size > most:
            break
        taken.append(text)
    return taken


def read_quotations(paths: list[Path]) -> list[str]:
    """Return the entries of files, those of at least 13 words."""
    entries: list[str] = []
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace").replace("\n%\n", "\n\n")
        entries += [entry for entry in text.split("\n\n") if len(words_of(entry)) >= N]
    return list(dict.fromkeys(entries))


def write_lines(path: Path, texts: Iterable[str]) -> None:
    """Write texts as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def run(folder: Path, until: str, **changes: Any) -> Path:
    """Run over a folder's documents up to a step, and return the run's folder."""
    content = {
        "sources": [{"name": "corpus", "paths": ["documents.jsonl"]}],
        "datasets": [{"name": "clm"}],
        "ingest": {"min_chars": 1},
        **changes,
    }
    request = RunRequest(RunFile.model_validate(content), folder, folder / "run", 0, until=until)
    run_session(request, stream=sys.stderr)
    return folder / "run"


def kept_texts(made: Path) -> list[str]:
    """Return the documents that dedup kept."""
    texts: list[str] = []
    for path in sorted((made / "ingest").rglob("documents.parquet")):
        mask = np.load(made / "dedup/keep" / f"{path.parent.relative_to(made / 'ingest')}.npy")
        column = pq.read_table(path, columns=["text"]).column("text").to_pylist()
        texts += [text for text, stays in zip(column, mask.tolist(), strict=True) if stays]
    return texts


def judge(made: Path, items: list[Item], rule: DecontaminationRule) -> Judged:
    """Return how a rule judges what the run found of the items."""
    workspace = Workspace(made, made)
    index = open_index(workspace).index
    assert open_items(workspace).num_rows == len(items), "each item is a record"
    counts = np.load(made / "decontaminate/documents.npy")
    found = np.zeros(len(items), np.bool_)
    for path in sorted((made / "decontaminate/hits").glob("*.npy")):
        overlaps = overlaps_of(np.load(path), counts, index, rule)
        found[index.passages.item[overlaps.passage[overlaps.contaminated]]] = True
    return score(items, found.tolist())


def score(items: list[Item], found: list[bool]) -> Judged:
    """Return what was found by kind and form, with recall and precision."""
    names = [f"{one.kind} in {one.copies}: {one.form}" for one in items]
    once = [one.kind == "planted" and one.copies == 1 for one in items]
    right = sum(hit for hit, own in zip(found, once, strict=True) if own)
    wrong = sum(hit for hit, one in zip(found, items, strict=True) if one.kind == "phrase")
    return Judged(
        found=dict(Counter(name for name, hit in zip(names, found, strict=True) if hit)),
        items=dict(Counter(names)),
        recall=right / max(sum(once), 1),
        precision=right / max(right + wrong, 1),
    )


def measure(
    corpus: Path, work: Path, *, most: int, quotations: list[str], seed: int, share: float = 1.0
) -> dict[str, Any]:
    """Do all of it in a folder, and return what every rule finds."""
    texts = without_collections(read_corpus(corpus, most), quotations)
    held = [text for number, text in enumerate(texts) if number % 20 == 0]
    write_lines(work / "clean/documents.jsonl", (t for n, t in enumerate(texts) if n % 20))
    kept = kept_texts(run(work / "clean", "dedup"))
    counts = GramCounts(kept)
    material = Material(kept, held, counts, seed, share=share)
    items = [*planted_items(material), *phrase_items(material, quotations)]
    write_lines(work / "planted/documents.jsonl", plant(material, items))
    write_lines(work / "planted/items.jsonl", (item.text for item in items))
    sets = [{"name": "items", "paths": ["items.jsonl"]}]
    off = {"exact": False, "near": False}
    made = run(work / "planted", "decontaminate", decontamination={"sets": sets}, dedup=off)
    verdicts = pq.read_table(made / "decontaminate/items.parquet").column("verdict").to_pylist()
    rules = {
        name: judge(made, items, DecontaminationRule.model_construct(**asdict_of(changes)))
        for name, changes in RULES.items()
    }
    steps = [json.loads(line) for line in (made / "log.jsonl").read_text().splitlines()]
    return {
        "documents": len(kept),
        "bytes": sum(len(text.encode()) for text in kept),
        "run": asdict(score(items, [one == "found" for one in verdicts])),
        "rules": {name: asdict(one) for name, one in rules.items()},
        "steps": [one for one in steps if one.get("step") == "decontaminate"][-1:],
    }


def asdict_of(changes: dict[str, int]) -> dict[str, Any]:
    """Return all settings of a rule, of which some are others."""
    return {**DecontaminationRule().model_dump(), "whole_words": 1 << 40, **changes}


def table_of(found: dict[str, Any]) -> str:
    """Return the table of docs/benchmarks.md."""
    lines = ["| rule | planted found | phrases found | recall | precision |", "|---|---|---|---|---|"]
    for name, rule in {**found["rules"], "the run": found["run"]}.items():
        planted = sum(n for key, n in rule["found"].items() if key.startswith("planted in 1"))
        wrong = sum(n for key, n in rule["found"].items() if key.startswith("phrase"))
        lines.append(
            f"| {name} | {planted} | {wrong} | {rule['recall']:.3f} | {rule['precision']:.3f} |"
        )
    forms = sorted(found["run"]["items"])
    lines += ["", f"| form | items | {' | '.join(found['rules'])} |"]
    lines.append(f"|{'---|' * (2 + len(found['rules']))}")
    for form in forms:
        counts = [str(rule["found"].get(form, 0)) for rule in found["rules"].values()]
        lines.append(f"| {form} | {found['run']['items'][form]} | {' | '.join(counts)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 1 if recall or precision of the run is under 0.95."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--bytes", type=int, default=150_000_000)
    parser.add_argument("--quotations", type=Path, nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of the items, for a small corpus")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    found = measure(
        wanted.corpus,
        wanted.work,
        most=wanted.bytes,
        quotations=read_quotations(wanted.quotations),
        seed=wanted.seed,
        share=wanted.share,
    )
    if wanted.json is not None:
        wanted.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(table_of(found) + "\n")
    return int(min(found["run"]["recall"], found["run"]["precision"]) < 0.95)  # noqa: PLR2004  # the bar


if __name__ == "__main__":
    sys.exit(main())
