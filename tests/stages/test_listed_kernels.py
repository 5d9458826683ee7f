"""The list of kernels that are compiled before the tests: what is listed is in the code."""

import importlib
from itertools import chain

from numba.core.dispatcher import Dispatcher

from tests.listed_kernels import compile_module, listed, read, written


def test_every_kernel_of_the_list_is_one_of_its_module() -> None:
    past = []
    for name in listed():
        module, _, kernel = name.partition(":")
        try:
            found = getattr(importlib.import_module(module), kernel, None)
        except ImportError:
            found = None
        if not isinstance(found, Dispatcher):
            past.append(name)
    assert not past, (
        "take them out of the list, or write it anew: python -m tests.listed_kernels --write"
    )


def test_types_of_the_list_are_what_they_are_written_as() -> None:
    every = list(chain.from_iterable(chain.from_iterable(listed().values())))
    assert [written(read(text)) for text in every] == every
    assert {type(text) for text in every} == {str, list}


def test_what_is_no_longer_in_the_code_is_named_and_stops_nothing() -> None:
    module = "stages.byte_kernels"
    past = compile_module(
        module, {"code_point": [["uint8[1C]", "int64"], ["uint64"]], "none": [["uint64"]]}
    )
    assert past == [f'{module}:code_point ["uint64"]', f'{module}:none ["uint64"]']
    assert compile_module("stages.none", {"code_point": [["int64"]]}) == [
        'stages.none:code_point ["int64"]'
    ]
    shape = ["stages.byte_kernels:None", "int64"]
    assert len(compile_module(module, {"code_point": [[shape]]})) == 1
