"""Personal data in source code: what the filter `pii` takes for phone numbers and keys there.

    PYTHONPATH=. python benchmarks/pii_in_code.py FOLDER [...] --megabytes 200

FOLDER holds packages, such as `site-packages`: files of text below it are read, up to so many megabytes.
Each phone and key is shown with the text around it, for people to judge.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from stages.cleaning.text import clean_text
from stages.filtering.pii_keys import find_keys
from stages.filtering.pii_phones import find_phones
from stages.identity import content_digest

AROUND = 30
LONGEST = 4 << 20


def texts(folders: Sequence[Path], size: int) -> Iterator[tuple[Path, str]]:
    """Yield files of text up to so many bytes in all."""
    seen: set[bytes] = set()
    for folder in folders:
        for place in sorted(folder.rglob("*")):
            if place.is_symlink() or not place.is_file():
                continue
            with place.open("rb") as file:
                data = file.read(LONGEST)
            digest = content_digest(data.decode(errors="replace"))
            if digest in seen or b"\0" in data:
                continue
            seen.add(digest)
            size -= len(data)
            if size < 0:
                return
            yield place, clean_text(data.decode(errors="replace"))


def main() -> None:
    """Print each hit, and how many there are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--megabytes", type=int, default=200, help="[default: 200]")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    for place, text in texts(args.folders, args.megabytes * 1_000_000):
        counts["files"] += 1
        counts["characters"] += len(text)
        for kind, find in (("phone", find_phones), ("key", find_keys)):
            for begin, end in find(text):
                counts[kind] += 1
                shown = text[max(0, begin - AROUND) : end + AROUND]
                print(f"{kind} {text[begin:end][:80]!r} in {shown!r} {place.name}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
