r"""Megatron-LM's IndexedDataset: ids in one file, where each sequence and document lies in another.

    PREFIX.bin    ids end to end, no header
    PREFIX.idx    0   9 B       b"MMIDIDX\0\0"
                  9   u64       1, the version
                  17  u8        8 for <u2 ids, 4 for <i4
                  18  u64       S, sequences
                  26  u64       D, documents + 1
                  34  i32[S]    tokens of each sequence
                      i64[S]    byte in the .bin where each begins
                      i64[D]    sequence where each document begins, and S at the end

PREFIX is the name of the split. `megatron` has one sequence a document, which is what GPT datasets read.
`megatron-sentences` has one a sentence, as BERT and T5 datasets want: they mask by themselves, so what
they can be given is text in sentences, and no row of ours. The .bin is the same in both.

Ids are <u2 below a vocabulary of 65,500 and <i4 from there on, as Megatron's own writer chooses; there
is no code for u32. The invariants: the last pointer and the bytes of its sequence give the size of the
.bin; the last document index is S. GPT-NeoX reads the same two files.
"""

import shlex
import struct
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, FormatError
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages

MAGIC = b"MMIDIDX\x00\x00"
I32_LIMIT = 1 << 31
U16_VOCABULARY = 65_500
"""The least vocabulary for which Megatron's writer takes i32."""
CODES = {"<u2": 8, "<i4": 4}
_DATA_FLAGS = {"train": "--train-data-path", "validation": "--valid-data-path"}


def _dtype(source: ExportSource) -> str:
    return "<u2" if source.manifest.vocab_size < U16_VOCABULARY else "<i4"


def _refuse(source: ExportSource) -> None:
    """Refuse what the 32-bit numbers of Megatron's index cannot count."""
    if source.manifest.totals.documents >= I32_LIMIT:
        raise ConfigError(
            f"--format megatron: counts documents in 32 bits, but {source.manifest.name} has"
            f" {source.manifest.totals.documents:,} in {source.split}; make datasets of its sources"
        )
    for number, shard in enumerate(source.manifest.shards):
        longest = int(source.lengths(number).max(initial=0)) if shard.tokens >= I32_LIMIT else 0
        if longest >= I32_LIMIT:
            raise ConfigError(
                f"--format megatron: sequences are below {I32_LIMIT:,} tokens, but a document of"
                f" {source.manifest.name}/{source.split} has {longest:,}; lower"
                " ingest.max_document_bytes and run again, or export it as olmo-core"
            )


def _refuse_sentences(source: ExportSource) -> None:
    """Refuse datasets that do not say where sentences end."""
    _refuse(source)
    if not source.has_sentences:
        raise ConfigError(
            f"--format megatron-sentences: {source.manifest.name} does not store where sentences end;"
            " datasets of kind nsp, sop, and bart with a permute_probability (preset mbart) do: add one"
            " to the run file, run again and export that"
        )
    found = (source.sentences(shard) for shard in range(source.num_shards))
    total = sum(len(sentences.values) for sentences in found if sentences is not None)
    if total >= I32_LIMIT:
        raise ConfigError(
            f"--format megatron-sentences: counts sequences in 32 bits, but there are {total:,}; make"
            " datasets of its sources"
        )


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    with files.append(f"{source.split}.bin") as file:
        for block in source.blocks(shard):
            file.write(block.tokens.astype(_dtype(source), copy=False))


