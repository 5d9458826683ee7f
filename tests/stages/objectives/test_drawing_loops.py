"""What the loops that draw promise: no call is in them, so they can run on vector registers."""

from typing import Any

import pytest
from numba import njit

from stages.objectives.kernels.scratch import draw_blocks, draw_leading

SIGNATURES: dict[Any, str] = {
    draw_leading: "(uint64[::1], int64[::1], int64[::1], uint64[:, ::1])",
    draw_blocks: "(uint64[::1], int64[::1], int64[::1], int64, uint64[::1], uint64[::1])",
}


@pytest.mark.parametrize("kernel", SIGNATURES, ids=lambda kernel: kernel.py_func.__name__)
def test_philox_is_no_call_in_the_loops_that_draw(kernel: Any) -> None:
    compiled = njit(kernel.py_func)  # what is loaded from disk does not show its code
    compiled.compile(SIGNATURES[kernel])
    (code,) = compiled.inspect_llvm().values()
    assert f"{kernel.py_func.__name__}" in code
    assert "philox" not in code
