"""Commands of the command line in this process: a new one spends two seconds on imports alone."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from pipeline.cli import app
from pipeline.commands.boundary import exit_code_of
from pipeline.system.stopping import held_signals


def called(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Call a command as `pipeline.main` does, from some folder: its exit code and what it said."""
    said, warned = io.StringIO(), io.StringIO()
    with (
        held_signals() as signals,
        contextlib.chdir(cwd),
        patch.object(sys, "argv", ["shardmill", *arguments]),
        patch.dict(os.environ, COLUMNS="200", NO_COLOR="1"),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(warned),
    ):
        code = exit_code_of(app, signals)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), warned.getvalue())
