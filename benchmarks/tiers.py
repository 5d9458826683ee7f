"""The tiers of tests with their seconds, as the last whole run has noted them (`tests/seconds.py`).

tiers.py            the tiers, and the slowest tests
tiers.py --write    write tests/slow.json anew
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.seconds import CACHED, LEAST, SLOW

ROOT = Path(__file__).resolve().parent.parent


def table(known: dict[str, float], quick: Sequence[str]) -> str:
    """Return the tiers and the slowest tests.

    Args:
        known: CPU seconds of each test of the whole tier.
        quick: the tests of the quick tier.
    """
    lines = ["| tier | command | tests | CPU s |", "|---|---|---:|---:|"]
    for name, tests in (("quick", quick), ("whole", list(known))):
        command = "make quick-test" if name == "quick" else "make test"
        seconds = sum(known[test] for test in tests)
        lines.append(f"| {name} | {command} | {len(tests):,} | {seconds:,.0f} |")
    lines += ["| campaign | make campaign | | hours |", "", "| slowest tests | CPU s |", "|---|---:|"]
    slowest = sorted(known, key=lambda name: -known[name])[:10]
    return "\n".join([*lines, *(f"| {name} | {known[name]:.1f} |" for name in slowest)])


def main(given: Sequence[str] | None = None) -> int:
    """Print the tiers, and write the slow list if asked; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write tests/slow.json anew")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree [default: this one]")
    chosen = parser.parse_args(given)
    noted = chosen.root / ".pytest_cache" / "v" / CACHED
    if not noted.exists():
        print("no whole run is known here: call `make test` first", file=sys.stderr)
        return 2
    content = json.loads(noted.read_text("utf-8"))
    known: dict[str, float] = content["all"]
    if chosen.write:
        slow = {name: seconds for name, seconds in sorted(known.items()) if seconds >= LEAST}
        text = json.dumps(slow, indent=1, ensure_ascii=False) + "\n"
        (chosen.root / SLOW.relative_to(ROOT)).write_text(text, "utf-8")
    print(table(known, content["quick"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
