"""Check datasets by training on a GPU, and measure how fast a GPU trains on them.

    python benchmarks/gpu_check.py DIR                                  all datasets of a run
    python benchmarks/gpu_check.py DIR/datasets/clm DIR/datasets/mlm    those
    python benchmarks/gpu_check.py DIR --large --json gpu.json          and a 124M-parameter model too
    python benchmarks/gpu_check.py DIR --shift-labels 1                 a fault: clm, fim, prefix_lm fail
    python benchmarks/gpu_check.py DIR --device cpu --set labelled_tokens=40000

First the learning check of `shardmill verify`, with its models, settings and gates: a verdict for each
dataset, then how fast its model trains, and with --large how fast a model of GPT-2 small's shape does.
It exits with 0 if every dataset passed, with 1 if one did not, with 2 if the arguments are wrong.

It needs numpy, xxhash, pydantic and torch, no Ray, and of a run nothing but the folders of its datasets.
Where Shardmill is not installed, run it in the project's folder with PYTHONPATH=. in front.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from gpu_models import Sizes
from gpu_speed import Plan
from gpu_trials import Bench, Large, Lesson, Pace, check, pace_of_large, pace_of_practice
from pydantic import ValidationError

from stages.errors import ConfigError, ShardmillError
from stages.loading.dataset import open_dataset
from stages.objectives.learning import LearningConfig
from stages.verify.gates import to_json
from stages.verify.resume import peak_of

_BATCH_TOKENS = {"cuda": 32_768, "cpu": 1_024}
_PROCESSES = {"cuda": 4, "cpu": 0}
_LEAST = {
    **dict.fromkeys(("warmup", "steps", "windows", "batch_tokens", "peak_tflops", "vocabulary"), 1),
    **dict.fromkeys(("layers", "width", "heads"), 1),
    **dict.fromkeys(("seconds", "shift_labels", "loader_processes"), 0),
}
"""Least values of options."""
_CHECK = "{:18} {:16} {:>7} {:>8} {:>8} {:>7} {:>7}  {}"
_SPEED = "{:18} {:>14} {:>12} {:>7} {:>7} {:>11} {:>10}"
_TITLES = (
    _CHECK.format("dataset", "kind", "loss", "control", "entropy", "passed", "seconds", "failed"),
    _SPEED.format("  model", "parameters", "tokens/s", "MFU", "waits", "first loss", "last loss"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and measure each dataset named; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        bench, lesson, large = _settings(given)
        if given.json:
            given.json.write_text("", encoding="utf-8")  # now, and not after minutes
        folders = datasets_in(given.datasets)
        for folder in folders:
            open_dataset(folder)
        about = _about(bench)
        print(", ".join(f"{name} {value}" for name, value in about.items()))
        if given.large and large is None:
            print("large: left out, since torch finds no GPU; --device cpu trains it, in minutes each")
        print(*_TITLES, sep="\n")
        records: list[dict[str, Any]] = []
        for folder in folders:
            records.append(try_dataset(folder, bench, lesson, large))
            print(describe(records[-1]), flush=True)
            if given.json:  # after each: what was measured stays, whatever comes
                content = json.dumps(to_json({**about, "datasets": records}), indent=1)
                given.json.write_text(content + "\n", encoding="utf-8")
    except (ShardmillError, OSError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    failed = [record["dataset"] for record in records if not record["passed"]]
    print(f"passed {len(records) - len(failed)} of {len(records)}" + "".join(f", {n}" for n in failed))
    return 1 if failed else 0


def datasets_in(paths: Sequence[Path]) -> list[Path]:
    """Return the datasets that paths name: each itself, or all of a run's.

    Raises:
        ConfigError: a path is neither a dataset nor a run that has one.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted({split.parent.parent for split in path.glob("datasets/*/*/dataset.json")})
        if not inside and not list(path.glob("*/dataset.json")):
            raise ConfigError(
                f"{path}: neither a dataset nor a run with datasets; name a finished run's folder, or"
                " DIR/datasets/NAME"
            )
        found += inside or [path]
    return found


def try_dataset(folder: Path, bench: Bench, lesson: Lesson, large: Large | None) -> dict[str, Any]:
    """Check a dataset and measure what trains on it; an error of this dataset alone is recorded."""
    dataset, started = open_dataset(folder), time.perf_counter()
    record: dict[str, Any] = {"dataset": folder.name, "kind": dataset.objective.kind, "passed": False}
    record |= {"seq_len": dataset.manifest.seq_len, "rows": len(dataset)}
    record |= {"seconds": None, "errors": []}
    models: dict[str, Callable[[], Pace]] = {}
    try:
        checked = check(folder, bench, lesson)
    except ShardmillError as error:
        return {**record, "errors": [str(error)]}
    record |= {"check": checked.record, "seconds": time.perf_counter() - started}
    if (practice := checked.practice) is not None:
        models["verifying"] = lambda: pace_of_practice(folder, practice, bench)
    if large is not None:
        models["large"] = lambda: pace_of_large(folder, large, bench)
    for name, pace_of in models.items():
        try:
            pace = pace_of()
        except ShardmillError as error:
            record["errors"].append(str(error))
        except torch.cuda.OutOfMemoryError:
            record["errors"].append(f"{name}: the GPU's memory is full; lower --batch-tokens")
        else:
            record[name] = pace.to_dict()
            if not pace.speed.finite:
                record["errors"].append(f"{name}: losses are no numbers")
    return {**record, "passed": bool(checked.record["passed"]) and not record["errors"]}


