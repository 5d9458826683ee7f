"""nanoGPT: one file of uint16 ids a split, all documents end to end.

    train.bin, val.bin    <u2 ids, no header; each document closed by its EOS
    meta.pkl              {"vocab_size": V}

The invariant: size of the file = 2 * tokens. The trainer draws windows at random places, so it sees
documents side by side, as nanoGPT does with its own files.
"""

import pickle  # written, never read
from collections.abc import Sequence

from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages

MAX_VOCABULARY = 1 << 16
META = "meta.pkl"
_FILES = {"train": "train.bin", "validation": "val.bin"}


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    with files.append(_FILES[source.split]) as file:
        for block in source.blocks(shard):
            file.write(block.tokens.astype("<u2", copy=False))


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    lines = ["import numpy as np", ""]
    for source in sources:
        name = _FILES[source.split]
        lines.append(f'{name[:-4]} = np.memmap({quoted(f"{folder}/{name}")}, dtype=np.uint16, mode="r")')
    return "\n".join(lines)


def _finish(source: ExportSource, files: ExportFiles) -> None:
    if META not in files.written:
        files.write(META, pickle.dumps({"vocab_size": source.manifest.vocab_size}, protocol=4))


def _notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    absent = [name for split, name in _FILES.items() if split not in {one.split for one in sources}]
    return (
        *(
            f"There is no {name}, because this split is not exported or the run has no rows of it."
            " train.py reads both files, and stops without one: set validation.fraction of the run file,"
            " or export all splits."
            for name in absent
        ),
        "Put the files into nanoGPT's data/NAME/ and set dataset = 'NAME' in its config.",
        "meta.pkl tells train.py the size of the vocabulary, which would be 50,304 otherwise.",
        f"{sources[0].frame}; nanoGPT's own files end it in 50256.",
        "sample.py knows GPT-2's tokenizer alone: decode what it samples with the run's own.",
    )


def _stages(stages: Sequence[ExportedStage], _: str) -> TrainerStages:
    return TrainerStages(
        (
            (
                "nanoGPT has nothing for stages: put each folder into data/, and train with"
                f" dataset = '{stages[0].name}'. Then go on with init_from = 'resume', the next dataset"
                " and a larger max_iters. Its checkpoint keeps the iteration; the data are drawn at"
                " random, so they have no place."
            ),
        )
    )


NANOGPT = Format(
    name="nanogpt",
    holds=FormatContents.DOCUMENTS,
    client="nanoGPT",
    files=("train.bin", "val.bin", META),
    markers=(META,),
    write_part=_write_part,
    read=_read,
    finish=_finish,
    max_vocabulary=MAX_VOCABULARY,
    notes=_notes,
    stages=_stages,
)
