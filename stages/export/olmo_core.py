"""OLMo-core: raw arrays of ids, and beside each where its documents begin and end.

    SPLIT/NNNNN.npy       <u2 or <u4 ids of a shard's documents end to end, without any header
    SPLIT/NNNNN.csv.gz    one line a document: start,end in tokens, the end not included
    SPLIT/metadata.json   dtype, vocabulary, special ids, documents and tokens of each file
    SPLIT/label_mask/NNNNN.npy   |b1 for each id, without any header: whether it has a loss, where only
                                 some have one

A real .npy would be read without an error, its header as 64 ids; these have the name alone. The
invariants: size of NNNNN.npy = tokens * itemsize, that of its mask = tokens; the first start is 0, each
other the end before it, and the last end counts all tokens. A shard without documents has no files.
"""

import glob
import gzip
import itertools
import json
from collections.abc import Sequence

import numpy as np

from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages

MASKS = "label_mask"
"""Folder of the masks, apart from the ids: a trainer reads all .npy files of a folder."""


def _dtype(source: ExportSource) -> str:
    return source.id_dtype.str.replace("i", "u")


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    if not source.manifest.shards[shard].documents:
        return
    name = f"{source.split}/{shard:05d}"
    start = 0
    with (
        files.append(f"{name}.npy") as tokens,
        files.append(f"{name}.csv.gz") as table,
        gzip.GzipFile(filename="", mode="wb", fileobj=table, mtime=0) as lines,
    ):
        for block in source.blocks(shard):
            tokens.write(block.tokens.astype(_dtype(source), copy=False))
            ends = start + np.cumsum(block.lengths)
            pairs = zip((ends - block.lengths).tolist(), ends.tolist(), strict=True)
            lines.write("".join(f"{begin},{end}\n" for begin, end in pairs).encode())
            start = int(ends[-1])
            if block.loss_mask is not None:
                files.write(f"{source.split}/{MASKS}/{shard:05d}.npy", block.loss_mask.tobytes())


def _finish(source: ExportSource, files: ExportFiles) -> None:
    manifest = source.manifest
    content = {
        "dtype": np.dtype(_dtype(source)).name,
        "vocab_size": manifest.vocab_size,
        "eos_token_id": source.eos,
        **({} if source.begin is None else {"bos_token_id": source.begin}),
        "pad_token_id": manifest.special_ids["pad"],
        "files": {
            f"{number:05d}.npy": {"documents": shard.documents, "tokens": shard.tokens}
            for number, shard in enumerate(manifest.shards)
            if shard.documents
        },
    }
    files.write(f"{source.split}/metadata.json", (json.dumps(content, indent=1) + "\n").encode())


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    manifest, begin = sources[0].manifest, sources[0].begin
    begins = "" if begin is None else f"\n    bos_token_id={begin},"
    blocks = [
        f"""\
from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, TokenizerConfig

tokenizer = TokenizerConfig(
    vocab_size={manifest.vocab_size},
    eos_token_id={sources[0].eos},{begins}
    pad_token_id={manifest.special_ids["pad"]},
)"""
    ]
    blocks += [
        f"""\
{source.split} = NumpyFSLDatasetConfig(
    tokenizer=tokenizer,
    paths=[{quoted(f"{glob.escape(folder)}/{source.split}/*.npy")}],
    expand_glob=True,{_mask_paths(source, folder)}
    dtype=NumpyDatasetDType.{np.dtype(_dtype(source)).name},
    sequence_length={manifest.seq_len},
    work_dir="work",
).build()"""
        for source in sources
    ]
    return "\n".join(blocks)


def _mask_paths(source: ExportSource, folder: str) -> str:
    """Return the line that names the masks, if there are any."""
    if not source.has_loss_mask:
        return ""
    return f"\n    label_mask_paths=[{quoted(f'{glob.escape(folder)}/{source.split}/{MASKS}/*.npy')}],"


def _notes(_: Sequence[ExportSource]) -> tuple[str, ...]:
    return (
        "The .npy files have no header: np.load refuses them, np.memmap with the dtype reads them.",
        "The fixed-length dataset drops what is left of a file after its last whole sequence.",
    )


def _stages(stages: Sequence[ExportedStage], _: str) -> TrainerStages:
    lines = ["from olmo_core.train import TrainerConfig", ""]
    for before, after in itertools.pairwise(stages):
        lines += [
            f"trainer = TrainerConfig(  # of {after.name}",
            f'    save_folder="runs/{after.name}",',
            f'    load_path="runs/{before.name}",',
            "    load_trainer_state=False,",
            ")",
        ]
    return TrainerStages(
        (
            (
                "OLMo-core trains each stage as a run of its own: load_path names the checkpoints of the"
                " stage before. load_trainer_state=False leaves the place of its data loader behind. The"
                " optimizer's state is loaded if it is there, unless load_optim_state=False."
            ),
            "The lines that read a stage's files are in the READ.md of its folder.",
        ),
        "\n".join(lines),
        "python",
    )


OLMO_CORE = Format(
    name="olmo-core",
    holds=FormatContents.DOCUMENTS,
    client="OLMo-core",
    files=(
        "SPLIT/NNNNN.npy",
        "SPLIT/NNNNN.csv.gz",
        "SPLIT/metadata.json",
        f"SPLIT/{MASKS}/NNNNN.npy",
    ),
    markers=("metadata.json",),
    loss_masks=True,
    write_part=_write_part,
    finish=_finish,
    read=_read,
    notes=_notes,
    stages=_stages,
)
