"""What stopping promises: a signal at any moment ends a command in order, in one line, with its code."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pipeline.system.stopping import Signals, Terminated, active_signals, signals_stop, tidying
from stages.errors import ConfigError, DataError, Interrupted, Stopped, VerificationError

CODES = {signal.SIGTERM: 75, signal.SIGHUP: 75, signal.SIGINT: 130}
NAMES = {signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP", signal.SIGINT: "Ctrl-C"}
BEGIN = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one under nohup this one
number = int(sys.argv[1])
import pipeline.main
from pipeline.system import stopping
stopping.AGAIN_SECONDS = 0.05
def strike(): os.kill(os.getpid(), number)
"""


def run(program: str, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in which a signal arrives, as the command line's process."""
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(program), str(int(number)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


MOMENTS = {
    "while importing": """
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "pipeline.commands.boundary":
                    strike()
        sys.meta_path.insert(0, Finder())
        pipeline.main.main()
    """,
    "in the command": """
        pipeline.main._command = lambda: (strike(), time.sleep(60))
        pipeline.main.main()
    """,
    "while an object is deleted, where Python drops what is raised": """
        class Dying:
            def __del__(self):
                strike()
        def command():
            dying = Dying()
            del dying
            time.sleep(60)
        pipeline.main._command = command
        sys.unraisablehook = lambda unraisable: None
        pipeline.main.main()
    """,
    "where a library turns it into an error of its own": """
        def command():
            try:
                strike()
                time.sleep(60)
            except BaseException as error:
                raise SystemError("returned a result with an exception set") from error
        pipeline.main._command = command
        pipeline.main.main()
    """,
    "where a library swallows it and the command ends": """
        def command():
            try:
                strike()
                time.sleep(60)
            except BaseException:
                pass
        pipeline.main._command = command
        pipeline.main.main()
    """,
    "where a library took the handler for a moment": """
        def command():
            sys.exit(number) if number == signal.SIGTERM else strike()
            time.sleep(60)
        pipeline.main._command = command
        pipeline.main.main()
    """,
    "twice, as from a program that passes on what its group got too": """
        def command():
            try:
                strike()
                time.sleep(60)
            finally:
                strike()
        pipeline.main._command = command
        pipeline.main.main()
    """,
    "while an error is told": """
        from pipeline.commands import boundary
        printed = boundary._printed_code
        def striking(error, signals):
            strike()
            return printed(error, signals)
        boundary._printed_code = striking
        def command():
            raise RuntimeError("of the work")
        pipeline.main._command = command
        pipeline.main.main()
    """,
    "after the command": """
        from pipeline.commands import boundary
        flush = boundary._flush
        def striking():
            flush()
            strike()
        boundary._flush = striking
        pipeline.main._command = lambda: None
        pipeline.main.main()
    """,
}


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_at_any_moment_ends_with_its_code_and_one_line(
    moment: str, number: signal.Signals
) -> None:
    done = run(MOMENTS[moment], number)
    assert done.returncode == CODES[number], done.stderr
    assert done.stderr == f"shardmill: {NAMES[number]}: stopped; run again to resume\n"


def test_a_second_signal_later_on_ends_a_process_that_hangs_while_it_tidies_up() -> None:
    program = """
        stopping.FORCE_SECONDS = -1.0
        def command():
            with stopping.signals_stop():
                try:
                    strike()
                finally:
                    with stopping.tidying():
                        strike()
                        time.sleep(60)
        pipeline.main._command = command
        pipeline.main.main()
    """
    done = run(program, signal.SIGTERM)
    assert done.returncode == 75
    assert "SIGTERM: stopped; run again to resume (at once, after a second signal)" in done.stderr
    assert "Traceback" not in done.stderr


def test_signals_that_the_caller_ignores_stay_ignored_but_sigterm() -> None:
    program = """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        pipeline.main._command = lambda: (os.kill(os.getpid(), signal.SIGHUP), print("went on"))
        pipeline.main.main()
    """
    done = run(program, signal.SIGHUP)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_nothing_is_imported_before_the_handlers_stand_that_takes_a_while() -> None:
    program = "import sys, pipeline.main; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "pipeline.system.stopping" in loaded
    assert not loaded & {"typer", "pydantic", "numpy", "pyarrow", "rich", "ray", "torch", "tempfile"}


def test_the_commands_are_known_without_the_libraries_that_do_their_work() -> None:
    program = "import sys, pipeline.cli; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "typer" in loaded
    assert not loaded & {"pydantic", "numpy", "pyarrow", "ray", "torch"}


def test_handlers_are_put_back_and_a_session_in_somebody_s_process_has_its_own() -> None:
    ignored = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a job in the background ignores it
    try:
        _interrupt_sessions()
    finally:
        signal.signal(signal.SIGINT, ignored)


def _interrupt_sessions() -> None:
    before = {number: signal.getsignal(number) for number in CODES}
    with pytest.raises(Interrupted, match="Ctrl-C: stopped"), signals_stop():
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Stopped, match="SIGTERM: stopped") as caught, signals_stop():
        os.kill(os.getpid(), signal.SIGTERM)
    assert isinstance(caught.value.__cause__, Terminated)
    assert {number: signal.getsignal(number) for number in CODES} == before


def test_signals_wait_while_things_are_left_in_order() -> None:
    done = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            with tidying():
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("tidied")

    with pytest.raises(Stopped, match="SIGTERM: stopped"), active_signals(), signals_stop():
        work()
    assert done == ["tidied"]


@pytest.mark.parametrize("kind", [ConfigError, DataError, VerificationError])
def test_an_error_that_says_what_is_wrong_is_not_taken_for_a_signal(kind: type[Exception]) -> None:
    signals = Signals()
    signals.number = signal.SIGTERM
    assert signals.stop_of(kind("sources.s: no such file")) is None
    assert str(signals.stop_of(Stopped("Ray did not start"))) == "SIGTERM: stopped; run again to resume"


def test_an_error_without_a_signal_is_none_of_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), signals_stop():
        (tmp_path / "nothing").read_bytes()
    assert Signals().stop_of(SystemExit(2)) is None