def _sequences(source: ExportSource, *, split: bool) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield, shard by shard, the tokens of each sequence and the sequences of each document."""
    for shard in range(source.num_shards):
        lengths = source.lengths(shard)
        if not split:
            yield lengths, np.ones_like(lengths)
            continue
        found = source.sentences(shard)
        assert found is not None, "refused before"
        counts = np.diff(found.ptr)
        first = np.repeat(np.cumsum(lengths) - lengths, counts)
        sizes = np.diff(first + found.values, prepend=0)
        last = found.values[found.ptr[1:] - 1] if (counts > 0).all() else lengths - 1
        if (last != lengths).any() or (sizes < 1).any():
            raise FormatError(
                f"{source.place(shard)}: sentences do not add up to their documents; `shardmill verify`"
                " names all that is wrong"
            )
        yield sizes, counts


def _finish(source: ExportSource, files: ExportFiles, *, split: bool) -> None:
    """Write the index, in passes over the shards: it is never held whole."""
    dtype = np.dtype(_dtype(source))
    total = sum(len(lengths) for lengths, _ in _sequences(source, split=split))
    documents = source.manifest.totals.documents + 1
    with files.append(f"{source.split}.idx") as file:
        file.write(struct.pack("<9sQBQQ", MAGIC, 1, CODES[dtype.str], total, documents))
        for lengths, _ in _sequences(source, split=split):
            file.write(lengths.astype("<i4"))
        begin = 0
        for lengths, _ in _sequences(source, split=split):
            ends = begin + np.cumsum(lengths * dtype.itemsize)
            file.write((ends - lengths * dtype.itemsize).astype("<i8"))
            begin = int(ends[-1]) if len(ends) else begin
        file.write(np.zeros(1, "<i8"))
        begin = 0
        for _, counts in _sequences(source, split=split):
            ends = begin + np.cumsum(counts)
            file.write(ends.astype("<i8"))
            begin = int(ends[-1]) if len(ends) else begin


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    lines = ["from megatron.core.datasets.indexed_dataset import IndexedDataset", ""]
    lines += [
        f"{source.split} = IndexedDataset({quoted(f'{folder}/{source.split}')})" for source in sources
    ]
    return "\n".join(lines)


def _notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    given = " ".join(f"{_DATA_FLAGS[source.split]} {source.split}" for source in sources)
    notes = [
        f"For Megatron's scripts: {given}.",
        f"{sources[0].frame}, which must be the tokenizer's eod.",
    ]
    special = sources[0].manifest.special_ids
    if special["pad"] != special["eos"]:
        notes.append(f"The pad id {special['pad']} stands in no document.")
    if any(source.manifest.totals.tokens >= I32_LIMIT for source in sources):
        notes.append(
            f"A slice train[a:b] of {I32_LIMIT:,} tokens or more overflows in Megatron's 32-bit sums;"
            " single sequences and its GPT, BERT and T5 datasets take none."
        )
    return tuple(notes)


def _notes_sentences(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    return (
        *_notes(sources),
        "A sequence is a sentence; Megatron's BERT with its sentence head passes over documents of one.",
    )


def _stages(stages: Sequence[ExportedStage], folder: str) -> TrainerStages:
    ends = ",".join(f"END_{number}" for number in range(1, len(stages)))
    lines = []
    for number, stage in enumerate(stages, 1):
        begins = "from the beginning" if number == 1 else f"from the checkpoint of END_{number - 1}"
        flag = _DATA_FLAGS[stage.sources[0].split]
        lines += [
            f"# launch {number}, {begins}: {stage.name}",
            f"{flag} {shlex.quote(stage.place(folder))} --phase-transition-iterations {ends}",
        ]
    return TrainerStages(
        (
            (
                "Megatron-LM has phases: a launch for each stage, all with the same"
                " --phase-transition-iterations, which are the iterations at which a stage ends, and"
                " with the --train-samples of all stages together. At each of them it saves and exits;"
                " the next launch counts the samples of its stage from 0."
            ),
            (
                "The global batch size must stay the same, for samples are counted as iterations times"
                " that size. Which data a launch reads, its flags alone say: give those of the stage."
            ),
        ),
        "\n".join(lines),
        "sh",
    )


MEGATRON = Format(
    name="megatron",
    holds=FormatContents.DOCUMENTS,
    client="Megatron-LM, GPT-NeoX",
    files=("SPLIT.bin", "SPLIT.idx"),
    markers=(".idx",),
    write_part=_write_part,
    finish=partial(_finish, split=False),
    refuse=_refuse,
    read=_read,
    notes=_notes,
    stages=_stages,
)
MEGATRON_SENTENCES = Format(
    name="megatron-sentences",
    holds=FormatContents.DOCUMENTS,
    client="Megatron-LM: BERT, T5",
    files=("SPLIT.bin", "SPLIT.idx"),
    markers=(".idx",),
    write_part=_write_part,
    finish=partial(_finish, split=True),
    refuse=_refuse_sentences,
    needs_sentences=True,
    read=_read,
    notes=_notes_sentences,
    stages=_stages,
)
