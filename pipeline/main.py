"""The way in: streams and handlers of signals first, then the rest, since imports alone take a second.

What a call means and how it ends is in `pipeline.cli` and `pipeline.commands.boundary`.

Nothing here multiplies matrices with numpy, but its BLAS would start a thread for each core when it is
imported. These wait for work by spinning: a twentieth of the CPU time of a short run.
"""

import contextlib
import os
import sys
import warnings
from typing import NoReturn, TextIO

from pipeline.system.standard_streams import prepare_standard_streams
from pipeline.system.stopping import active_signals, collect_rarely, end_at_fatal_signals


def main() -> NoReturn:
    """Run the command line; a signal at any moment ends it in order, every error is one line."""
    prepare_standard_streams()
    end_at_fatal_signals()
    collect_rarely()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = _show_warning
    with active_signals() as signals:
        signals.ends_process, code = True, 1
        try:
            from pipeline.commands.boundary import exit_code_of  # noqa: PLC0415  # see above

            code = exit_code_of(_command, signals)
        except BaseException as error:  # a signal while this program was being imported
            if signals.stop_of(error) is None:
                raise
            code = signals.end(error)
        signals.ignore()
        _leave(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of ours as one line, and any other as Python does."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if category.__name__ == "ShardmillWarning":  # whose module takes time to import
        text = f"shardmill: warning: {message}\n"
    (sys.stderr if file is None else file).write(text)


def _leave(code: int) -> NoReturn:
    """End the process without the interpreter's own end.

    All is in order by now but a folder of kernels. The exit handlers of Ray take half a second, and
    crash where a signal broke off its start.
    """
    if "stages.kernel_cache" in sys.modules:
        sys.modules["stages.kernel_cache"].remove_passing_folder()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # whoever reads it may be gone
            stream.flush()
    os._exit(code)


def _command() -> None:
    from pipeline.cli import app  # noqa: PLC0415  # see above

    app()


if __name__ == "__main__":
    main()
