"""What Jinja templates run in: the environment of transformers, without what differs by day or run.

Source: transformers 5.24, `utils/chat_template_utils.py`, for the environment and the block.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Never

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from stages.chat.dialogue import is_role

BEGINS, ENDS = "_generation_begins", "_generation_ends"
"""Variables of a rendering: what stands around blocks that are learned."""
TODAY = (
    'strftime_now would give another text on another day; set date = "2025-01-31" in chat, or your day'
)


class Generation(Extension):
    """The block {% generation %}."""

    tags = {"generation"}  # noqa: RUF012  # as the library declares it

    def parse(self, parser: jinja2.parser.Parser) -> nodes.Node:
        """Return the block as a call of `_learned` with what is in it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_learned"), [], [], body).set_lineno(line)

    @jinja2.pass_context
    def _learned(self, context: jinja2.runtime.Context, caller: jinja2.runtime.Macro) -> str:
        return f"{context.get(BEGINS, '')}{caller()}{context.get(ENDS, '')}"


def strings_in(tree: nodes.Template) -> Iterator[str]:
    """Yield what the source of a template writes as it is, and strings that it may put together."""
    yield from (node.data for node in tree.find_all(nodes.TemplateData))
    yield from (node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))


def roles_in(tree: nodes.Template) -> Iterator[str]:
    """Yield the strings that a template compares with something and that may be names of roles."""
    for compare in tree.find_all(nodes.Compare):
        for node in compare.find_all(nodes.Const):
            if isinstance(node.value, str) and is_role(node.value):
                yield node.value


def environment_for(date: str | None) -> ImmutableSandboxedEnvironment:
    """Return what templates run in; `strftime_now` raises without a date, such as "2025-01-31"."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _no_date
    if date is not None:
        environment.globals["strftime_now"] = datetime.fromisoformat(date).strftime
    del environment.filters["random"], environment.globals["lipsum"]
    return environment


def _raise_exception(message: str) -> Never:
    raise jinja2.TemplateError(message)


def _no_date(_: str) -> Never:
    raise jinja2.TemplateError(TODAY)


def _to_json(  # as templates call it
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Return a value as JSON, without the escapes for HTML that Jinja's own filter writes."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
