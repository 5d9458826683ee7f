"""Which tests run a line of the product: what pytest-cov notes with `--cov-context=test`.

Its data name a test as `tests/pipeline/test_ingest.py::test_name[case]|call`.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Self

from coverage import CoverageData
from rested_on import rests_on

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class ReachedLines:
    """Tests by the lines that they run.

    Attributes:
        data: of coverage.
        seconds: CPU seconds of each test, by its id, as `tests/tiers.py` keeps them.
    """

    data: CoverageData
    seconds: dict[str, float]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what a run of all tests has left."""
        data = CoverageData(str(path))
        data.read()
        noted = ROOT / ".pytest_cache" / "v" / "tiers" / "seconds"
        return cls(data, json.loads(noted.read_text("utf-8"))["all"] if noted.exists() else {})

    @cached_property
    def _files(self) -> dict[str, str]:
        """The measured files by their path in a tree, wherever it lay."""
        found = {}
        for name in self.data.measured_files():
            for root in ("pipeline", "stages", "shardmill"):
                at = name.rfind(f"/{root}/")
                if at >= 0:
                    found[name[at + 1 :]] = name
        return found

    def tests_of(self, file: str, line: int) -> list[str]:
        """Return the tests that run a line, or any line of its module, the nearest and cheapest first.

        If none is known, these are the tests that import the module.
        """
        lines = self.data.contexts_by_lineno(self._files[file]) if file in self._files else {}
        named = lines.get(line, ()) or {one for contexts in lines.values() for one in contexts}
        tests = {context.rpartition("|")[0] for context in named} - {""}
        if not tests:
            files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
            tests = {test for test in files if ROOT / file in rests_on(ROOT, test)} or {"tests"}
        near = PurePosixPath(file).parent.as_posix()
        return sorted(
            tests,
            key=lambda test: (not test.startswith(f"tests/{near}"), self.seconds.get(test, 0), test),
        )
