"""Signals that stop a campaign, whoever handles them while one of its trials is done."""

import contextlib
import os
import signal
from types import FrameType
from typing import NoReturn, Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class CampaignStop(KeyboardInterrupt):
    """A signal ended a campaign."""


class StopSignals:
    """The signals that stop a campaign, also if what it calls handled them.

    Commands that a campaign calls in its process have handlers of their own, and end with a code. Python
    writes the number of each signal to a pipe, whoever handles it: so none is lost.
    """

    def __enter__(self) -> Self:
        """Install handlers and the pipe."""
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._stop) for number in _SIGNALS}
        self._arrived = False
        return self

    def __exit__(self, *_: object) -> None:
        """Put back what was there."""
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._pipe_before)
        os.close(self._reading)
        os.close(self._writing)

    @property
    def arrived(self) -> bool:
        """Whether a signal came that stops the campaign."""
        with contextlib.suppress(BlockingIOError):
            while numbers := os.read(self._reading, 512):
                self._arrived = self._arrived or not set(numbers).isdisjoint(_SIGNALS)
        return self._arrived

    def _stop(self, number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG002  # the signature
        raise CampaignStop(signal.Signals(number).name)
