"""datatrove: MinHash deduplication in its four stages, and what it keeps as JSON lines.

    datatrove_dedup.py '{"corpus": ..., "output": ..., "shingle": 5, "bands": 14, "rows": 9}'

Words and normalisation are its defaults for English.
"""

import json
import sys
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter


def run(stage: str, steps: list[Any], output: Path, *, tasks: int = 1) -> None:
    """Run one stage, its tasks one after the other."""
    logs = str(output / "logs" / stage)
    LocalPipelineExecutor(pipeline=steps, tasks=tasks, workers=1, logging_dir=logs).run()


def main() -> None:
    """Run all stages, then write the ids of what was removed."""
    facts = json.loads(sys.argv[1])
    output = Path(facts["output"])
    config = MinhashConfig(
        n_grams=facts["shingle"], num_buckets=facts["bands"], hashes_per_bucket=facts["rows"]
    )
    signatures, buckets, removed = (str(output / name) for name in ("signatures", "buckets", "gone"))
    reader = JsonlReader(facts["corpus"])
    run("signatures", [reader, MinhashDedupSignature(signatures, config=config)], output)
    run(
        "buckets",
        [MinhashDedupBuckets(signatures, buckets, config=config)],
        output,
        tasks=facts["bands"],
    )
    run("cluster", [MinhashDedupCluster(buckets, removed, config=config)], output)
    gone = JsonlWriter(str(output / "excluded"), compression=None)
    kept = JsonlWriter(str(output / "kept"), compression=None)
    run("filter", [reader, MinhashDedupFilter(removed, exclusion_writer=gone), kept], output)
    names = [
        json.loads(line)["id"]
        for path in (output / "excluded").rglob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    (output / "removed.json").write_text(json.dumps(names))


if __name__ == "__main__":
    main()
