"""The section `[tokenizer.fairness]` of the run file: what a run's tokenizer is measured on."""

import re

from pydantic import Field, field_validator

from stages.config import Config

_NAMED = re.compile(r"([^=/\0]+)=([^\0]+)")
OWN = "run"
"""The name of the run's own tokenizer beside others."""


class FairnessSection(Config):
    """The same text in many languages, to measure the tokenizer on. No token depends on it."""

    parallel: str | None = None
    """Folder of LANG.txt, relative to the run file; line N of each file is the same sentence. Without
    it, the text is the Universal Declaration of Human Rights, in 62 languages."""
    reference: str = Field("en", min_length=1)
    """Language that the others are compared with."""
    compare: tuple[str, ...] = Field((), max_length=16)
    """Other tokenizers to measure on the same text, each as NAME=PATH, such as
    "gemma=gemma/tokenizer.json". The paths are relative to the run file. The kinds of files are those of
    `path`."""
    digests: dict[str, str] | None = None
    """XXH3-128 of each file of `parallel`, by language, and of each of `compare`, by name. The run fills
    it in. If you set it, files with other digests are refused."""

    @field_validator("compare")
    @classmethod
    def _named(cls, models: tuple[str, ...]) -> tuple[str, ...]:
        names = []
        for model in models:
            found = _NAMED.fullmatch(model)
            if found is None:
                raise ValueError(f"{model!r} is not NAME=PATH; write gemma=gemma/tokenizer.json")
            names.append(found[1])
        for name in names:
            if name == OWN or names.count(name) > 1:
                who = "the run's own tokenizer" if name == OWN else "two tokenizers"
                raise ValueError(f"{name!r} is the name of {who}; choose another")
        return models

    @property
    def others(self) -> dict[str, str]:
        """The paths of the other tokenizers by name."""
        return dict(model.split("=", 1) for model in self.compare)
