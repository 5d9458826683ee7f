"""Ids of AutoTokenizer on exported folders against those of the run, document by document.

    pip install transformers      in an environment that has this program
    PYTHONPATH=. python benchmarks/auto_tokenizer.py DOCUMENTS.jsonl FOLDER NAME=MODEL [...]

Each MODEL, a run or a tokenizer's file, is exported to FOLDER/NAME by `shardmill tokenizer export`, and
loaded with `AutoTokenizer.from_pretrained`. The ids of every document, cleaned as a run cleans it, are
compared twice: as AutoTokenizer gives them by itself, and with `split_special_tokens=True`. Documents in
which transformers reads a special token are counted apart. The special roles must be those of the run,
and decoding must give what the run's decoding gives.
"""

import argparse
import sys
from pathlib import Path

import orjson
import transformers
from transformers import AutoTokenizer

from pipeline.tools.tokenizer.export import export_tokenizer, opened_tokenizer
from stages.cleaning.text import clean_text

ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")


def compare(model: Path, to: Path, special: list[str], texts: list[str]) -> bool:
    """Export a tokenizer, print how its folder compares, and return whether nothing differs."""
    export_tokenizer(model, to, special=special)
    theirs = AutoTokenizer.from_pretrained(to, local_files_only=True)
    ours = opened_tokenizer(model, special=special).tokenizer
    ids = ours.special_ids
    roles = {role: ids.get(role) for role in ROLES}
    other = [role for role, number in roles.items() if getattr(theirs, f"{role}_token_id") != number]
    lost = set(ids.values()) - set(theirs.all_special_ids)
    kept = set(ids.values()) - {ours.unk}
    wanted = [found.tolist() for found in ours.encode(texts)]
    counts = []
    for split in (False, True):
        found = theirs(texts, add_special_tokens=False, split_special_tokens=split)["input_ids"]
        pairs = list(zip(found, wanted, strict=True))
        apart = sum(not kept.isdisjoint(own) for own, _ in pairs)
        differ = sum(own != wanted_ids and kept.isdisjoint(own) for own, wanted_ids in pairs)
        counts.append((differ, apart))
    spelled = ours.decode(ours.encode(texts))
    decoded = sum(theirs.decode(one) != text for one, text in zip(wanted, spelled, strict=True))
    print(
        f"{to.name}: {len(texts):,} documents: {counts[0][0]:,} differ, {counts[0][1]:,} with a"
        f" special token; split: {counts[1][0]:,} differ, {counts[1][1]:,} with one; decoded otherwise:"
        f" {decoded:,}; other roles: {', '.join(other) or 'none'}; special ids lost: {len(lost)}",
        flush=True,
    )
    return not (counts[0][0] or counts[1][0] or other or lost)


def main() -> int:
    """Compare all models; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("documents", type=Path, help="JSON lines with 'text'")
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--special", action="append", default=[], metavar="NAME:ROLE=PIECE")
    given = parser.parse_args()
    lines = given.documents.read_bytes().splitlines()
    texts = [clean_text(orjson.loads(line)["text"]) for line in lines]
    print(f"transformers {transformers.__version__}")
    same = True
    for model in given.models:
        name, _, path = model.partition("=")
        pieces = [item.partition(":") for item in given.special]
        special = [piece for own, _, piece in pieces if own == name]
        same = compare(Path(path), given.folder / name, special, texts) and same
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
