"""What all formats of rows share: what they refuse, and what a user must know besides.

Rows are those that the loader gives for one epoch, in stored order: packed, masked, cut into inputs and
targets. The trainer shuffles them, makes its masks of the columns and its loss of the labels.
"""

from collections.abc import Sequence

from stages.errors import ConfigError
from stages.export.columns import ATTENTION_MASK
from stages.export.source import ExportSource

_LABELS = {
    "unshifted": "labels[t] is input_ids[t]: the model shifts, as those of transformers do",
    "masked": "labels[t] is the token that stood at t before it was masked; nothing is shifted",
    "targets": "labels[t] is what the decoder gives at t; decoder_input_ids are shifted already",
    "replaced": "labels[t] is 1 where a token was replaced, and 0 where it was not",
    "pairs": "there are no labels: the views of a row belong together",
}


def refuse_no_rows(source: ExportSource, *, name: str) -> None:
    """Refuse a split without a row, which no reader of rows opens.

    Raises:
        ConfigError: there is no row.
    """
    if not source.columns:
        raise ConfigError(
            f"--format {name}: the split {source.split} of {source.manifest.name} has no row; export the"
            " other split alone"
        )


def row_notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    """Return what a user must know of rows, a sentence each."""
    manifest = sources[0].manifest
    convention = _LABELS.get(manifest.label_convention, "labels are those of the mixture's components")
    notes = [
        f"These are the rows of epoch {sources[0].epoch} in stored order: {_shuffling(sources)}.",
        (
            "Columns have the narrowest dtype that holds them, such as uint16; cast ids and labels to"
            " int64 before a model takes them."
        ),
        f"Of the labels, -100 is no loss; {convention}.",
        f"Attention is {manifest.attention}: docs/format.md says which columns it follows from.",
    ]
    frame = manifest.row_frame
    if frame is not None:
        begins = f"begins with the id {frame['begin']} and " if "begin" in frame else ""
        notes.append(f"Each row {begins}ends in the id {frame['end']}, whatever lies between.")
    if ATTENTION_MASK in sources[0].columns:
        notes.append("attention_mask is 1 for a token and 0 for padding, and says nothing of documents.")
    if "segment_ids" in sources[0].columns:
        notes.append("Documents in a row must not see each other: compare segment_ids; -1 is padding.")
    return tuple(notes)


def _shuffling(sources: Sequence[ExportSource]) -> str:
    """Say what shuffling does to the order of rows."""
    named = [one.split for one in sources if one.manifest.interleave == "exact"]
    if not named:
        return "shuffle them"
    return (
        f"those of {' and '.join(named)} are dealt, so each stretch of them has the sources in their"
        " shares; a trainer that shuffles them has these shares on average only"
    )
