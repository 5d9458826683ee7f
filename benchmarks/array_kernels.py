"""Contests of the kernels that work on arrays: similarity, buckets, packing, rows, batches."""

from collections.abc import Sequence

import numpy as np
from contest_material import MEGA, NUM_PERM, ROW_LENGTH, Material
from contests import Contest, Way
from datasketch import MinHash, MinHashLSH

from stages.dedup.buckets import BucketFiller, shared_keys
from stages.dedup.jaccard import similarities as jaccard_of
from stages.dedup.lsh import band_keys, band_shape
from stages.dedup.shingle_sets import ShingleSets
from stages.loading.dataset import open_dataset
from stages.packing.best_fit import pack_best_fit
from stages.store.ranges import copy_ranges

LSH_DOCUMENTS, LSH_PEER_DOCUMENTS = 100_000, 2_000


def similarities(material: Material) -> Contest:
    """Exact Jaccard of neighbouring documents."""
    pairs = list(zip(material.sets, material.sets[1:], strict=False))
    plain = [(set(a.tolist()), set(b.tolist())) for a, b in pairs]
    flat = np.concatenate([each for pair in pairs for each in pair])
    amount = len(flat) / MEGA

    def of_numpy() -> list[float]:
        shared = [len(np.intersect1d(a, b, assume_unique=True)) for a, b in pairs]
        return [n / (len(a) + len(b) - n) for n, (a, b) in zip(shared, pairs, strict=True)]

    ends = np.cumsum([0, *map(len, material.sets)])
    sets = ShingleSets(np.concatenate(material.sets), ends)
    rows = np.arange(len(pairs))

    def ours() -> list[float]:
        found: list[float] = jaccard_of(sets, sets, rows=(rows, rows + 1), threshold=0.0).tolist()
        return found

    def of_sets() -> list[float]:
        return [len(a & b) / len(a | b) for a, b in plain]

    assert ours() == of_sets() == of_numpy()
    return Contest(
        "exact Jaccard of two sets",
        "million hashes",
        Way("ours", ours, amount),
        [
            Way("Python sets, ready made", of_sets, amount),
            Way("numpy.intersect1d", of_numpy, amount),
            Way("limit: reading them once", flat.max, amount),
        ],
    )


def buckets(_: Material) -> Contest:
    """Signatures to candidates, all bands; a fifth of the documents repeats another's signature."""
    bands, rows = band_shape(0.8, NUM_PERM)
    generator = np.random.default_rng(1)
    matrix = generator.integers(0, 1 << 32, (NUM_PERM, LSH_DOCUMENTS), np.uint32)
    matrix[:, ::5] = matrix[:, 1::5]
    numbers = np.arange(LSH_DOCUMENTS)
    cut = [matrix[band * rows : (band + 1) * rows] for band in range(bands)]
    keys = [band_keys(band) for band in cut]
    few = [
        MinHash(NUM_PERM, hashvalues=matrix[:, n], scheme="affine32") for n in range(LSH_PEER_DOCUMENTS)
    ]

    def ours() -> int:
        found = 0
        for band in cut:
            block = (band_keys(band), numbers)
            filler = BucketFiller(shared_keys([block], room=LSH_DOCUMENTS), 64)
            found += sum(len(members) for members in filler.place([block]))
        return found

    def peer() -> int:
        index = MinHashLSH(params=(bands, rows), num_perm=NUM_PERM)
        with index.insertion_session() as session:
            for number, minhash in enumerate(few):
                session.insert(number, minhash)
        return sum(len(index.query(minhash)) for minhash in few)

    assert ours() >= bands * LSH_DOCUMENTS // 5
    return Contest(
        "signatures to candidates, 14 bands",
        "thousand documents",
        Way("ours", ours, LSH_DOCUMENTS / 1e3),
        [
            Way("datasketch MinHashLSH", peer, LSH_PEER_DOCUMENTS / 1e3),
            Way("limit: numpy.sort of the keys", lambda: list(map(np.sort, keys)), LSH_DOCUMENTS / 1e3),
        ],
    )


def packing(material: Material) -> Contest:
    """Lengths to a layout of rows."""
    lengths = np.array([len(ids) + 1 for ids in material.tokens], np.int64)
    amount = len(lengths) / 1e3
    layout = pack_best_fit(lengths, row_length=ROW_LENGTH)
    assert layout.num_rows <= len(first_fit(lengths.tolist()))
    return Contest(
        "packing, best fit",
        "thousand documents",
        Way("ours", lambda: pack_best_fit(lengths, row_length=ROW_LENGTH), amount),
        [
            Way("first fit in Python", lambda: first_fit(lengths.tolist()), amount),
            Way("limit: numpy.argsort", lambda: np.argsort(lengths, kind="stable"), amount),
        ],
    )


def first_fit(lengths: Sequence[int]) -> list[int]:
    """Return the free space of each row after first fit in document order."""
    space: list[int] = []
    for length in lengths:
        for start in range(0, length, ROW_LENGTH):
            piece = min(ROW_LENGTH, length - start)
            row = next((row for row, free in enumerate(space) if free >= piece), None)
            if row is None:
                space.append(ROW_LENGTH - piece)
            else:
                space[row] -= piece
    return space


def copying(material: Material) -> Contest:
    """Documents' tokens to rows, as their layout says."""
    lengths = np.array([len(ids) for ids in material.tokens], np.int64)
    source = np.concatenate(material.tokens)
    layout = pack_best_fit(lengths, row_length=ROW_LENGTH)
    begins = (np.cumsum(lengths) - lengths)[layout.doc] + layout.doc_offset
    rows = np.repeat(np.arange(layout.num_rows), np.diff(layout.row_ptr))
    places, counts = rows * ROW_LENGTH + layout.start, layout.length.astype(np.int64)
    target = np.zeros(layout.num_rows * ROW_LENGTH, np.uint16)
    runs = list(zip(begins.tolist(), places.tolist(), counts.tolist(), strict=True))
    again, amount = target.copy(), len(source) / MEGA

    def of_slices() -> None:
        for begin, place, count in runs:
            again[place : place + count] = source[begin : begin + count]

    def ours() -> None:
        copy_ranges(source, target, begins, places, counts)

    ours()
    of_slices()
    assert np.array_equal(target, again)
    return Contest(
        "tokens to rows",
        "million tokens",
        Way("ours", ours, amount),
        [
            Way("numpy slices in Python", of_slices, amount),
            Way("limit: numpy.copyto", lambda: np.copyto(again, target), amount),
        ],
    )


def loading(material: Material) -> Contest:
    """Stored rows to a batch of 64 as a trainer takes it: ids, labels, positions and segments."""
    dataset = open_dataset(material.run / "datasets" / "clm")
    shards = sorted((material.run / "datasets" / "clm" / "train").rglob("input_ids.npy"))
    stored = np.load(shards[0], mmap_mode="r")
    positions = np.random.default_rng(1).integers(0, len(dataset), 64)
    rows = positions % len(stored)
    amount = len(rows) * stored.shape[1] / MEGA
    return Contest(
        "rows to a batch",
        "million tokens",
        Way("ours", lambda: dataset.batch(positions), amount),
        [
            Way(
                "limit: numpy.take, four times, to int64",
                lambda: [np.take(stored, rows, axis=0).astype(np.int64) for _ in range(4)],
                amount,
            )
        ],
    )
