"""Templates of pages: other people's texts are escaped, and control characters written out."""

from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from pipeline.system.printable import printable


@cache
def page_template(name: str) -> jinja2.Template:
    """Return a template of pages: NAME of reports, or PACKAGE/NAME of another package.

    It is compiled once in a process: that takes as long as a small step of a small run.
    """
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )


def _source(name: str) -> str:
    package, _, file = name.rpartition("/")
    return files(package or "pipeline.report").joinpath("templates", file).read_text(encoding="utf-8")


def _finalized(value: Any) -> Any:
    """Return what stands for a value on a page; what the page itself made is markup already."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return value
