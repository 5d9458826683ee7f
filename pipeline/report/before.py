"""Before: what was there when nothing was removed or cut: documents by language, repeated text."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.report.part import Part
from stages.stores.mounts import files_of, here

_SHOWN = 20
"""Repeated texts, those that were cut most often."""
_MOST_COUNTED = 1_000_000
"""Cuts that are counted; of more, their texts would not fit into memory."""


class RepeatedText(Part):
    """A text that was cut out of documents, since it stands in an earlier one."""

    method: str
    """paragraph, line or substring."""
    excerpt: str
    """Its beginning."""
    cuts: int
    """How many begin so."""
    bytes: int
    """Of all of them."""


def languages_before(output: Path) -> dict[str, int] | None:
    """Return how many documents were read and not dropped in each language; None if that is unknown."""
    counts: Counter[str] = Counter()
    try:
        for place in files_of(output / "ingest"):
            if place.name != "documents.parquet":
                continue
            found = pq.read_table(here(place), columns=["language"], use_threads=False)["language"]
            pairs = pc.value_counts(found).to_pylist()
            counts.update({pair["values"]: pair["counts"] for pair in pairs})
    except (pa.ArrowException, OSError):  # damaged: `verify` names it
        return None
    return dict(sorted(counts.items())) or None


def repeated_texts(output: Path) -> tuple[RepeatedText, ...]:
    """Return the texts that were cut most often out of documents, most bytes first."""
    place = here(output / "dedup" / "cuts.parquet")
    cuts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    try:
        with pq.ParquetFile(place) as table:
            seen = 0
            for batch in table.iter_batches(columns=["method", "excerpt", "cut_bytes"]):
                for row in batch.to_pylist():
                    key = row["method"], row["excerpt"]
                    cuts[key] += 1
                    sizes[key] += row["cut_bytes"]
                seen += len(batch)
                if seen >= _MOST_COUNTED:
                    break
    except (pa.ArrowException, OSError):  # none, or damaged
        return ()
    most = sorted(sizes, key=lambda key: (-sizes[key], key))[:_SHOWN]
    return tuple(
        RepeatedText(method=key[0], excerpt=key[1], cuts=cuts[key], bytes=sizes[key]) for key in most
    )
