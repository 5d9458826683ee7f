"""Language: documents in the languages that are named, as a detector on this machine sees them.

    other_language    the detector's first guess is none of `languages`
    low_confidence    it is one of them, at less than `min_confidence`

The detector is py3langid: naive Bayes on byte n-grams (Lui and Baldwin 2012, "langid.py: an
off-the-shelf language identification tool", ACL), with its model in its package; nothing is downloaded.
It reads the first characters of a text. Its name and version are part of the fingerprint of ingest. With
`fill` a document whose record names no language gets the one that was detected, if the detector is as
sure.

docs/benchmarks.md says why it is this detector.
"""

import importlib
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, model_validator

from stages.errors import ConfigError, DataError
from stages.filtering.filter import Change, Document, Filter, FilterConfig, Judge, Removal, installed

PACKAGE = "py3langid"
EXTRA = "language"
_UTF8 = 4
"""Bytes of a character, at the most."""
_DIGITS = 4
"""Of a confidence that count: the last ones of a sum of floats may differ between processors."""


class Language(FilterConfig):
    """The language of a document, detected."""

    kind: Literal["language"] = "language"
    """Names the filter."""
    languages: tuple[str, ...] = ()
    """Languages to keep, as the detector names them: ISO 639-1, or 639-3 where there is none. None of
    them drops nothing."""
    min_confidence: float = Field(0.65, ge=0.0, le=1.0)
    """Least confidence of the detector, to keep a document or to fill in its language."""
    characters: int = Field(500, ge=20)
    """Characters of the beginning of a text that the detector reads."""
    fill: bool = False
    """Whether a document without a language gets the one that was detected."""
    detector: str | None = None
    """Name and version of the detector; found when the run is planned. If it is set, another is
    refused."""

    @model_validator(mode="after")
    def _does_something(self) -> "Language":
        if not self.languages and not self.fill:
            raise ValueError("does nothing; name languages to keep, or set fill = true")
        return self


class _Identifier(Protocol):
    labels: list[str]

    def classify(self, text: str) -> tuple[str, float]:
        """Return the likeliest language and how likely it is."""


def detector_here() -> str:
    """Return the name and version of the detector that is installed.

    Raises:
        ConfigError: there is none.
    """
    return installed(PACKAGE, EXTRA)


def load_detector() -> _Identifier:
    """Return the detector with its model."""
    home = importlib.import_module(f"{PACKAGE}.langid")
    found: _Identifier = home.LanguageIdentifier.from_model_file(home.MODEL_FILE, norm_probs=True)
    return found


def _open(config: Language) -> Judge:
    if detector_here() != config.detector:
        raise DataError(
            f"filters: kind = 'language': {detector_here()} is installed here, and the run was planned"
            f" with {config.detector}; install the same on every node"
        )
    detector, wanted = load_detector(), frozenset(config.languages)

    def judge(document: Document) -> Removal | Change | None:
        start = document.text[: _UTF8 * config.characters].decode(errors="ignore")[: config.characters]
        language, likely = detector.classify(start)
        confidence = round(float(likely), _DIGITS)
        if wanted and language not in wanted:
            return Removal("other_language", f"{language} at {confidence}; languages = {_list(config)}")
        if wanted and confidence < config.min_confidence:
            bound = f"min_confidence = {config.min_confidence}"
            return Removal("low_confidence", f"{language} at {confidence}; {bound}")
        if config.fill and document.language is None and confidence >= config.min_confidence:
            return Change(language=language, counts={"filled": 1})
        return None

    return judge


def _list(config: Language) -> str:
    return ", ".join(config.languages)


def _resolve(config: Language, _: Path, key: str) -> Language:
    try:
        here = detector_here()
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    if config.detector not in (None, here):
        raise ConfigError(f"{key}.detector = {config.detector!r}: {here} is installed; install that one")
    if config.detector is None:
        known = {str(label) for label in load_detector().labels}
        strangers = sorted(set(config.languages) - known)
        if strangers:
            raise ConfigError(
                f"{key}.languages: the detector knows no {strangers[0]!r}; it knows"
                f" {', '.join(sorted(known))}"
            )
    return config.model_copy(update={"detector": here})


LANGUAGE = Filter(
    Language,
    ("other_language", "low_confidence"),
    _open,
    resolve=_resolve,
    memory=160 << 20,
)
