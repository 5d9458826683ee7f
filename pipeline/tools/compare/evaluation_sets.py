"""Evaluation sets: held-out rows of a dataset, of all documents or of one source or language.

    NAME=RUN/datasets/DATASET               every held-out document
    NAME=RUN/datasets/DATASET:source=web    those of one source of the run
    NAME=RUN/datasets/DATASET:language=fi   those of one language

Rows are read whole: what is not asked about stays in its row, without labels. Documents of a row do not
see each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.planning.outputs import require_local
from pipeline.run_file.datasets import SPLITS, finished_splits
from stages.errors import ConfigError
from stages.loading.arguments import no_rows
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.mapped import map_shard
from stages.verify.examples import labelled_rows
from stages.verify.rows import NO_LABEL, LabelledRows, join_rows, predicted_labels, take_rows

_COLUMNS = ("source", "language")
_READ = 64
"""Rows read at a time."""
_FORM = "write NAME=RUN/datasets/DATASET; :source=SOURCE or :language=LANGUAGE may follow"


@dataclass(frozen=True, eq=False)
class AskedSet:
    """An evaluation set that a call asks for.

    Args:
        text: as it was asked for.
        dataset: its validation split, as it is stored.
        column: by which documents are chosen; None takes all.
        value: of the column.
    """

    text: str
    dataset: ShardDataset
    column: str | None = None
    value: str = ""


def read_asked(texts: Sequence[str]) -> dict[str, AskedSet]:
    """Return the evaluation sets that a call names.

    Raises:
        ConfigError: a text of another form, a name given twice, or no validation split.
    """
    found: dict[str, AskedSet] = {}
    for text in texts:
        name, separator, place = text.partition("=")
        if not separator or not name or not place or "/" in name:
            raise ConfigError(f"--evaluate {text}: {_FORM}")
        if name in found:
            raise ConfigError(f"--evaluate {text}: {name} is named twice; give each set its own name")
        found[name] = _asked(text, place)
    return found


def _asked(text: str, place: str) -> AskedSet:
    folder, _, choice = place.rpartition(":")
    column, _, value = choice.partition("=")
    if folder and value and column in _COLUMNS:
        return AskedSet(
            text, open_heldout(require_local(Path(folder), "--evaluate"), text), column, value
        )
    return AskedSet(text, open_heldout(require_local(Path(place), "--evaluate"), text))


def open_heldout(folder: Path, text: str) -> ShardDataset:
    """Return the validation split of a dataset, as it is stored.

    Raises:
        ConfigError: there is none, or it has no row.
    """
    if SPLITS[1] not in finished_splits(folder):
        raise ConfigError(
            f"--evaluate {text}: {folder} has no validation split; name the folder of a dataset whose"
            " run has validation.fraction above 0"
        )
    dataset = open_dataset(folder, split=SPLITS[1], shuffle=False)
    if not len(dataset):
        raise ConfigError(f"--evaluate {text}: {no_rows(folder, SPLITS[1])}")
    return dataset


def heldout_rows(asked: AskedSet, *, most_tokens: int) -> LabelledRows:
    """Return rows with labels on the documents asked for, in an order that is always the same.

    Raises:
        ConfigError: no document is of the source or language.
        DataError: no row has a label.
    """
    dataset = asked.dataset
    order = np.random.default_rng(0).permutation(len(dataset))
    shards = [_chosen_segments(asked, number) for number in range(len(dataset.manifest.shards))]
    length = max(dataset.widths.stored, dataset.manifest.seq_len) + 1
    parts: list[LabelledRows] = []
    tokens = 0
    for first in range(0, len(order), _READ):
        rows = order[first : first + _READ]
        batch = dict(dataset.at(0, rows))
        for labels, segment_ids, row in zip(batch["labels"], batch["segment_ids"], rows, strict=True):
            shard, number = dataset.locate(int(row))
            row_ptr, chosen = shards[shard]
            own = chosen[row_ptr[number] : row_ptr[number + 1]]
            labels[~_chosen_positions(segment_ids, own)] = NO_LABEL
        made = labelled_rows(batch, dataset.objective, dataset.vocabulary, length=length)
        counts = np.count_nonzero(predicted_labels(made) != NO_LABEL, axis=1)
        used = np.flatnonzero(counts)
        ends = tokens + np.cumsum(counts[used])
        used = used[: int(np.searchsorted(ends, most_tokens)) + 1]
        tokens += int(counts[used].sum())
        parts.append(take_rows(made, used))
        if tokens >= most_tokens:
            break
    if not tokens:
        what = f" of {asked.column} {asked.value!r}" if asked.column else ""
        raise ConfigError(
            f"--evaluate {asked.text}: its validation split holds no text{what}{_there(asked)}; name"
            " another, or hold out more documents"
        )
    return join_rows(parts)


def _chosen_positions(segment_ids: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say of each position whether its segment is asked about."""
    if not len(chosen):
        return np.zeros(len(segment_ids), np.bool_)
    inside = (segment_ids >= 0) & (segment_ids < len(chosen))
    return inside & chosen[np.clip(segment_ids, 0, len(chosen) - 1)]


def _chosen_segments(asked: AskedSet, number: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where the segments of a shard's rows begin, and which of them are asked about."""
    dataset = asked.dataset
    shard = dataset.manifest.shards[number]
    segments = map_shard(dataset.folder, shard, dataset.manifest).own_segments
    documents = np.asarray(segments["doc"], np.int64)
    chosen = np.ones(len(documents), np.bool_)
    if asked.column is not None:
        table = pq.read_table(_listed(dataset, number), columns=[asked.column])
        equal = pc.equal(table.column(asked.column).cast("string"), asked.value)
        chosen = pc.is_in(equal, pa.array([True])).to_numpy()[documents]  # null is no value
    return np.asarray(segments["row_ptr"], np.int64), chosen


def _there(asked: AskedSet) -> str:
    """Say which sources or languages there are."""
    if asked.column is None:
        return ""
    found: set[str] = set()
    for number in range(len(asked.dataset.manifest.shards)):
        table = pq.read_table(_listed(asked.dataset, number), columns=[asked.column])
        found |= {str(value) for value in table.column(asked.column).unique().to_pylist()}
    some = sorted(found)[:10]
    return f" (there are {', '.join(some)}{', ...' if len(found) > len(some) else ''})"


def _listed(dataset: ShardDataset, number: int) -> Path:
    return dataset.folder / dataset.manifest.shards[number].path / "documents.parquet"
