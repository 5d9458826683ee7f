"""How many requests a large run in a store would make, from those of small ones.

    python benchmarks/store_model.py requests.jsonl --terabytes 1 100 --sizes 64:64:1 1024:64:64

Lines are those of `store_requests.py --json`. The model of requests of a run, with the cost of a call
that finds nothing to do taken out of each step, is

    reads     a + b units + c shards + d units x shards + e groups x ranges
    writes    a + b units + c shards + d groups + e ranges

where groups are those of deduplication, and ranges those of its band keys. Its numbers are the least
squares, none below 0, of the relative errors. They need runs that differ in each of these: give some
with `--set packing.shards=24`, `ingest.unit_size=4MiB` and `resources.keys_per_partition=8192`, which
must be fewer than the documents.

A projection is for units and shards of some MiB of text, and partitions of some Mi keys. It says how
long a part is on average that a shard reads of a unit, and that a range of keys has in a group. Costs
are those of 0.4 dollars for a million requests that read, and 5 for those that write or list.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.steps.dedup.unit_groups import GROUP_BYTES, MAX_GROUPS
from stages.dedup.lsh import band_shape
from stages.packing.layout import PackingConfig

VERBS = {"reads": ("get",), "writes": ("put", "put_new", "replace", "list", "delete")}
DOLLARS = {"reads": 0.4e-6, "writes": 5e-6}
"""Of a request."""
THRESHOLD, LANES, KEY_BYTES = 0.8, 128, 8
NOTHING = "nothing to do"


@dataclass(frozen=True)
class Counts:
    """What the requests of a run grow with."""

    units: float
    shards: float
    groups: float
    ranges: float

    def terms(self, name: str) -> list[float]:
        """Return what the numbers of a model are multiplied with."""
        alone = [1.0, self.units, self.shards]
        if name == "writes":
            return [*alone, self.groups, self.ranges]
        return [*alone, self.units * self.shards, self.groups * self.ranges]


def requests_of(line: dict[str, Any], verbs: Sequence[str]) -> float:
    """Return the requests of a run, without what each call costs."""
    steps = line["steps"]
    idle = sum(steps[NOTHING][verb] for verb in verbs)
    return float(sum(sum(one[verb] for verb in verbs) - idle for one in steps.values()))


def fitted(name: str, counts: Sequence[Counts], found: Sequence[float]) -> NDArray[np.float64]:
    """Return the numbers of the model, none below 0: those that would be are left out in turn."""
    terms = np.array([one.terms(name) for one in counts]) / np.array(found)[:, None]
    used = list(range(terms.shape[1]))
    while True:
        numbers, *_ = np.linalg.lstsq(terms[:, used], np.ones(len(found)), rcond=None)
        if numbers.min() >= 0:
            break
        del used[int(numbers.argmin())]
    result = np.zeros(terms.shape[1])
    result[used] = numbers
    return result


@dataclass(frozen=True)
class Sizes:
    """What a run file sets for a large run."""

    unit_mib: int
    shard_mib: int
    keys_mi: int

    @classmethod
    def parse(cls, text: str) -> "Sizes":
        """Return the sizes that "64:64:1" names."""
        return cls(*map(int, text.split(":")))


def projected(line: dict[str, float], terabytes: float, sizes: Sizes) -> Counts:
    """Return the counts of a large run of the same kind of texts."""
    text = terabytes * 1e12
    documents = text * line["documents"] / line["text_bytes"]
    bands, _ = band_shape(THRESHOLD, LANES)
    shards = text / (sizes.shard_mib << 20)
    groups = min(MAX_GROUPS, text / GROUP_BYTES)
    ranges = bands * documents / (sizes.keys_mi << 20)
    return Counts(text / (sizes.unit_mib << 20), shards, groups, ranges)


def parts(line: dict[str, float], one: Counts, terabytes: float) -> tuple[float, float]:
    """Return the KiB of a shard's ids in a unit, and of a range's keys in a group, on average."""
    text = terabytes * 1e12 / line["text_bytes"]
    ids = text * line["token_bytes"] / one.units / one.shards
    bands, _ = band_shape(THRESHOLD, LANES)
    keys = text * line["documents"] * bands * KEY_BYTES / one.groups / one.ranges
    return ids / 1024, keys / 1024


def print_model(lines: Sequence[dict[str, Any]]) -> dict[str, NDArray[np.float64]]:
    """Fit the model to some runs, and print it."""
    counts = [Counts(*(one[name] for name in ("units", "shards", "groups", "ranges"))) for one in lines]
    models = {}
    print("| requests | a | b | c | d | e | errors |\n|---|---|---|---|---|---|---|")
    for name, verbs in VERBS.items():
        found = [requests_of(line, verbs) for line in lines]
        numbers = models[name] = fitted(name, counts, found)
        modelled = [float(np.dot(numbers, one.terms(name))) for one in counts]
        errors = [f"{model / real - 1:+.0%}" for model, real in zip(modelled, found, strict=True)]
        shown = " | ".join(f"{number:,.3g}" for number in numbers)
        print(f"| {name} | {shown} | {', '.join(errors)} |")
    return models


def main() -> None:
    """Print the model and its projections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--terabytes", type=float, nargs="+", default=[1, 100])
    usual = int(PackingConfig().shard_size) >> 20
    default = [Sizes(64, usual, 1), Sizes(1024, usual, 64), Sizes(8192, 8192, 64)]
    parser.add_argument(
        "--sizes", type=Sizes.parse, nargs="+", default=default, metavar="UNIT:SHARD:KEYS"
    )
    given = parser.parse_args()
    lines = [json.loads(text) for text in given.lines.read_text(encoding="utf-8").splitlines()]
    models = print_model(lines)
    head = "TB | unit, MiB | shard, MiB | keys, Mi | reads, millions | writes, millions | dollars"
    print(f"\n| {head} | KiB of a unit in a shard | KiB of a range in a group |\n|{'---|' * 9}")
    last = max(lines, key=lambda line: line["text_bytes"])
    models["reads"][-1] = max(models["reads"][-1], 1.0)
    for terabytes, sizes in product(given.terabytes, given.sizes):
        one = projected(last, terabytes, sizes)
        asked = {name: float(np.dot(numbers, one.terms(name))) for name, numbers in models.items()}
        dollars = sum(DOLLARS[name] * number for name, number in asked.items())
        millions = " | ".join(f"{number / 1e6:,.1f}" for number in asked.values())
        lengths = " | ".join(f"{size:,.0f}" for size in parts(last, one, terabytes))
        set_ = f"{sizes.unit_mib:,} | {sizes.shard_mib:,} | {sizes.keys_mi}"
        print(f"| {terabytes:g} | {set_} | {millions} | {dollars:,.0f} | {lengths} |")


if __name__ == "__main__":
    main()
