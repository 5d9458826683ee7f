"""Kernels that tests call, compiled before the tests: by the types of tests/listed_kernels.json.

    python -m tests.listed_kernels            compile them, on all cores
    python -m tests.listed_kernels --write    write the list anew, of what is compiled in this tree

A kernel is compiled for each choice of types that it is called with, which takes a tenth of a second to
some seconds, and is kept on disk. What is not listed is compiled by the first test that calls it. So
after a change to kernels, first a whole run (`make test`) in a fresh clone, and there `--write`.
"""

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from numba import NumbaError, types
from numba.core.dispatcher import Dispatcher

import stages

LISTED = Path(__file__).with_name("listed_kernels.json")
"""The types of the arguments that each kernel is called with: of a tuple a list, led by its class."""
_SCALARS = types.Integer, types.Float, types.Boolean
_PAST = KeyError, AttributeError, ImportError, TypeError, ValueError, NumbaError
"""What comes of a kernel, or of types, that the code no longer has."""


def written(of: types.Type) -> str | list[Any]:
    """Return a type as the list has it.

    Raises:
        ValueError: it is a number known to the compiler, which only kernels within others get.
    """
    match of:
        case types.Array(aligned=True):
            return f"{'const ' if not of.mutable else ''}{of.dtype}[{of.ndim}{of.layout}]"
        case types.BaseTuple():
            kind = getattr(of, "instance_class", None)
            name = f"{kind.__module__}:{kind.__qualname__}" if kind else ""
            return [name, *map(written, of)]
        case types.Literal():
            raise ValueError(of)
        case _ if type(of) in _SCALARS:
            return str(of)
        case _:
            raise TypeError(f"{of}: the list has no way to write this type")


def read(text: str | list[Any]) -> types.Type:
    """Return the type that the list has as `text`."""
    if isinstance(text, list):
        module, _, name = text[0].partition(":")
        kind = getattr(importlib.import_module(module), name) if module else None
        return types.BaseTuple.from_types([read(one) for one in text[1:]], kind)
    of, _, shape = text.removeprefix("const ").removesuffix("]").partition("[")
    one: types.Type = getattr(types, "boolean" if of == "bool" else of)
    if not shape:
        return one
    return types.Array(one, int(shape[:-1]), shape[-1], readonly=text.startswith("const "))


def _modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(stages.__path__, f"{stages.__name__}."):
        yield found.name


def _kernels(module: str) -> dict[str, Dispatcher]:
    """Return the kernels that a module has of its own."""
    content = vars(importlib.import_module(module))
    return {
        name: one
        for name, one in content.items()
        if isinstance(one, Dispatcher) and one.py_func.__module__ == module
    }


def _compiled() -> Iterator[tuple[str, list[Any]]]:
    """Yield each kernel that is kept on disk, and each choice of types."""
    for module in _modules():
        for name, one in _kernels(module).items():
            for key in one._cache._cache_file._load_index():  # noqa: SLF001  # numba shows it nowhere else
                try:
                    yield f"{module}:{name}", [written(of) for of in key[0]]
                except ValueError:
                    continue


def listed() -> dict[str, list[list[Any]]]:
    """Return the list: of each kernel, the choices of types that it is called with."""
    found: dict[str, list[list[Any]]] = json.loads(LISTED.read_text("utf-8"))
    return found


def write_list() -> int:
    """Write the list; return how many choices of types it has."""
    found: dict[str, set[str]] = {}
    for name, chosen in _compiled():
        found.setdefault(name, set()).add(json.dumps(chosen))
    lines = (
        f'"{name}": [\n  ' + ",\n  ".join(sorted(choices)) + "\n ]"
        for name, choices in sorted(found.items())
    )
    LISTED.write_text("{\n " + ",\n ".join(lines) + "\n}\n", "utf-8")
    return sum(map(len, found.values()))


def compile_module(module: str, chosen_of: dict[str, list[list[Any]]]) -> list[str]:
    """Compile the kernels of a module as listed; return what is listed and no longer in the code."""
    past = []
    for name, choices in chosen_of.items():
        for chosen in choices:
            try:
                _kernels(module)[name].compile(tuple(map(read, chosen)))
            except _PAST:
                past.append(f"{module}:{name} {json.dumps(chosen)}")
    return past


def main(given: Sequence[str]) -> None:
    """Compile what is listed, or write the list."""
    if "--write" in given:
        sys.stdout.write(f"{write_list()} choices of types in {LISTED}\n")
        return
    by_module: dict[str, dict[str, list[list[Any]]]] = {}
    for name, choices in listed().items():
        module, _, kernel = name.partition(":")
        by_module.setdefault(module, {})[kernel] = choices
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as pool:
        past = [
            line for found in pool.map(compile_module, by_module, by_module.values()) for line in found
        ]
    if past:
        sys.stderr.write(
            f"{LISTED}: {len(past)} choices of types are no longer in the code, as {past[0]}. After a "
            "whole run of the tests, `python -m tests.listed_kernels --write` writes the list anew\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
