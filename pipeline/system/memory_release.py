"""Memory release: freed memory goes back to the system, which else counts it as held."""

import contextlib
import ctypes

import pyarrow as pa


def release_freed_memory() -> None:
    """Return freed memory to the system: what comes next may be small, or need it elsewhere."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)
