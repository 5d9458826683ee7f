"""Parts of an export: written one after the other, each kept in the journal, until the folder is whole.

TO.partial/parts.jsonl    what is exported, then a line a part, with the files it wrote
TO.partial/...            the files so far
TO/                       the same folder, renamed when its last part is done
TO/export.json            what it holds: every file with its size and SHA-256
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from pipeline.engine.progress import Progress
from pipeline.state.journal import LOCK, run_lock
from pipeline.state.storage import make_folder
from pipeline.system.disk_faults import disk_faults, making
from pipeline.system.stopping import signals_stop
from pipeline.tools.export.folder import (
    PARTS,
    SUMMARY,
    DonePart,
    Identity,
    Summary,
    keep_part,
    partial_of,
    read_summary,
    refuse_strangers,
    refuse_target,
    resume_parts,
)
from stages.errors import Stopped
from stages.export.files import ExportFiles
from stages.store.digests import sync_path

ExportPart = tuple[str, partial[None]]
"""The name of a part, and what writes it, given the files."""


def write_whole(
    to: Path, identity: Identity, parts: Sequence[ExportPart], *, stream: TextIO | None
) -> Summary:
    """Write all parts beside the target, and give the folder its name.

    Raises:
        ConfigError: the target or the folder beside it holds something else.
        FormatError: what an earlier call wrote was damaged.
        Stopped: by a signal, or because another process is at it.
    """
    refuse_target(to)
    folder = partial_of(to)
    with making(to, "--to"):
        make_folder(folder.absolute())
    with disk_faults(folder), run_lock(folder), signals_stop():
        if read_summary(to) is not None:
            raise Stopped(f"{to}: finished by another process in the meantime; run again to see it")
        refuse_target(to)
        refuse_strangers(folder)
        summary = _write_parts(folder, identity, parts, stream=stream)
        text = json.dumps(summary.model_dump(mode="json"), indent=1) + "\n"
        (folder / SUMMARY).write_text(text, encoding="utf-8")
        sync_path(folder / SUMMARY)
        sync_path(folder)
        folder.rename(to)  # with its lock: a free one would be taken while the name changes
        sync_path(to.absolute().parent)
    return summary


def _write_parts(
    folder: Path, identity: Identity, parts: Sequence[ExportPart], *, stream: TextIO | None
) -> Summary:
    """Write the parts that are not done, each with its line in the journal."""
    done = resume_parts(folder, identity)
    files = ExportFiles(folder, {name: file for part in done for name, file in part.files.items()})
    files.restore(besides=(PARTS, LOCK))
    names = {part.part for part in done}
    progress = Progress(None, stream)
    left = [part for part in parts if part[0] not in names]
    if done and left:
        progress.note(f"{folder}: goes on after {done[-1].part}")
    batch = progress.start("export", f"export: {identity.format}", total=len(left))
    try:
        for name, write in left:
            write(files)
            keep_part(folder, DonePart(part=name, files=files.commit()))
            batch.advance(more=False)
        batch.end()
    finally:
        progress.close()
    return Summary(identity=identity, parts=tuple(name for name, _ in parts), files=files.written)
