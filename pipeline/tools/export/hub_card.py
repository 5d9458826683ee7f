"""README.md of an export for the Hugging Face Hub: the run's card, and which files are which split.

    README.md                                  metadata between lines of ---, then the card
    train/train-00000-of-00001.parquet
    validation/validation-00000-of-00001.parquet

(Hub documentation, "Data files configuration".)
"""

import json
from collections.abc import Sequence
from pathlib import Path

from pipeline.planning.kept_plan import kept_run, read_kept_plan
from pipeline.report.card import render_card
from stages.errors import ShardmillError
from stages.export.source import ExportSource

HUB_CARD = "README.md"


def hub_card(folder: Path, sources: Sequence[ExportSource]) -> str:
    """Return README.md of an export whose splits are folders of Parquet files.

    Args:
        folder: of the run; without a report there, the card says no more than where the splits are.
        sources: the splits.
    """
    name = sources[0].manifest.name
    lines = [f"configs:\n- config_name: {json.dumps(name)}\n  data_files:"]
    lines += [f"  - split: {one.split}\n    path: {one.split}/*.parquet" for one in sources]
    configs = "\n".join(lines)
    try:
        report = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
        file = kept_run(folder, read_kept_plan(folder))
        report.pop("made", None)  # versions of the moment, of which no byte of an export depends
        return render_card(report, file, configs=configs)
    except (OSError, ValueError, LookupError, TypeError, ShardmillError):
        return f"---\n{configs}\n---\n\n# {name}\n"
