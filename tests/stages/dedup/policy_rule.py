"""The rule of deduplication in plain loops, for every policy: from records alone."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from datasketch import MinHash, MinHashLSH

from pipeline.run_file.deduplication import Dedup
from stages.cleaning.text import clean_text
from stages.dedup.containment import WINDOW
from stages.dedup.keys import normal_url
from stages.dedup.ranking import KeepColumn
from stages.dedup.shingles import hash32, shingle_hashes, split_tokens

ORDER = ("exact", "minhash", "containment", "url", "key:doi", "key:isbn")
Edges = dict[tuple[int, int], dict[str, float]]
"""(better, worse) -> method -> similarity."""


@dataclass
class Record:
    """A document as its file has it."""

    source: str
    fields: dict[str, Any]

    @property
    def text(self) -> str:
        """What is compared."""
        return clean_text(self.fields["text"])


@dataclass
class Decided:
    """What is decided of a corpus; documents are numbers in canonical order."""

    removed: dict[int, tuple[int, float | None, str]] = field(default_factory=dict)
    """Of each that goes: the kept one, their similarity, the method."""
    clusters: dict[int, int] = field(default_factory=dict)
    """Of each that has a duplicate: the best-ranked of its cluster."""


def decide_plainly(
    records: list[Record], dedup: Dedup, rules: Mapping[str, object], sources: list[str]
) -> Decided:
    """Return what the rule decides; `sources` are in the order of the run file."""
    rank = ranks(records, dedup, sources)
    by_rank = sorted(range(len(records)), key=rank.__getitem__)
    salt = [one.source if rules.get(one.source) == "within" else None for one in records]
    taking = [n for n in by_rank if rules.get(records[n].source, True) is not False]
    equal = {"exact": classes(taking, lambda n: (records[n].text, salt[n]))}
    if dedup.url is not None:
        equal["url"] = classes(
            taking, lambda n: keyed(records[n].fields.get(dedup.url or ""), salt[n], url=True)
        )
    for name in dedup.keys:
        equal[f"key:{name}"] = classes(taking, lambda n: keyed(records[n].fields.get(name), salt[n]))  # noqa: B023
    firsts = [n for n in taking if equal["exact"].get(n, n) == n]
    edges: Edges = defaultdict(dict)
    shingles = {n: shingles_of(records[n].text, dedup.minhash.size) for n in firsts}
    if dedup.near:
        near_edges(edges, shingles, salt, dedup)
    if dedup.containment is not None:
        contained_edges(edges, {n: (records[n].text, shingles[n]) for n in firsts}, salt, dedup)
    decided = Decided(removed=removals(taking, rank, equal, edges))
    links = [*edges, *((first, n) for found in equal.values() for n, first in found.items())]
    if rules:
        links += list(classes(by_rank, lambda n: records[n].text).items())
    decided.clusters = clusters(links, rank)
    return decided


def ranks(records: list[Record], dedup: Dedup, sources: list[str]) -> list[tuple[Any, ...]]:
    """Return what sorts documents, the best first."""
    named = list(dedup.source_order)
    order = [*named, *(name for name in sources if name not in named)]

    def own(number: int) -> tuple[Any, ...]:
        record = records[number]
        place = order.index(record.source) if named else 0
        keep: tuple[float, ...] = (0.0,)
        if dedup.keep == "longest":
            keep = (-len(record.text.encode()),)
        elif isinstance(dedup.keep, KeepColumn):
            value = record.fields.get(dedup.keep.column)
            sign = -1 if dedup.keep.order == "highest" else 1
            keep = (0, sign * float(value)) if isinstance(value, int | float) else (1, 0.0)
        return (place, keep, number)

    return [own(number) for number in range(len(records))]


def keyed(value: object, salt: str | None, *, url: bool = False) -> object:
    """Return the key of a value, None without one."""
    if not isinstance(value, str | int) or not str(value).strip():
        return None
    text = str(value).strip()
    own = normal_url(text) if url else text
    return None if own is None else (own, salt)


def classes(by_rank: Iterable[int], key: Callable[[int], object]) -> dict[int, int]:
    """Return the best-ranked document of the same key, of each that is not it."""
    firsts: dict[object, int] = {}
    found = {}
    for number in by_rank:
        own = key(number)
        if own is not None and firsts.setdefault(own, number) != number:
            found[number] = firsts[own]
    return found


def shingles_of(text: str, size: int) -> list[str]:
    """Return the shingles of a text in order."""
    tokens = split_tokens(text)
    ends = range(min(size, len(tokens)), len(tokens) + 1)
    return [" ".join(tokens[max(0, end - size) : end]) for end in ends] if tokens else []


def bucket_pairs(buckets: Mapping[object, list[int]], limit: int) -> Iterable[tuple[int, int]]:
    """Yield what each document of a bucket is compared with: its `limit` best-ranked, if better."""
    for bucket in buckets.values():
        for place, worse in enumerate(bucket):
            yield from ((better, worse) for better in bucket[: min(place, limit)])


def near_edges(
    edges: Edges, shingles: dict[int, list[str]], salt: list[str | None], dedup: Dedup
) -> None:
    """Add the pairs that share a band and reach the threshold; documents come in rank order."""
    config = dedup.minhash
    index = MinHashLSH(threshold=config.threshold, num_perm=config.num_perm, weights=(0.1, 0.9))
    buckets: defaultdict[object, list[int]] = defaultdict(list)
    for number, own in shingles.items():
        sketch = MinHash(num_perm=config.num_perm, seed=1, scheme="affine32", hashfunc=hash32)
        sketch.update_batch([shingle.encode() for shingle in set(own)])
        for band in range(index.b):
            rows = sketch.hashvalues[band * index.r : (band + 1) * index.r]
            buckets[(salt[number], band, *rows.tolist())].append(number)
    for better, worse in bucket_pairs(buckets, config.max_candidates):
        a, b = set(shingles[better]), set(shingles[worse])
        if a | b and len(a & b) / len(a | b) >= config.threshold:
            edges[better, worse]["minhash"] = len(a & b) / len(a | b)


def contained_edges(
    edges: Edges, texts: dict[int, tuple[str, list[str]]], salt: list[str | None], dedup: Dedup
) -> None:
    """Add the pairs of which the worse one stands inside of the better one."""
    config = dedup.containment
    assert config is not None
    buckets: defaultdict[object, list[int]] = defaultdict(list)
    selected: dict[int, set[int]] = {}
    for number, (text, _) in texts.items():
        hashes = shingle_hashes(text, size=dedup.minhash.size).tolist()
        windows = [hashes[end - WINDOW : end] for end in range(WINDOW, len(hashes) + 1)]
        selected[number] = {min(window) for window in windows} if windows else set(hashes)
        for value in selected[number]:
            buckets[salt[number], value].append(number)
    for (better, worse), shared in Counter(bucket_pairs(buckets, config.max_candidates)).items():
        a, b = set(texts[worse][1]), set(texts[better][1])
        enough = shared >= max(1, math.ceil(len(selected[worse]) * config.threshold / 2 - 1e-9))
        if enough and a and len(a & b) / len(a) >= config.threshold:
            edges[better, worse]["containment"] = len(a & b) / len(a)


def removals(
    taking: list[int], rank: list[tuple[Any, ...]], equal: dict[str, dict[int, int]], edges: Edges
) -> dict[int, tuple[int, float | None, str]]:
    """Decide in rank order."""
    better_of: defaultdict[int, list[int]] = defaultdict(list)
    for better, worse in edges:
        better_of[worse].append(better)
    removed: dict[int, tuple[int, float | None, str]] = {}
    kept: dict[str, dict[int, int]] = {name: {} for name in equal}
    """Of each sort of values, of the best-ranked of a class, the one of it that is kept."""
    text_fate: dict[int, tuple[int, float | None, str]] = {}
    texts = equal["exact"]
    for number in taking:
        first = texts.get(number, number)
        found: list[tuple[int, float | None, str]] = []
        for better in better_of[number]:
            held = kept["exact"].get(texts.get(better, better))
            if held is not None:
                found += [(held, s, m) for m, s in edges[better, number].items()]
        if first == number and found:
            text_fate[number] = min(found, key=lambda one: (rank[one[0]], ORDER.index(one[2])))
        found = [text_fate[first]] if first in text_fate else []
        for method, same in equal.items():
            best = same.get(number, number)
            if best != number and best in kept[method]:
                found.append((kept[method][best], 1.0 if method == "exact" else None, method))
        if found:
            removed[number] = min(found, key=lambda one: (rank[one[0]], ORDER.index(one[2])))
        else:
            for method, same in equal.items():
                kept[method][same.get(number, number)] = number
    return removed


def clusters(links: Iterable[tuple[int, int]], rank: list[tuple[Any, ...]]) -> dict[int, int]:
    """Return the best-ranked member of every connected component of more than one."""
    links = list(links)
    best = {number: number for link in links for number in link}
    changed = True
    while changed:
        changed = False
        for a, b in links:
            least = min(best[a], best[b], key=rank.__getitem__)
            changed |= best[a] != least or best[b] != least
            best[a] = best[b] = least
    return best
