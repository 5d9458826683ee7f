"""Chat: which field holds a dialogue, what writes it out as a text, and whose turns are learned."""

from datetime import date

from pydantic import Field, field_validator, model_validator

from stages.chat.dialogue import is_role
from stages.chat.table import TEMPLATES
from stages.config import Config

JINJA = "jinja"
"""The template that `jinja` holds."""
_ASSISTANT = ("assistant",)
ENDINGS = (".jinja", ".jinja2", ".j2")
"""Of the files that hold a template."""


class ChatConfig(Config):
    """Dialogues in place of texts; see docs/chat.md."""

    column: str = Field("messages", min_length=1)
    """The field that holds the dialogue: a list of objects with `role` and `content`, or `from` and
    `value`, or such a list as a string of JSON."""
    completion_column: str | None = Field(None, min_length=1)
    """A field with further messages, which follow those of `column`, as `completion` follows `prompt`.
    Then the messages of `column` have the weight 0: they are never learned."""
    template: str
    """How a dialogue becomes a text: chatml, llama3, mistral, or the path of a Jinja template. The path
    is relative to the run file and ends in .jinja, .jinja2 or .j2. "jinja" is the template that `jinja`
    holds."""
    learn: tuple[str, ...] = Field(_ASSISTANT, min_length=1)
    """Roles whose turns are learned. A Jinja template says it itself, with {% generation %}."""
    bos_token: str | None = Field(None, min_length=1)
    """What `bos_token` is in a Jinja template that writes it between turns, as that of Llama 2 does.
    Where it begins the text, it is left to the framing. So is the same piece if it is written out."""
    eos_token: str | None = Field(None, min_length=1)
    """What `eos_token` is in a Jinja template that uses it. Where it ends the text, it is left to the
    framing."""
    spell_in_answers: bool = False
    """Whether pieces such as <think> are spelled out in answers too. A Jinja template names them, they
    open or close no turn, and the tokenizer does not call them special. Without this setting they are
    spelled out only in contents of roles that are not learned."""
    date: str | None = None
    """The day that a Jinja template gets as today from `strftime_now`, such as "2025-01-31". A template
    that asks for it is refused without a date."""
    jinja: str | None = Field(None, min_length=1)
    """A Jinja template itself; that of a file is put here when the run is planned."""

    @property
    def columns(self) -> dict[str, str]:
        """The fields that hold messages, in their order, by the settings that name them."""
        further = {} if self.completion_column is None else {"completion_column": self.completion_column}
        return {"column": self.column, **further}

    @property
    def path(self) -> str | None:
        """The file that the template is to be read from, if it is to be."""
        return None if self.template in TEMPLATES or self.template == JINJA else self.template

    @field_validator("learn")
    @classmethod
    def _name_roles(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        for role in roles:
            if not is_role(role):
                raise ValueError(f"{role!r} is no role: a letter, then letters, digits, '_' or '-'")
        return roles

    @field_validator("date")
    @classmethod
    def _a_day(cls, day: str | None) -> str | None:
        if day is not None:
            try:
                date.fromisoformat(day)
            except ValueError as error:
                raise ValueError(f'{day!r}: {error}; write a day as "2025-01-31"') from error
        return day

    @model_validator(mode="after")
    def _one_template(self) -> "ChatConfig":
        known = ", ".join(TEMPLATES)
        if self.completion_column == self.column:
            raise ValueError(f"column and completion_column are both {self.column!r}; name two fields")
        if self.path is not None and ("\0" in self.path or not self.path.endswith(ENDINGS)):
            raise ValueError(
                f"template = {self.template!r}: must be {known}, or the path of a Jinja template that"
                f" ends in {', '.join(ENDINGS)}"
            )
        if (self.template == JINJA) != (self.jinja is not None):
            raise ValueError('template = "jinja" and jinja = "..." are given together or not at all')
        for key in ("bos_token", "eos_token") if self.template in TEMPLATES else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key} is for Jinja templates; {self.template} has its own")
        if self.template in TEMPLATES and self.date is not None:
            raise ValueError(f"date is for Jinja templates; {self.template} writes none")
        if self.template in TEMPLATES and self.spell_in_answers:
            raise ValueError(
                f"spell_in_answers is for Jinja templates; all pieces of {self.template} are spelled out"
                " in every content"
            )
        if self.template not in TEMPLATES and self.learn != _ASSISTANT:
            raise ValueError(
                "learn is for named templates; a Jinja template says what is learned itself, with"
                " {% generation %} ... {% endgeneration %}"
            )
        return self
