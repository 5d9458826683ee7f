"""What the release of memory promises: what was freed goes back to the system."""

import ctypes
import os

import pytest

from pipeline.engine.memory import MIB, unreclaimable_bytes
from pipeline.system.memory import release_freed_memory

BLOCK_BYTES = 64 << 10
"""Below what the allocator takes from the system block by block, and gives back so."""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim"
)
def test_freed_blocks_below_one_that_is_held_go_back() -> None:
    blocks = [os.urandom(BLOCK_BYTES) for _ in range(2_000)]
    held = blocks[-1]
    full = unreclaimable_bytes(os.getpid())
    del blocks
    release_freed_memory()
    assert unreclaimable_bytes(os.getpid()) < full - 100 * MIB
    assert len(held) == BLOCK_BYTES
