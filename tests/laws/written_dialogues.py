r"""Dialogues for the tests of whole runs, and what templates make of them, written down once more.

Nothing of the program's templates is asked. Each format is a few lines here, from its description:

    chatml    <|im_start|>user\nHi<|im_end|>\n
    llama3    <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>
    mistral   [INST]Hi[/INST]Hello</s>[INST]And?[/INST]Yes
    jinja     <<SYS>>\nBe brief.\n<</SYS>>\n\n[INST] Hi [/INST] Hello </s>
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from stages.cleaning.text import clean_text

Turn = tuple[str, str]
"""A role and what it says."""
Message = dict[str, Any]
ROLES = ("user", "assistant")
SYSTEM = "system"
LEARNED = (("assistant",), ("user", "assistant"), ("system", "assistant"), ("user",), ("system",))
"""Roles that a source may learn."""
LITERALS = (
    "<|im_end|>\n<|im_start|>assistant\n",
    "[/INST] no</s>",
    "<|eot_id|>",
    "<|endoftext|> and on",
    "<s>[INST] <unk>",
    "<</SYS>>\n\n[SEP]",
)
"""What a message may hold to close its own turn."""
FIELDS = ("role", "content", "from", "value", "name")
"""Of a message in a table; each has two of the first four."""
_SHAREGPT = {"user": "human", "assistant": "gpt"}


class Part(NamedTuple):
    """A stretch of a dialogue's text."""

    text: str
    learned: bool
    markup: bool = False
    answers: bool = False
    """Whether it is a content of a role that is learned, of a template in Jinja."""
    alone: bool = False
    """Whether it is encoded as a text by itself."""


@dataclass(frozen=True)
class Template:
    """A format of dialogues."""

    chat: dict[str, str]
    """The settings of a source, but for what it learns."""
    pieces: tuple[str, ...]
    """What of its markup a tokenizer may have an id for."""
    write: Callable[[Sequence[Turn], Collection[str]], Iterable[Part]]
    """Returns the parts of a dialogue, some of them empty, given the roles that are learned."""
    learns: tuple[tuple[str, ...], ...] = LEARNED
    """What a source may be told to learn; () is nothing of the kind."""
    refused: tuple[Turn, ...] | None = None
    """Turns that the template has no place for."""


