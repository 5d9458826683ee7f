"""Fields of a sample: those that documents are compared or ranked by, and of which it has no value.

The run refuses a field that no document has. A sample may only have missed it, so its run goes without.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import orjson

from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup
from pipeline.run_file.source import Source
from stages.dedup.keys import key_text
from stages.dedup.ranking import KeepColumn, rank_value


def drawn_fields(run: RunFile, sources: Sequence[Source]) -> tuple[RunFile, list[str]]:
    """Return the run with fields alone that its sample has, and a note for each that it has not.

    Args:
        run: what the sample is of.
        sources: of the sample, each a file of JSON lines.
    """
    dedup = run.dedup
    absent = set(dedup.columns)
    for source in sources if absent else ():
        with Path(source.paths[0]).open("rb") as lines:
            for line in lines:
                record = orjson.loads(line)
                absent -= {name for name in absent if _usable(record.get(name), name, dedup)}
                if not absent:
                    break
    notes = [
        f"dedup names the field {name!r}: no document of the sample has a usable value there, so nothing"
        " is compared or ranked by it here. If no document of all has one, the run is refused"
        for name in dedup.columns
        if name in absent
    ]
    ranks = isinstance(dedup.keep, KeepColumn) and dedup.keep.column in absent
    changed = {
        "url": None if dedup.url in absent else dedup.url,
        "keys": tuple(name for name in dedup.keys if name not in absent),
        "keep": "first" if ranks else dedup.keep,
    }
    return run.model_copy(update={"dedup": dedup.model_copy(update=changed)}) if notes else run, notes


def _usable(value: object, name: str, dedup: Dedup) -> bool:
    if name in dedup.value_columns:
        return key_text(value) is not None
    return not math.isnan(rank_value(value))
