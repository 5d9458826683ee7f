"""Kernels: numba's compiler as a typed decorator, with its cache on disk.

The first call in a fresh installation compiles (seconds); later processes load the cached machine code.
numba trusts cached code while the kernel's own file keeps its time and size. But the code also holds
functions, numbers and types of other modules, and a pull or an upgrade may change those alone. So the
cache is trusted while all of these sources keep their content.
"""

import fcntl
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import xxhash
from numba import config, njit
from numba.core.caching import IndexDataCacheFile
from numba.misc.appdirs import AppDirs

from stages.kernel_cache import passing_folder

_Function = TypeVar("_Function", bound=Callable[..., object])
_WITHOUT_A_HOME = "UserProvidedCacheLocator,InTreeCacheLocator"
"""numba's names of the places where a user without a home may keep kernels."""
_IMPORTS = re.compile(r"^(?:from|import) (stages[\w.]*)(?: import (\([^)]*|.*))?", re.MULTILINE)


class _CompiledFunction(Protocol):
    """A compiled function of numba's."""

    def enable_caching(self) -> None:
        """Keep its code on disk from now on."""
        ...


def kernel(function: _Function) -> _Function:
    """Compile a function of arrays and numbers to machine code; what it computes stays the same."""
    return _cached(function, counting=True)


def lean_kernel(function: _Function) -> _Function:
    """Compile a function that makes no array: it does not count who holds those that it is given.

    Counting is most of the work where small kernels are called for each of many small things: the BPE
    encoder is three times as fast without.
    """
    return _cached(function, counting=False)


def inlined_kernel(function: _Function) -> _Function:
    """Compile a function whose code is put into each kernel that calls it, before anything is optimised.

    A loop over calls of it then runs on vector registers, which a call would prevent.
    """
    return _cached(function, counting=True, inline="always")


def _cached(function: _Function, *, counting: bool, inline: str = "never") -> _Function:
    """Return compiled code that is loaded from disk while its sources are the same."""
    compiled = njit(_nrt=counting, inline=inline)(function)
    trusted: _Function = compiled
    if not _enable_cache(compiled):
        return trusted
    kept = compiled._cache._cache_file  # noqa: SLF001 - numba has no open way to say what the code rests on
    kept.__class__ = _CachedCode
    kept._source_stamp = sources_digest(Path(sys.modules[function.__module__].__file__ or ""))  # noqa: SLF001
    return trusted


def _enable_cache(compiled: _CompiledFunction) -> bool:
    """Let compiled code be kept on disk; False if no folder can be written."""
    if not Path(
        AppDirs("numba", appauthor=False).user_cache_dir
    ).is_absolute():  # without a home it is the folder ~ of the current one
        config.CACHE_LOCATOR_CLASSES = config.CACHE_LOCATOR_CLASSES or _WITHOUT_A_HOME
    with suppress(RuntimeError):  # no place beside the sources, nor below HOME
        compiled.enable_caching()
        return True
    folder = passing_folder()
    if folder is None:
        return False
    config.CACHE_DIR = str(folder)
    compiled.enable_caching()
    return True


def sources_digest(path: Path) -> str:
    """Return the xxh3-128 of a module's source and of all the sources in `stages` that it imports."""
    known, new = set[Path](), {path}
    while new:
        known |= new
        new = set[Path]().union(*map(_imported, new)) - known
    return xxhash.xxh3_128_hexdigest(b"".join(map(_source, sorted(known))))


class _CachedCode(IndexDataCacheFile):  # type: ignore[misc]
    """The cache of one kernel, empty when it was written by another version."""

    def _load_index(self) -> dict[object, str]:
        try:
            overloads: dict[object, str] = super()._load_index()
        except (AttributeError, ImportError):  # it names a type that this version no longer has
            return {}
        return overloads

    def save(self, key: object, data: object) -> None:
        """Keep code, one process at a time: two could use one file, and load each other's code."""
        with suppress(OSError), _locked(self._cache_path):  # a full disk: the code is only not kept
            super().save(key, data)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold the lock of a folder."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@cache
def _imported(path: Path) -> frozenset[Path]:
    found = set[Path]()
    for name, members in _IMPORTS.findall(_source(path).decode()):
        inner = (f"{name}.{member}" for member in re.findall(r"\w+", members))
        modules = [importlib.import_module(name), *map(sys.modules.get, inner)]
        found |= {Path(module.__file__) for module in modules if module and module.__file__}
    return frozenset(found)


@cache
def _source(path: Path) -> bytes:
    return path.read_bytes()