def turns_of(text: str, which: int) -> tuple[Turn, ...]:
    """Return a dialogue of two to five turns, and a system's before them at times, made of a text."""
    roles = [SYSTEM] * (which % 3 == 0) + [ROLES[number % 2] for number in range(2 + which % 4)]
    ends = [len(text) * number // len(roles) for number in range(len(roles) + 1)]
    contents = [text[first:last] for first, last in pairwise(ends)]
    if which % 5 == 0:
        contents[which % len(roles)] += LITERALS[which // 5 % len(LITERALS)]
    return tuple(zip(roles, contents, strict=True))


def said_at_all(turns: Sequence[Turn]) -> bool:
    """Say whether a dialogue has a message with more than white space."""
    return any(clean_text(content).split() for _, content in turns)


def messages_of(turns: Sequence[Turn], number: int) -> list[Message]:
    """Return a dialogue as a record has it: in one of three forms, by the record's number."""
    if number % 3 == 1:
        return [{"from": _SHAREGPT.get(role, role), "value": content} for role, content in turns]
    if number % 3 == 2:
        halves = (
            (role, (content[: len(content) // 2], content[len(content) // 2 :]))
            for role, content in turns
        )
        return [
            {"role": role, "name": "x", "content": [{"type": "text", "text": text} for text in both]}
            for role, both in halves
        ]
    return [{"role": role, "content": content} for role, content in turns]


def in_one_type(messages: Sequence[Message] | None) -> list[Message] | None:
    """Return messages as a table has them: every field in each, a content in one piece."""
    found = []
    for message in () if messages is None else messages:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        found.append({**dict.fromkeys(FIELDS), **message, "content": content})
    return None if messages is None else found


def parts_of(template: Template, turns: Sequence[Turn], learn: Collection[str]) -> list[Part]:
    """Return the sections that a run must cut a dialogue into.

    Contents are clean, nothing is empty, and neighbours of the same sort are one.
    """
    clean = [(role, clean_text(content)) for role, content in turns]
    parts = (part for part in template.write(clean, learn) if part.text)
    joined = (
        ("".join(part.text for part in same), sort)
        for sort, same in groupby(parts, lambda part: part[1:])
    )
    return [Part(clean_text(text), *sort) for text, sort in joined if clean_text(text)]


def _chatml(turns: Sequence[Turn], learn: Collection[str]) -> Iterator[Part]:
    for role, content in turns:
        yield Part(f"<|im_start|>{role}\n", learned=False, markup=True)
        yield Part(content, role in learn)
        yield Part("<|im_end|>", role in learn, markup=True)
        yield Part("\n", learned=False, markup=True)


def _llama3(turns: Sequence[Turn], learn: Collection[str]) -> Iterator[Part]:
    for role, content in turns:
        yield Part(f"<|start_header_id|>{role}<|end_header_id|>\n\n", learned=False, markup=True)
        yield Part(content.strip(), role in learn)
        yield Part("<|eot_id|>", role in learn, markup=True)


def _rounds(turns: Sequence[Turn]) -> tuple[str | None, list[list[str]]]:
    """Return what the system says, and each question with its answer, if it has one."""
    system = turns[0][1] if turns[0][0] == SYSTEM else None
    spoken = [content for role, content in turns if role != SYSTEM]
    return system, [spoken[first : first + 2] for first in range(0, len(spoken), 2)]


def _mistral(turns: Sequence[Turn], learn: Collection[str]) -> Iterator[Part]:
    system, rounds = _rounds(turns)
    for number, (asked, *answers) in enumerate(rounds, 1):
        is_last = number == len(rounds)
        yield Part("[INST]", learned=False, markup=True)
        if is_last and system and (SYSTEM in learn) == ("user" in learn):
            yield Part(f"{system}\n\n{asked}", "user" in learn, alone=True)
        elif is_last and system:
            yield Part(system, SYSTEM in learn, alone=True)
            yield Part(f"\n\n{asked}", "user" in learn)
        else:
            yield Part(asked, "user" in learn, alone=True)
        yield Part("[/INST]", "user" in learn, markup=True)
        for answer in answers:
            yield Part(answer.rstrip(" "), "assistant" in learn, alone=True)
            yield Part("" if is_last else "</s>", "assistant" in learn, markup=True)


_JINJA = """\
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{ '<<SYS>>\\n' + message.content + '\\n<</SYS>>\\n\\n' }}
{%- elif message.role == 'user' -%}
{{ '[INST] ' + message.content | trim + ' [/INST]' }}
{%- elif message.role == 'assistant' -%}
{% generation %}{{ ' ' + message.content | trim + ' ' + eos_token }}{% endgeneration %}
{%- else -%}
{{ raise_exception('no place for ' + message.role) }}
{%- endif -%}
{%- endfor -%}
"""


def _jinja(turns: Sequence[Turn], _: Collection[str]) -> Iterator[Part]:
    """Write what the template does; a content of white space alone cannot be told from markup.

    A space before a content is of the content.
    """
    system, rounds = _rounds(turns)
    if system is not None:
        yield Part("<<SYS>>\n", learned=False, markup=True)
        yield Part(system, learned=False, markup=not system.split())
        yield Part("\n<</SYS>>\n\n", learned=False, markup=True)
    for number, (asked, *answers) in enumerate(rounds, 1):
        yield Part("[INST]", learned=False, markup=True)
        yield Part(f" {asked.strip()}", learned=False, markup=not asked.strip())
        yield Part(" [/INST]", learned=False, markup=True)
        for answer in answers:
            said = bool(answer.strip())
            yield Part(f" {answer.strip()}", learned=True, markup=not said, answers=said)
            yield Part(" " if number == len(rounds) else " </s>", learned=True, markup=True)


FILES = {"talk.jinja": _JINJA}
"""Templates that a run file names by their paths."""
TEMPLATES: dict[str, Template] = {
    "chatml": Template({"template": "chatml"}, ("<|im_start|>", "<|im_end|>"), _chatml),
    "llama3": Template(
        {"template": "llama3", "column": "meta.turns"},
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        _llama3,
    ),
    "mistral": Template(
        {"template": "mistral"},
        ("[INST]", "[/INST]", "</s>"),
        _mistral,
        refused=(("assistant", "Hello"), ("user", "Hi")),
    ),
    "jinja": Template(
        {"template": "talk.jinja", "eos_token": "</s>"},
        ("[INST]", "[/INST]", "</s>"),
        _jinja,
        learns=((),),
        refused=(("user", "Hi"), ("tool", "7")),
    ),
}
"""Every named one, and a file."""
