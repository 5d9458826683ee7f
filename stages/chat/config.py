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
    `value`."""
    template: str
    """How a dialogue becomes a text: chatml, llama3, mistral, or the path of a Jinja template. The path
    is relative to the run file and ends in .jinja, .jinja2 or .j2. "jinja" is the template that `jinja`
    holds."""
    learn: tuple[str, ...] = Field(_ASSISTANT, min_length=1)
    """Roles whose turns are learned. A Jinja template says it itself, with {% generation %}."""
    eos_token: str | None = Field(None, min_length=1)
    """What `eos_token` is in a Jinja template that uses it. Where it ends the text, it is left to the
    framing."""
    date: str | None = None
    """The day that a Jinja template gets as today from `strftime_now`, such as "2025-01-31". A template
    that asks for it is refused without a date."""
    jinja: str | None = Field(None, min_length=1)
    """A Jinja template itself; that of a file is put here when the run is planned."""

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
    def _a_day(cls, written: str | None) -> str | None:
        if written is not None:
            try:
                date.fromisoformat(written)
            except ValueError as error:
                raise ValueError(f'{written!r}: {error}; write a day as "2025-01-31"') from error
        return written

    @model_validator(mode="after")
    def _one_template(self) -> "ChatConfig":
        known = ", ".join(TEMPLATES)
        if self.path is not None and ("\0" in self.path or not self.path.endswith(ENDINGS)):
            raise ValueError(
                f"template = {self.template!r}: must be {known}, or the path of a Jinja template that"
                f" ends in {', '.join(ENDINGS)}"
            )
        if (self.template == JINJA) != (self.jinja is not None):
            raise ValueError('template = "jinja" and jinja = "..." are given together or not at all')
        if self.template in TEMPLATES and self.eos_token is not None:
            raise ValueError(f"eos_token is for Jinja templates; {self.template} has its own")
        if self.template in TEMPLATES and self.date is not None:
            raise ValueError(f"date is for Jinja templates; {self.template} writes none")
        if self.template not in TEMPLATES and self.learn != _ASSISTANT:
            raise ValueError(
                "learn is for named templates; a Jinja template says what is learned itself, with"
                " {% generation %} ... {% endgeneration %}"
            )
        return self
