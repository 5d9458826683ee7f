r"""Jinja templates, as transformers runs them, and which of their characters are content or learned.

A template is run as it is, and again with a mark of one private character in place of each content that
is not blank. What stands between the marks is markup, and must be the same both times, and so must what
is learned; so a template that cuts, changes or inspects a content refuses the dialogue, and so does one
that leaves a message out. Around a content the template may strip white space. What was thought before a
message is a content, too, but a template may leave it out: many write that of the last turns alone.
Spaces that the template writes directly before a content are of the content's section.

    as it is        <|user|>\nHi <|end|>
    with marks      <|user|>\n?<|end|>         ? is " Hi ", which stands there as "Hi "

{% generation %} .. {% endgeneration %} encloses what is learned. What begins the text with `bos_token`
is left to the framing; without a value for it, it is empty. What would differ from day to day or run to
run is refused: `strftime_now` without a fixed date, `random`.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import filterfalse, islice

import jinja2
from jinja2 import meta, nodes

from stages.chat.dialogue import TALK, TALKS, ChatTurn
from stages.chat.jinja_environment import BEGINS, ENDS, TODAY, environment_for, roles_in, strings_in
from stages.chat.template import (
    LEARNED,
    MARKUP,
    SPOKEN,
    ChatSection,
    RefusedError,
    merged,
    with_spaces,
)
from stages.errors import ConfigError

_PRIVATE = range(0xF0000, 0xFFFFE)
"""Characters that mean nothing of themselves."""
_MARK = chr(_PRIVATE[-1])
_INSPECTS = "the template changes or inspects a content, so it cannot be told apart"
_SHOWN = 200
_MOST_ROLES = 1 << 10
"""Of which is remembered whether they are learned; data sets have a few."""


class JinjaTemplate:
    """A template.

    Args:
        source: its text.
        eos_token: what it calls so, if it does.
        date: the day that it gets as today, as "2025-01-31".
        bos_token: what it calls so, if it writes it between turns.

    Raises:
        ConfigError: it is none, does not say what is learned, or uses `eos_token` that is not given, or
            `bos_token` between turns.
    """

    def __init__(
        self,
        source: str,
        eos_token: str | None,
        date: str | None = None,
        *,
        bos_token: str | None = None,
    ) -> None:
        self._eos, self._bos = eos_token, bos_token
        self._learned: dict[str, bool] = {}
        self.strings: tuple[str, ...]
        """What its source writes out as it is, and strings that it may put together."""
        self.roles: tuple[str, ...]
        """Strings that it compares with and that may be names of roles."""
        environment = environment_for(date)
        try:
            tree = environment.parse(source)
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            line = f", line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise ConfigError(f"not a Jinja template{line}: {error.message}") from error
        self.strings = tuple(strings_in(tree))
        self.roles = tuple(dict.fromkeys(roles_in(tree)))
        if not any(node.name == "_learned" for node in tree.find_all(nodes.ExtensionAttribute)):
            raise ConfigError(
                "has no {% generation %} ... {% endgeneration %}, so nobody knows what of a dialogue is"
                " learned; put them around what the model is to say, the end of its turn included"
            )
        if eos_token is None and "eos_token" in meta.find_undeclared_variables(tree):
            raise ConfigError(
                'uses eos_token, which it would not have; set eos_token of chat, such as "</s>"'
            )
        if bos_token is None and "bos_token" in meta.find_undeclared_variables(tree):
            self._require_no_inner_begin()
        if date is None and "strftime_now" in source:
            self._require_no_date()

    def _require_no_inner_begin(self) -> None:
        for talk in TALKS:
            try:
                text = self._run(talk, bos=_MARK)
            except RefusedError:
                continue
            if _MARK in text[1:]:
                raise ConfigError(
                    "writes bos_token between turns, where it would be empty; set bos_token of chat,"
                    ' such as "<s>": the first one is left to the framing, and the others are written'
                )

    def _require_no_date(self) -> None:
        for talk in TALKS:
            try:
                self._run(talk)
            except RefusedError as error:
                if TODAY in str(error):
                    raise ConfigError(TODAY) from error

    def render(self, turns: Sequence[ChatTurn]) -> list[ChatSection]:
        """Return a dialogue as sections, none of them empty.

        Raises:
            RefusedError: the template raises, or does more with contents than to put them somewhere.
        """
        bare = self._run(turns)
        begins, ends, *marks = _free_characters(bare, turns)
        plain = self._run(turns, begins=begins, ends=ends)
        if plain.replace(begins, "").replace(ends, "") != bare:
            raise RefusedError("the template changes or inspects what a {% generation %} block holds")
        marked, contents = _with_marks(turns, marks)
        self._refuse_learned_blanks(turns, marks[0])
        shown = self._run(marked, begins=begins, ends=ends)
        for number, (turn, one) in enumerate(zip(turns, marked, strict=True), 1):
            if one.content in contents and one.content not in shown:
                raise RefusedError(f"the template leaves out message {number:,}, of role {turn.role!r}")
        unlearned = {
            mark: number
            for number, one in enumerate(marked, 1)
            for mark in one.texts
            if not one.weight and mark in contents
        }
        spoken = self._spoken(marked, shown, contents, begins=begins, ends=ends)
        found = _sections(shown, plain, contents, unlearned, spoken, begins=begins, ends=ends)
        return with_spaces(self._without_frame(merged(found)))

    def _refuse_learned_blanks(self, turns: Sequence[ChatTurn], mark: str) -> None:
        """Refuse a template that would learn a blank message of weight 0, or what closes it."""
        for number, turn in enumerate(turns, 1):
            if not turn.weight and not turn.content.strip():
                others = [*turns]
                others[number - 1] = turn._replace(content=mark)
                if self._learns_mark(others, mark):
                    raise _learned_for(number)

    def _without_frame(self, sections: list[ChatSection]) -> list[ChatSection]:
        """Return sections without what the framing puts before and behind them."""
        if self._bos is not None and sections and sections[0].flags & MARKUP:
            first = sections[0]
            sections[0] = ChatSection(first.text.removeprefix(self._bos), first.flags)
        if self._eos is not None and sections and sections[-1].flags & MARKUP:
            last = sections[-1]
            sections[-1] = ChatSection(last.text.removesuffix(self._eos), last.flags)
        return merged(sections)

    def _spoken(
        self,
        marked: Sequence[ChatTurn],
        shown: str,
        contents: Collection[str],
        *,
        begins: str,
        ends: str,
    ) -> set[str]:
        """Return the marks of contents of roles that are learned, here or in a small dialogue."""
        blocks = re.findall(f"{begins}([^{ends}]*){ends}", shown)
        inside = {character for block in blocks for character in block if character in contents}
        roles = {turn.role for turn in marked if inside.intersection(turn.texts)}
        roles |= {turn.role for turn in marked if self._learns(turn.role)}
        return {text for turn in marked if turn.role in roles for text in turn.texts if text in contents}

    def _learns(self, role: str) -> bool:
        """Say whether a turn of a role is learned in a dialogue with a user."""
        if role not in self._learned:
            if len(self._learned) >= _MOST_ROLES:
                self._learned.clear()
            turn = ChatTurn(role, _MARK)
            self._learned[role] = any(map(self._learns_mark, ((TALK[0], turn), (turn,))))
        return self._learned[role]

    def _learns_mark(self, turns: Sequence[ChatTurn], mark: str = _MARK) -> bool:
        begins, ends, *_ = _free_characters(mark, turns)
        try:
            found = self._run(turns, begins=begins, ends=ends)
        except RefusedError:
            return False
        return any(mark in block for block in re.findall(f"{begins}([^{ends}]*){ends}", found))

    @property
    def is_begun(self) -> bool:
        """Whether it begins a talk of user and assistant with its `bos_token`."""
        try:
            return self._bos is not None and self._run(TALK).startswith(self._bos)
        except RefusedError:
            return False

    def text_of(self, turns: Sequence[ChatTurn]) -> str:
        """Return a dialogue as the template writes it.

        Raises:
            RefusedError: the template raises.
        """
        return self._run(turns)

    def left_out(self, turns: Sequence[ChatTurn]) -> list[str]:
        """Return the fields of what was thought that the template leaves out, each as often.

        Args:
            turns: of a dialogue that the template can write.
        """
        if not any(turn.reasoning for turn in turns):
            return []
        _, _, *marks = _free_characters(self._run(turns), turns)
        marked, contents = _with_marks(turns, marks)
        shown = self._run(marked)
        thought = (one for turn in marked for one in turn.reasoning)
        return [name for name, mark in thought if mark in contents and mark not in shown]

    def _run(
        self, turns: Sequence[ChatTurn], *, begins: str = "", ends: str = "", bos: str | None = None
    ) -> str:
        messages = [turn.for_template() for turn in turns]
        bos = self._bos or "" if bos is None else bos
        variables = {BEGINS: begins, ENDS: ends, "bos_token": bos}
        if self._eos is not None:
            variables["eos_token"] = self._eos
        try:
            text = self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=False,
                **variables,
            )
            text.encode()  # a surrogate is no character
        except MemoryError:
            raise
        except Exception as error:  # a template may raise anything
            said = " ".join(str(error).split())[:_SHOWN]
            kind = "" if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: "
            raise RefusedError(f"the template refuses it: {kind}{said}") from error
        return text


def _learned_for(number: int) -> RefusedError:
    return RefusedError(
        f"message {number:,} has the weight 0, and the template learns it; let the template ask for"
        " message.weight"
    )


def _free_characters(bare: str, turns: Sequence[ChatTurn]) -> list[str]:
    """Return private characters that neither a text nor its dialogue has: two, and one for each text."""
    texts = [text for turn in turns for text in turn.texts]
    taken = set(bare).union(*texts)
    found = list(islice(filterfalse(taken.__contains__, map(chr, _PRIVATE)), len(texts) + 2))
    if len(found) < len(texts) + 2:
        raise RefusedError("it holds too many private characters of Unicode")
    return found


def _with_marks(
    turns: Sequence[ChatTurn], marks: Iterable[str]
) -> tuple[list[ChatTurn], dict[str, str]]:
    """Return turns with marks in place of their texts, and what each mark is of.

    A blank text stays, because many templates ask whether there is one.
    """
    marked, contents, free = [], dict[str, str](), iter(marks)
    for turn in turns:
        own = []
        for text in turn.texts:
            mark = next(free)
            own.append(mark if text.strip() else text)
            if own[-1] is mark:
                contents[mark] = text
        names = [name for name, _ in turn.reasoning]
        reasoning = tuple(zip(names, own[:-1], strict=True))
        marked.append(turn._replace(content=own[-1], reasoning=reasoning))
    return marked, contents


def _sections(
    shown: str,
    plain: str,
    contents: dict[str, str],
    unlearned: dict[str, int],
    spoken: Collection[str],
    *,
    begins: str,
    ends: str,
) -> Iterator[ChatSection]:
    """Yield the sections of a text, found by what stands where the marks do.

    Args:
        shown: the text with marks.
        plain: the text itself, with the same around what is learned.
        contents: what each mark stands for.
        unlearned: the numbers of messages of weight 0, by their marks.
        spoken: the marks of contents of roles that are learned.
        begins: stands before what is learned.
        ends: stands behind it.
    """
    parts = [part for part in re.split(f"([{''.join([begins, ends, *contents])}])", shown) if part]
    place = depth = 0
    for number, part in enumerate(parts):
        learned = LEARNED if depth else 0
        if part in contents:
            if learned and part in unlearned:
                raise _learned_for(unlearned[part])
            behind = next(iter(parts[number + 1 :]), "")
            content = _content_at(plain, place, contents[part], "" if behind in contents else behind)
            yield ChatSection(content, learned | (SPOKEN if part in spoken else 0))
            place += len(content)
            continue
        if not plain.startswith(part, place):
            raise RefusedError(_INSPECTS)
        if part in (begins, ends):
            depth += 1 if part == begins else -1
        else:
            yield ChatSection(part, MARKUP | learned)
        place += len(part)
    if place != len(plain):
        raise RefusedError(_INSPECTS)


def _content_at(plain: str, place: int, content: str, behind: str) -> str:
    """Return how a content is in a text: as it is, or without white space of a kind around it."""
    strips = (str.strip, str.lstrip, str.rstrip)
    forms = (strip(content, taken) for taken in (None, "\n", " ") for strip in strips)
    for form in (content, *forms):
        if plain.startswith(form, place) and plain.startswith(behind, place + len(form)):
            return form
    raise RefusedError(_INSPECTS)
