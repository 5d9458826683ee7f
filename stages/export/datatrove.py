"""datatrove, and nanotron which reads its files: raw ids, where documents end, a line for people.

    SPLIT/NNNNN.ds            <u2 or <u4 ids of a shard's documents end to end, no header
    SPLIT/NNNNN.ds.index      <u8[documents] where each document ends, in tokens from the file's start
    SPLIT/NNNNN.ds.metadata   TOKENIZER|bytes of a token, tokens, and the same for people: three lines
    SPLIT/NNNNN.ds.loss       |u1[tokens] 1 where a token has a loss, else 0; where only some have one

The invariant: the last end of the index * bytes of a token = size of the .ds. A shard without documents
has no files. datatrove writes and checks the .loss file, but its dataset does not read it.
"""

import math
from collections.abc import Sequence

import numpy as np

from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages, same_length, windows


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    if not source.manifest.shards[shard].documents:
        return
    name, dtype = f"{source.split}/{shard:05d}.ds", source.id_dtype
    end = 0
    with files.append(name) as tokens, files.append(f"{name}.index") as index:
        for block in source.blocks(shard):
            tokens.write(block.tokens)
            ends = end + np.cumsum(block.lengths)
            index.write(ends.astype("<u8"))
            end = int(ends[-1])
            if block.loss_mask is not None:
                files.write(f"{name}.loss", block.loss_mask.tobytes())
    about = f"{source.tokenizer}|{dtype.itemsize}\n{end}\n{human_count(end)}"
    files.write(f"{name}.metadata", about.encode())


def human_count(tokens: int) -> str:
    """Return three digits of a number of tokens: 7012186 -> 7.01 MT."""
    power = math.floor(math.log10(tokens)) if tokens else 0
    shown = f"{tokens / 10 ** (power // 3 * 3):.{2 - power % 3}f}"
    return f"{shown} {' kMGTPE'[power // 3].strip()}T"


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    lines = ["from datatrove.utils.dataset import DatatroveFolderDataset", ""]
    lines += [
        f"{source.split} = DatatroveFolderDataset({quoted(f'{folder}/{source.split}')}, token_size="
        f"{source.id_dtype.itemsize}, seq_len={source.manifest.seq_len})"
        for source in sources
    ]
    return "\n".join(lines)


def _notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    notes = (
        "Windows of seq_len + 1 tokens do not overlap; what is left at the end of a file is not read.",
        f"With return_positions=True, positions are those of the index. {sources[0].frame}.",
    )
    if not sources[0].has_loss_mask:
        return notes
    return (
        *notes,
        (
            "NNNNN.ds.loss has a byte for each token, 1 where it has a loss. DatatroveFolderDataset does"
            " not read it: without it, prompts are learned too."
        ),
    )


def _stages(stages: Sequence[ExportedStage], folder: str) -> TrainerStages:
    lines, before = ["data_stages:"], 0
    for number, stage in enumerate(stages, 1):
        source = stage.sources[0]
        step = "1" if number == 1 else f"STEP_{number}  # 1 + {before} // GLOBAL_BATCH_SIZE"
        before += windows(stage)
        lines += [
            f"- name: {quoted(stage.name)}",
            f"  start_training_step: {step}",
            "  data:",
            f"    seed: {source.manifest.seed}",
            "    num_loading_workers: 1",
            "    dataset:",
            f"      dataset_folder: [{quoted(stage.place(folder))}]",
            f"      tokenizer_name: {quoted(source.tokenizer)}",
            f"      vocab_size: {source.manifest.vocab_size}",
            f"      token_size_in_bytes: {source.id_dtype.itemsize}",
        ]
    notes = [
        (
            "nanotron goes from stage to stage by itself: `data_stages` of its config has the step at"
            " which each begins, the first at 1. A checkpoint counts what each stage has consumed."
        ),
        (
            "STEP_N below counts one pass over the windows of the stages before it; fill in the numbers,"
            " and let train_steps reach the end of the last. DatatroveFolderDataset knows no stages."
        ),
    ]
    if not same_length(stages):
        notes.append(
            "Rows of these stages differ in length, but nanotron has one tokens.sequence_length for all:"
            " train with it stage by stage, from checkpoint to checkpoint, if it is to change."
        )
    return TrainerStages(tuple(notes), "\n".join(lines), "yaml")


DATATROVE = Format(
    name="datatrove",
    holds=FormatContents.DOCUMENTS,
    client="datatrove, nanotron",
    files=("SPLIT/NNNNN.ds", "SPLIT/NNNNN.ds.index", "SPLIT/NNNNN.ds.metadata", "SPLIT/NNNNN.ds.loss"),
    markers=(".ds.index",),
    loss_masks=True,
    write_part=_write_part,
    read=_read,
    notes=_notes,
    stages=_stages,
)