def describe(record: Mapping[str, Any]) -> str:
    """Return the lines of a dataset: its verdict, then a line for each model that was timed."""
    found = record.get("check", {})
    contrast = found.get("contrast", {})
    failed = [gate["name"] for gate in found.get("gates", []) if not gate["passed"]]
    failed += [found["reason"]] if "reason" in found else []
    failed += record["errors"]
    paces = {name: record[name] for name in ("verifying", "large") if name in record}
    verdict = _CHECK.format(
        record["dataset"],
        record["kind"],
        _number(found.get("loss", contrast.get("loss"))),
        _number(found.get("control_loss")),
        _number(found.get("unigram_entropy", contrast.get("chance"))),
        "yes" if record["passed"] else "NO",
        _number(record.get("seconds"), 1),
        ", ".join(failed) or ("-" if found.get("gated") else "(the loss is held to no gate)"),
    )
    lines = [
        _SPEED.format(
            f"  {name}",
            f"{pace['weights']:,}",
            f"{pace['tokens_per_second']:,.0f}",
            "-" if pace["mfu"] is None else f"{pace['mfu']:.1%}",
            f"{pace['wait_share']:.2%}",
            _number(pace["first_loss"]),
            _number(pace["last_loss"]),
        )
        for name, pace in paces.items()
    ]
    return "\n".join([verdict, *lines])


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _settings(given: argparse.Namespace) -> tuple[Bench, Lesson, Large | None]:
    """Return what the arguments ask for.

    Raises:
        ConfigError: they ask for what cannot be.
    """
    cuda = torch.cuda.is_available()
    name = given.device or ("cuda" if cuda else "cpu")
    if name == "cuda" and not cuda:
        raise ConfigError("--device cuda: torch finds no GPU on this machine; take --device cpu")
    for option, least in _LEAST.items():
        if (value := getattr(given, option)) is not None and value < least:
            raise ConfigError(f"--{option.replace('_', '-')} {value}: must be at least {least}")
    if given.width % given.heads:
        raise ConfigError(f"--width {given.width}: must be a multiple of --heads {given.heads}")
    device = torch.device(name)
    peak = peak_of(device) if given.peak_tflops is None else given.peak_tflops * 1e12
    plan = Plan(given.warmup, given.windows, given.steps, given.seconds)
    processes = _PROCESSES[name] if given.loader_processes is None else given.loader_processes
    bfloat16 = name == "cuda" if given.bfloat16 is None else given.bfloat16
    lesson = Lesson(_config(given.set), given.seed, given.shift_labels)
    sizes = Sizes(given.layers, given.width, given.heads, given.vocabulary)
    large = Large(sizes, given.batch_tokens or _BATCH_TOKENS[name], given.compile)
    trained = given.large and (cuda or given.device == "cpu")
    return Bench(device, bfloat16, plan, processes, peak), lesson, large if trained else None


def _config(changes: Sequence[str]) -> LearningConfig:
    """Return the settings of the learning check."""
    content = {name: value for name, _, value in (change.partition("=") for change in changes)}
    try:
        return LearningConfig.model_validate_json(json.dumps(content), strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--set {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _about(bench: Bench) -> dict[str, object]:
    """Return what a figure says little without."""
    cuda = bench.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(bench.device) if cuda else f"cpu ({platform.machine()})",
        "precision": "bfloat16" if bench.bfloat16 else "float32",
        "peak_tflops": None if bench.peak is None else bench.peak / 1e12,
        "torch": torch.__version__,
        "numba": find_spec("numba") is not None,
        "loader_processes": bench.processes,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("datasets", type=Path, nargs="+", metavar="DIR", help="a run, or DIR/datasets/NAME")
    add("--device", choices=["cpu", "cuda"], help="[default: cuda where there is one]")
    add("--bfloat16", action=argparse.BooleanOptionalAction, help="[default: on a GPU]")
    add("--seed", type=int, default=0, help="of the learning check's draws [default: 0]")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [verify]")
    add("--shift-labels", type=int, default=0, metavar="N", help="plant a fault: labels N tokens off")
    add("--warmup", type=int, default=5, metavar="N", help="steps that are not timed [default: 5]")
    add("--steps", type=int, default=50, metavar="N", help="steps that are timed [default: 50]")
    add("--windows", type=int, default=5, metavar="N", help="windows that they are in [default: 5]")
    add("--seconds", type=float, default=30.0, help="begin no window after these [default: 30]")
    add(
        "--loader-processes", type=int, metavar="N", help="that read ahead; 0: a thread [GPU: 4, CPU: 0]"
    )
    add(
        "--peak-tflops", type=float, metavar="X", help="of the device [default: its data sheet's, dense]"
    )
    add("--large", action="store_true", help="and a model of GPT-2 small's shape, if there is a GPU")
    add("--batch-tokens", type=int, metavar="N", help="of its batches [GPU: 32768, CPU: 1024]")
    add("--compile", action="store_true", help="torch.compile it")
    for name, of in (("layers", 12), ("width", 768), ("heads", 12), ("vocabulary", 50_304)):
        add(f"--{name}", type=int, default=of, metavar="N", help=f"of its shape [default: {of}]")
    add("--json", type=Path, metavar="FILE", help="write every figure there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
