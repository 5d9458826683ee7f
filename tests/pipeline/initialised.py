"""Folders that `init` looks at: texts to fill them with, and what comes of them."""

import json
import tomllib
from pathlib import Path
from typing import Any

from pipeline.run_file.load import load_run_file
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.init import init as initialise
from pipeline.tools.init.init import InitContent

TEXTS = [f"Text {n}: " + f"words of the text {n}, and some more. " * 4 for n in range(40)]


def lines_of(records: list[Any]) -> str:
    """Return records as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def init(web: Path) -> tuple[InitContent, list[dict[str, Any]]]:
    """Write the run file; return what was found, and its sources."""
    content = initialise.init(web, web.with_name("run.toml"), replace=True)
    return content, tomllib.loads(web.with_name("run.toml").read_text("utf-8"))["sources"]


def ingested(web: Path) -> Any:
    """Return what a run over the run file reads."""
    run, here = load_run_file(web.with_name("run.toml")), web.parent
    return run_session(RunRequest(run, here, here / "out", 0, until="ingest"), stream=None)["documents"]
