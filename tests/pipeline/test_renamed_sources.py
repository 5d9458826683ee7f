"""A source under another name is asked about, and a file that went to another source is not."""

from pathlib import Path

import pytest

from pipeline.session import request as calls
from pipeline.session.request import RunRequest
from stages.errors import ConfigError
from tests.laws.tiny_run import tiny_run


def test_a_file_that_went_to_another_source_is_no_renamed_source() -> None:
    sources = [{"name": name, "paths": [f"{name}/*"]} for name in ("s", "t")]
    call = RunRequest(tiny_run(sources=sources), Path(), Path("run"), 0)
    calls._refuse_renamed(call, {"s/b/a.jsonl"}, {"t/b/a.jsonl"})  # noqa: SLF001  # of what is told
    call = RunRequest(tiny_run(sources=sources[1:]), Path(), Path("run"), 0)
    calls._refuse_renamed(call, {"s/b/a.jsonl", "t/b/a.jsonl"}, {"t/b/a.jsonl"})  # noqa: SLF001  # it had both
    with pytest.raises(ConfigError, match="was s renamed to t"):
        calls._refuse_renamed(call, {"s/b/a.jsonl"}, {"t/b/a.jsonl"})  # noqa: SLF001  # likewise
