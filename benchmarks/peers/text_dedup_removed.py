"""text-dedup: write the ids that are in a corpus and not in what it kept.

text_dedup_removed.py '{"corpus": ..., "output": ...}'
"""

import json
import sys
from pathlib import Path

from datasets import load_from_disk


def main() -> None:
    """Read both."""
    facts = json.loads(sys.argv[1])
    output = Path(facts["output"])
    kept = set(load_from_disk(str(output / "kept"))["id"])
    names = [
        json.loads(line)["id"]
        for path in sorted(Path(facts["corpus"]).glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]
    ]
    (output / "removed.json").write_text(json.dumps([name for name in names if name not in kept]))


if __name__ == "__main__":
    main()
