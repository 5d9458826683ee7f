"""Digests of a run's artifacts: what must be equal in two runs over the same input.

    digests.py DIR        one line a folder and one for all of them
    digests.py A B        the paths that differ; exit 1 if there are any

The digest of a folder is the SHA-256 of its lines "path <NUL> SHA-256 of the bytes <NEWLINE>", sorted by
path. Reports, logs and commits are no artifacts: they hold times, or follow from what is counted here.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARTIFACTS = ("datasets", "dedup", "split", "tokenizer", "tokens")
"""Folders of a run whose bytes are a function of its input and its run file alone."""


def file_digests(run: Path) -> dict[str, str]:
    """Return the SHA-256 of every artifact of a run by its path, sorted."""
    paths = (path for name in ARTIFACTS for path in (run / name).rglob("*") if path.is_file())
    return {path.relative_to(run).as_posix(): _digest_file(path) for path in sorted(paths)}


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def combined(digests: Mapping[str, str], folder: str = "") -> str:
    """Return one digest of all files, or of those in one folder."""
    prefix = f"{folder}/" if folder else ""
    lines = (
        f"{path}\0{digest}\n" for path, digest in sorted(digests.items()) if path.startswith(prefix)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def summary(run: Path) -> dict[str, Any]:
    """Return the number of files and the digest of each folder of artifacts and of all together."""
    digests = file_digests(run)
    folders = {}
    for name in ARTIFACTS:
        inside = [path for path in digests if path.startswith(f"{name}/")]
        folders[name] = {"files": len(inside), "sha256": combined(digests, name)}
    return {"run": str(run), "files": len(digests), "sha256": combined(digests), "folders": folders}


def differences(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Return the paths that only one side has, or whose bytes differ."""
    return sorted(path for path in a.keys() | b.keys() if a.get(path) != b.get(path))


def print_summary(content: Mapping[str, Any]) -> None:
    """Print what `summary` gives."""
    for name, folder in content["folders"].items():
        print(f"{folder['sha256']}  {name}  {folder['files']:,} files")
    print(f"{content['sha256']}  total  {content['files']:,} files")


def _compare(a: Path, b: Path) -> dict[str, Any]:
    one, other = file_digests(a), file_digests(b)
    differing = differences(one, other)
    for path in differing:
        where = f"only in {a}" if path not in other else f"only in {b}" if path not in one else "differs"
        print(f"{path}: {where}")
    print(f"{len(one):,} and {len(other):,} files, {len(differing):,} differ")
    return {"runs": [str(a), str(b)], "files": [len(one), len(other)], "differing": differing}


def main() -> int:
    """Print the digests of one run, or compare two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="one folder of a run, or two")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there too")
    arguments = parser.parse_args()
    for run in arguments.runs:
        if not any((run / name).is_dir() for name in ARTIFACTS):
            parser.error(f"{run}: holds no artifact of a run ({', '.join(ARTIFACTS)})")
    if len(arguments.runs) > 2:  # noqa: PLR2004  # two are compared
        parser.error(f"{len(arguments.runs)} folders: name one or two")
    if len(arguments.runs) == 1:
        content = summary(arguments.runs[0])
        print_summary(content)
    else:
        content = _compare(*arguments.runs)
    if arguments.json:
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if content.get("differing") else 0


if __name__ == "__main__":
    sys.exit(main())
