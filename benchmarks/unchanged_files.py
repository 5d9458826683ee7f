"""What two runs of one case must have in common: their files, and what was printed.

Bytes are compared first. Where they differ, JSON is compared without what no two runs share: times,
CPU and memory, process ids, names of attempts. Pages and printed text are compared with their dates,
seconds and memory masked, and with the folder of the case called WORK.
"""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any

OWN = ("*lock", "*/tmp/*", "*metrics.prom", "*log.jsonl", "*commits/scan/*", "*scan/*/blocks.npy")
"""Files of one session alone: who holds the folder, what happened when, and when inputs were written."""
_NUMBER = re.compile(r"\b\d[\d,]*\b")
_VOLATILE = re.compile(
    r"(^|_)(seconds|began|ended|time|wait_share|cpu|memory|rss|attempt|pid|workers|tokens_per_second|bytes_per_second|mtime_ns"
    r"|ctime_ns|inode|device)$"
)
"""Fields of JSON that no two runs share."""
_TIMED = ("*commits/verify-*",)
"""Commits whose records have seconds, so that their seals are no two runs' either."""
_SEALS = {"xxh3", "units"}
"""Fields of a commit: its own seal, and those of the units of a step."""
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?( UTC|Z)?"), "DATE"),
    (re.compile(r"\b\d[\d,]*\.\d+\b"), "N"),
    (
        re.compile(
            r"\b[\dN][\d,]*( |&nbsp;|&#160;|\u202f|\u00a0)?(ms|s|min|h|MiB|GiB|KiB/s|MB/s|MiB/s|%)\b"
        ),
        "AMOUNT",
    ),
    (re.compile(r"\b[\dN][\d,]* (CPU|worker|wall) (s|seconds|min)\b"), "AMOUNT"),
    (re.compile(r"\b[\dN][\d,]* tokens( a second|/s)"), "AMOUNT"),
    (re.compile(r"AMOUNT( AMOUNT)+"), "AMOUNT"),
    (re.compile(r"(?m)^(\S+) .*\b[\dN]+ to [\dN]+\b.*$"), r"\1 STEP"),
    (re.compile(r"[ \u2500\u2501]{2,}"), "  "),
)
"""What no two runs share in texts. Numbers with a decimal point are times, shares or places in pictures;
report.json has all that is counted."""


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a case by their paths in it, without those of a session alone."""
    files = ((path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*")))
    return {
        name: path
        for name, path in files
        if path.is_file() and not path.is_symlink() and not any(fnmatch(name, one) for one in OWN)
    }


def differences(before: Path, after: Path, *, but: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the paths of two folders of a case that differ, and how.

    Args:
        before: a folder.
        after: the other.
        but: patterns of paths that may differ.
    """
    left, right = files_of(before), files_of(after)
    for name in sorted(left.keys() | right.keys()):
        if any(fnmatch(name, one) for one in but):
            continue
        if name not in right:
            yield f"{name}: only before"
        elif name not in left:
            yield f"{name}: only after"
        elif (how := _difference(left[name], right[name], before, after)) is not None:
            yield f"{name}: {how}"


def _difference(a: Path, b: Path, before: Path, after: Path) -> str | None:
    """Say how two files differ, or None."""
    data, other = a.read_bytes(), b.read_bytes()
    if data == other:
        return None
    if a.suffix == ".json":
        try:
            pair = [
                steady(_without_seals(json.loads(one), a), str(where))
                for one, where in ((data, before), (other, after))
            ]
        except ValueError:
            return "bytes differ"
        return next(_unequal(*pair), None)
    if a.suffix in (".html", ".md", ".txt", ".toml"):
        one, two = (masked(part.decode(), where) for part, where in ((data, before), (other, after)))
        if a.suffix == ".html":  # its numbers are those of report.json
            one, two = _NUMBER.sub("N", one), _NUMBER.sub("N", two)
        return first_difference(one, two)
    return f"bytes differ: {_digest(data)} and {_digest(other)}"


def _without_seals(content: Any, path: Path) -> Any:
    """Return the content of a file, of a commit with seconds without the seals that these give it."""
    if not any(fnmatch(path.as_posix(), one) for one in _TIMED) or not isinstance(content, dict):
        return content
    return {key: value for key, value in content.items() if key not in _SEALS}


def _digest(data: bytes) -> str:
    return f"{len(data):,} bytes, {sha256(data).hexdigest()[:12]}"


def steady(value: Any, folder: str) -> Any:
    """Return a value of JSON without what no two runs share."""
    if isinstance(value, dict):
        named = ((key.replace(folder, "WORK"), one) for key, one in value.items())
        return {key: steady(one, folder) for key, one in named if not _VOLATILE.search(key)}
    if isinstance(value, list):
        return [steady(one, folder) for one in value]
    return masked(value, Path(folder)) if isinstance(value, str) else value


def _unequal(one: Any, two: Any, where: str = "") -> Iterator[str]:
    """Yield the places in two values of JSON that differ, and what stands there."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            if key not in one or key not in two:
                yield f"{where}.{key}: only {'after' if key in two else 'before'}"
            else:
                yield from _unequal(one[key], two[key], f"{where}.{key}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, pair in enumerate(zip(one, two, strict=True)):
            yield from _unequal(*pair, f"{where}[{number}]")
    elif one != two:
        yield f"{where}: {str(one)[:150]} and {str(two)[:150]}"


def masked(text: str, folder: Path) -> str:
    """Return a text without dates, seconds and memory, and with its folder called WORK."""
    text = text.replace(str(folder), "WORK")
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text


def first_difference(one: str, two: str) -> str | None:
    """Return the first lines in which two texts differ; None if they do not."""
    if one == two:
        return None
    for number, (a, b) in enumerate(zip(one.splitlines(), two.splitlines(), strict=False), 1):
        if a != b:
            first = next((n for n, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), 0)
            around = slice(max(0, first - 60), first + 60)
            return f"line {number}: {a[around]!r} and {b[around]!r}"
    return "one has more lines"
