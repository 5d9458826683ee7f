"""Requests and bytes of a run in a store, by step: each is a call through a proxy that counts.

    store_requests.py RUN.toml WORK --workers 2 --cache 0.1 --json requests.jsonl

A run in a folder comes first: its size gives the size of the cache. A call that finds nothing to do
comes last; what it costs is what each call costs, and stands in a line of its own. `--json` appends a
line, to which `store_model.py` fits what a large run needs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.material.fault_proxy import VERBS, FaultProxy, Faults
from tests.material.store_server import BUCKET, shared_server

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN.toml")
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cache", type=float, default=0.1, help="its size, as a share of the run's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.work.mkdir(parents=True)
    folder = given.work / "out"
    _run(given, str(folder), {})
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    steps, counts = _steps(folder), _counts(folder)
    server = shared_server(given.work / "server", parent=os.getpid())
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"
    print(f"run: {size / 1e6:,.1f} MB; cache: {given.cache * size / 1e6:,.1f} MB\n")
    print(f"| step | seconds | {' | '.join(VERBS)} | MB written | MB read |")
    print(f"|---|---|{'---|' * (len(VERBS) + 2)}")
    total: Counter[str] = Counter()
    found: dict[str, dict[str, float]] = {}
    for step in (*steps, None, None):
        faults = Faults(0, 0.0)
        with FaultProxy(int(server.endpoint.rpartition(":")[2]), faults) as proxy:
            environment = {
                **server.environment,
                "AWS_ENDPOINT_URL": proxy.endpoint,
                "SHARDMILL_CACHE": str(given.work / "cache"),
                "SHARDMILL_CACHE_BYTES": str(int(given.cache * size)),
            }
            began = time.monotonic()
            _run(given, url, environment, *([] if step is None else ["--until", step]))
        numbers = [faults.requests[verb] for verb in VERBS]
        written, read = sum(faults.sent.values()), sum(faults.received.values())
        name = step or ("nothing to do" if total["ended"] else "the rest")
        total["ended"] += step is None
        found[name] = {
            **dict(zip(VERBS, numbers, strict=True)),
            "written": written,
            "read": read,
            "seconds": round(time.monotonic() - began, 2),
        }
        shown = " | ".join(f"{number:,}" for number in numbers)
        seconds = time.monotonic() - began
        print(
            f"| {name} | {seconds:.1f} | {shown} | {written / 1e6:,.1f} | {read / 1e6:,.1f} |",
            flush=True,
        )

    if given.json is not None:
        with given.json.open("a", encoding="utf-8") as lines:
            lines.write(
                json.dumps({**counts, "bytes": size, "cache": given.cache, "steps": found}) + "\n"
            )


def _counts(folder: Path) -> dict[str, int]:
    """Return how many units a run has, shards, groups of deduplication, and ranges of band keys."""
    commits = folder / "commits"
    units = [path for path in (commits / "ingest").iterdir() if not path.name.startswith("_")]
    text = sum(json.loads(path.read_text())["record"].get("text_bytes", 0) for path in units)
    dedup = [path.name for path in (commits / "dedup").iterdir()]
    shards = [path for step in commits.glob("shard-*") for path in step.glob("*-0*.json")]
    ids = sum(path.stat().st_size for path in (folder / "tokens").rglob("ids.npy"))
    documents = sum(json.loads(path.read_text())["record"]["documents"] for path in units)
    return {
        "text_bytes": text,
        "documents": documents,
        "token_bytes": ids,
        "units": len(units),
        "shards": len(shards),
        "groups": sum(name.startswith("keys-") for name in dedup),
        "ranges": sum(name.startswith("band-") for name in dedup),
    }


def _steps(folder: Path) -> list[str]:
    """Return the steps of a run, one for each kind that datasets have."""
    names = json.loads((folder / "run.json").read_text())["steps"]
    return list(dict.fromkeys(name.partition("-")[0] for name in names))


def _run(given: argparse.Namespace, output: str, environment: dict[str, str], *more: str) -> None:
    changed = [word for one in given.set for word in ("--set", one)]
    done = subprocess.run(  # noqa: S603  # this program
        [
            *(sys.executable, "-m", "pipeline.main", "run", str(given.run), "--output", output),
            *("--workers", str(given.workers), "--quiet", *changed, *more),
        ],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr


if __name__ == "__main__":
    main()
