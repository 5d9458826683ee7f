"""Ingest: input files to cleaned documents with ids, languages, digests and MinHash signatures.

    reading -> making -> files

Each part of a file, or of a bundle of small ones, is a unit: its records are read, cleaned, filtered and
signed one after the other, and go to files a row group at a time, so that memory follows the row group
and not the unit.
"""

from collections import Counter

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.files import part_files
from pipeline.steps.ingest.making import making_of
from pipeline.steps.ingest.reading import InputPart, Reading
from pipeline.steps.ingest.record import PartRecord, column_counts
from pipeline.steps.units import RAGGED
from stages.columns import Drop
from stages.identity import document_id
from stages.ledger import Flow, IdSum


def ingest_part(workspace: Workspace, part: InputPart) -> PartRecord:
    """Read, clean and filter one part, and sign its documents."""
    reading, making, received = Reading(workspace, part), making_of(workspace, part), IdSum()
    with part_files(workspace, part) as files:
        for record in reading.records():
            path, own_id = reading.file.path, None if isinstance(record, Drop) else record.own_id
            received.add(document_id(part.source, path, record.position))
            record = making.write(record)  # noqa: PLW2901  # nor is a dialogue beside its text
            made = making.make(record, path)
            del record  # a long text is not held beside the row group that it goes to
            if isinstance(made, Drop):
                files.drops.add(made, path, own_id)
            else:
                files.add(made, path)
                del made
                if files.full:
                    files.write()
    dialogues, drops, columns = making.dialogues, files.drops, reading.columns
    flow = Flow(
        input=received.tally(), output=files.written.tally(bytes=files.text_bytes), gone=drops.tallies()
    )
    return PartRecord(
        source=part.source,
        label=part.label,
        part=part.number,
        next=reading.next,
        covered=reading.covered,
        columns=column_counts(columns),
        read=flow.input.documents,
        documents=flow.output.documents,
        text_bytes=files.text_bytes,
        sections=RAGGED if dialogues else len(part.fields.text_columns),
        keep_columns=part.fields.keep_columns,
        too_long=files.too_long,
        cleaned=making.cleaned + (dialogues.cleaned if dialogues else 0),
        drops=dict(sorted(drops.counts.items())),
        named=tuple(drops.named),
        unreadable=tuple(drops.unreadable),
        changes=dict(sorted(making.changes.items())),
        samples=making.samples,
        roles=dict(sorted(dialogues.roles.items())) if dialogues else {},
        compared=files.compared.counts,
        further_lines=columns.further_lines,
        further_unreadable=drops.further_unreadable,
        noticed=dict(
            sorted((columns.noticed + (dialogues.noticed if dialogues else Counter())).items())
        ),
        flow=flow,
    )
