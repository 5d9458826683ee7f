"""How often what an objective draws was drawn, against its settings: all datasets of a finished run.

    python benchmarks/rates.py DIR [--dataset NAME ...] [--rows N] [--json rates.jsonl]

Counts in epochs 0 and 1 (of kinds that are written out, in those on disk) what the trainer's columns
show of the rows of split train: what was masked, replaced, cut, moved or borrowed. Where a count follows
from the settings it must be exact; where it is drawn, its distance from the expectation is given in
sigmas, of which 5 are too many. The laws are those by which `shardmill verify` judges each shard by
itself (stages/objectives/laws/, which say what columns do not tell); here they are counted over all of a
dataset, so that they find what is off by less. Of `clm` nothing is drawn. Exit 1 if anything is off. A
trial is one dataset; `--json` and `--continue` go on after the last.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from trial_lines import Trials, add_trial_options, conduct

from stages.errors import ConfigError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.laws.draws import LIMIT, LawResult
from stages.objectives.laws.shown import ShardContext, ShownRows
from stages.objectives.traits import Objective
from stages.pieces import Pieces
from stages.store.manifest import read_manifest
from stages.tokenizer.encode import load_trained
from stages.verify.columns import DrawCounter

_TOKENS = 1 << 20
"""Positions that are held at a time, in each of two epochs."""
_EPOCHS = 2
_SHOWN = 1e-3
"""Shares below it are printed with an exponent."""


def measure(parts: Iterable[ShownRows], objective: Objective) -> list[LawResult]:
    """Return the laws of an objective as parts of a dataset, shard by shard, keep them."""
    draws = DrawCounter(objective)
    for rows in parts:
        draws.add(rows)
    return draws.lines()


def parts_of(dataset: ShardDataset, limit: int | None = None) -> Iterator[ShownRows]:
    """Yield the rows shard by shard, all or about so many, spread evenly over each shard.

    Args:
        dataset: opened with shuffle=False.
        limit: rows at the most, but one of each shard at least.
    """
    epochs, first = _epochs(dataset), 0
    step = max(2, _TOKENS // dataset.widths.stored // 2 * 2)
    for number, shard in enumerate(dataset.manifest.shards):
        count = shard.rows
        if limit is not None and shard.rows:
            count = min(count, max(1, limit * shard.rows // len(dataset)))
        chosen, of = np.arange(count) * shard.rows // max(1, count), _shard(dataset, number)
        for begin in range(0, count, step):
            rows, shown = chosen[begin : begin + step], []
            for epoch in range(epochs):
                dataset.set_epoch(epoch)
                shown.append(dataset.batch(first + rows))
            yield ShownRows(dataset.reader.stored(number, rows, 0), tuple(shown), dataset.vocabulary, of)
        first += shard.rows


def _epochs(dataset: ShardDataset) -> int:
    """Return how many epochs can be opened: two, or those on disk."""
    for epoch in range(_EPOCHS):
        try:
            dataset.set_epoch(epoch)
        except ConfigError:
            return epoch
    return _EPOCHS


def _shard(dataset: ShardDataset, number: int) -> ShardContext:
    """Return a shard as laws ask for it."""
    reader, traits, sources = dataset.reader, dataset.reader.traits, None
    if traits.sources:
        path = dataset.folder / dataset.manifest.shards[number].path / "documents.parquet"
        sources = tuple(pq.read_table(path, columns=["source"]).column("source").to_pylist())
    pieces = _pieces(dataset.folder / dataset.manifest.tokenizer.file) if traits.encodes_text else None
    components = reader.mapped(number).columns.get("objective_id")
    return ShardContext(reader.whole_shard(number, sources=sources), components, pieces)


def fingerprints(datasets: Iterable[Path]) -> dict[str, list[str]]:
    """Return the fingerprints of datasets, split by split: what their rows are."""
    return {
        path.name: [read_manifest(one).fingerprint for one in sorted(path.iterdir()) if one.is_dir()]
        for path in datasets
    }


@cache
def _pieces(tokenizer: Path) -> Pieces:
    """Return what each id of a tokenizer decodes to."""
    return load_trained(tokenizer).codec.spelling


def print_line(dataset: str, line: LawResult) -> None:
    """Print one law."""
    verdict = "" if line.passed else "  WRONG"
    name = f"{dataset:16} {line.law:52}"
    if line.sigmas is None:
        print(f"{name} exact: {line.found:,.0f} wrong of {line.n:,} rows{verdict}")
        return
    kind = ".4e" if 0.0 < line.expected < _SHOWN else ".6f"
    print(
        f"{name} {line.n:>13,} {line.found:{kind}} {line.expected:{kind}} {line.sigmas:+7.2f}{verdict}"
    )


def laws_of(path: Path, rows: int | None) -> dict[str, Any]:
    """Count all rows of a dataset, or so many; return its laws."""
    dataset = open_dataset(path, shuffle=False)
    return {"laws": [asdict(line) for line in measure(parts_of(dataset, rows), dataset.objective)]}


def _is_wrong(result: dict[str, Any]) -> bool:
    return not all(LawResult(**law).passed for law in result["laws"])


def campaign(trials: Trials, datasets: Sequence[Path], *, rows: int | None) -> int:
    """Count and print all datasets; return the exit code: 1 if any law is wrong, or there is none."""
    found = []
    print(f"{'dataset':16} {'law':52} {'n':>13} {'found':>8} {'expected':>8} {'sigmas':>7}")
    for path in datasets:
        result = trials.trial(path.name, partial(laws_of, path, rows), failed=_is_wrong)
        lines = [LawResult(**law) for law in result["laws"]]
        for line in lines:
            print_line(path.name, line)
        if not lines:
            print(f"{path.name:16} nothing is drawn")
        print(f"{path.name:16} {trials.lines[path.name].seconds:.1f} s", flush=True)
        found += lines
    wrong = sum(not line.passed for line in found)
    print(f"\n{len(found):,} laws, {wrong:,} wrong (more than {LIMIT:g} sigmas, or any row)")
    return 0 if found and not wrong else 1


def main() -> int:
    """Count what a run's datasets drew and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, metavar="DIR", help="folder of a finished run")
    parser.add_argument("--dataset", nargs="+", default=[], metavar="NAME", help="these only")
    parser.add_argument("--rows", type=int, metavar="N", help="about so many of each [default: all]")
    add_trial_options(parser)
    given = parser.parse_args()
    folder = given.run / "datasets"
    unknown = [name for name in given.dataset if not (folder / name).is_dir()]
    if unknown:
        parser.error(f"no dataset {', '.join(unknown)} in {given.run}")
    datasets = [path for path in sorted(folder.glob("*")) if path.name in (given.dataset or [path.name])]
    settings = {"datasets": fingerprints(datasets), "rows": given.rows}
    return conduct(lambda trials: campaign(trials, datasets, rows=given.rows), given, settings)


if __name__ == "__main__":
    sys.exit(main())
