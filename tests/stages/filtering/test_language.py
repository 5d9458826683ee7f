"""What the filter of languages promises: the detector's guess decides, and fills in what is missing."""

import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
from pydantic import ValidationError

from stages.errors import ConfigError, DataError
from stages.filtering import language
from stages.filtering.filter import Change, Document, FilterConfig, Removal
from stages.filtering.language import Language, detector_here, load_detector
from stages.filtering.table import filter_of
from tests.conftest import bundled_lines

ENGLISH = "All human beings are born free and equal in dignity and rights. They are endowed with reason."
FRENCH = (
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison."
)
KEY = "filters.0 (kind = 'language')"


def resolved(**settings: object) -> FilterConfig:
    """Return settings with the detector that is installed."""
    config = Language.model_validate(settings)
    return filter_of(config).resolve(config, Path(), KEY)


def asked(config: FilterConfig, text: str, name: str | None = None) -> Removal | Change | None:
    """Return the verdict on a text whose record names a language, or none."""
    return filter_of(config).open(config)(Document(text.encode(), len(text), name))


def test_a_document_stays_if_its_language_is_named() -> None:
    config = resolved(languages=["en", "de"])
    assert asked(config, ENGLISH, "fr") is None
    verdict = asked(config, FRENCH, "en")
    assert isinstance(verdict, Removal)
    assert verdict.rule == "other_language"
    assert verdict.detail.startswith("fr at ")
    assert verdict.detail.endswith("; languages = en, de")


def test_a_document_of_which_the_detector_is_not_sure_goes() -> None:
    verdict = asked(resolved(languages=["zxx"], min_confidence=0.9), "asdf qwer zxcv uiop hjkl")
    assert isinstance(verdict, Removal)
    assert verdict.rule == "low_confidence"
    assert asked(resolved(languages=["zxx"], min_confidence=0.1), "asdf qwer zxcv uiop hjkl") is None


def test_a_missing_language_is_filled_in_if_the_detector_is_sure() -> None:
    config = resolved(fill=True)
    assert asked(config, FRENCH) == Change(language="fr", counts={"filled": 1})
    assert asked(config, FRENCH, "oc") is None, "what the record says stays"
    assert asked(resolved(fill=True, min_confidence=1.0), "asdf qwer zxcv uiop hjkl") is None


def test_the_beginning_of_a_text_is_read() -> None:
    config = resolved(languages=["en"], characters=80)
    assert asked(config, ENGLISH[:80] + FRENCH * 50) is None
    assert isinstance(asked(config, FRENCH[:80] + ENGLISH * 50), Removal)
    assert isinstance(asked(resolved(languages=["en"], characters=20), "猫が座る" * 20), Removal)


def test_almost_every_bundled_text_has_the_language_that_its_record_names() -> None:
    records = [json.loads(line) for line in bundled_lines("text/human-rights*", 400)]
    detector = load_detector()
    known = {str(label) for label in detector.labels}
    found = Counter(
        detector.classify(record["text"][:500])[0] == record["lang"]
        for record in records
        if record["lang"] in known
    )
    assert found.total() > 200
    assert found[True] / found.total() > 0.95


def test_the_detector_is_part_of_the_settings_and_another_is_refused() -> None:
    here = f"py3langid {version('py3langid')}"
    assert detector_here() == here
    assert resolved(languages=["en"]).model_dump()["detector"] == here
    with pytest.raises(ConfigError, match=r"detector = 'other 1': py3langid .* is installed"):
        resolved(languages=["en"], detector="other 1")
    with pytest.raises(DataError, match="the run was planned with other 1"):
        asked(Language(languages=("en",), detector="other 1"), ENGLISH)


def test_a_detector_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "PACKAGE", "no_such_detector")
    with pytest.raises(ConfigError, match=r"no_such_detector.*pip install 'shardmill\[language\]'"):
        resolved(languages=["en"])


def test_a_language_that_the_detector_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the detector knows no 'eng'; it knows .*en"):
        resolved(languages=["en", "eng"])


def test_settings_that_do_nothing_are_refused() -> None:
    with pytest.raises(
        ValidationError, match="does nothing; name languages to keep, or set fill = true"
    ):
        Language()
