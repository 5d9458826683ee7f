"""The list of kernels that are compiled before the tests: what it has, the code has."""

import importlib
from itertools import chain

from numba.core.dispatcher import Dispatcher

from tests.listed_kernels import listed, read, written


def test_every_kernel_of_the_list_is_one_of_its_module() -> None:
    past = []
    for name in listed():
        module, _, kernel = name.partition(":")
        if not isinstance(getattr(importlib.import_module(module), kernel, None), Dispatcher):
            past.append(name)
    assert not past, (
        "take them out of the list, or write it anew: python -m tests.listed_kernels --write"
    )


def test_types_of_the_list_are_what_they_are_written_as() -> None:
    every = list(chain.from_iterable(chain.from_iterable(listed().values())))
    assert [written(read(text)) for text in every] == every
    assert {type(text) for text in every} == {str, list}
