"""What stopping promises: what can be resumed says so, and the process is left as it was."""

import errno
import os
import signal
from pathlib import Path

import pytest

from pipeline.stopping import enough_disk, signals_stop
from stages.errors import Interrupted, Stopped


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "disk quota is used up")]
)
def test_a_disk_without_room_stops_the_run_and_says_how_to_go_on(
    number: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(Stopped, match=f"{message}.*; free space and run again") as stopped:  # noqa: SIM117
        with enough_disk(tmp_path):
            raise OSError(number, os.strerror(number))
    assert isinstance(stopped.value.__cause__, OSError)


def test_any_other_error_of_the_disk_is_not_taken_for_a_full_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Input/output"), enough_disk(tmp_path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [(signal.SIGTERM, Stopped, "SIGTERM"), (signal.SIGINT, Interrupted, "Ctrl-C")],
)
def test_a_signal_becomes_the_stop_that_its_exit_code_is_of(
    number: signal.Signals, kind: type[Stopped], message: str
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    try:
        with pytest.raises(Stopped, match=f"^{message}: stopped; run again") as stopped:  # noqa: SIM117
            with signals_stop():
                os.kill(os.getpid(), number)
        assert type(stopped.value) is kind
        assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == handlers
    finally:
        signal.signal(signal.SIGINT, before)
