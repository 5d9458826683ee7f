"""Commands and scripts in this process: a new one spends two seconds on imports alone."""

import contextlib
import io
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from pipeline.cli import app
from pipeline.commands.boundary import exit_code_of
from pipeline.system.stopping import active_signals


def called(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Call a command as `pipeline.main` does, from some folder: its exit code and what it said."""
    said, warned = io.StringIO(), io.StringIO()
    with (
        active_signals() as signals,
        contextlib.chdir(cwd),
        patch.object(sys, "argv", ["shardmill", *arguments]),
        patch.dict(os.environ, COLUMNS="200", NO_COLOR="1"),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(warned),
    ):
        code = exit_code_of(app, signals)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), warned.getvalue())


def printed_by(does: Callable[[], object], *, cwd: Path) -> str:
    """Call a function in some folder, where no warning is an error; return what it prints."""
    said = io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        does()
    return said.getvalue()


def script_called(script: str, *arguments: str, cwd: Path) -> str:
    """Run a script in some folder as `python` does; return what it prints."""
    with patch.object(sys, "argv", [script, *arguments]):
        return printed_by(lambda: runpy.run_path(script, run_name="__main__"), cwd=cwd)
