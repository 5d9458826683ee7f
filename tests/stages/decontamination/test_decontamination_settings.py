"""Settings of decontamination that name nothing, or name one thing twice, are refused."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from stages.decontamination.config import Decontamination, EvaluationSet

SET: dict[str, Any] = {"name": "quiz", "paths": ("quiz.jsonl",)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "a b"}, "name\n.*must be letters, digits"),
        ({"name": ""}, "name\n.*must be letters, digits"),
        ({"paths": ("a", "b", "a")}, "paths\n.*'a' stands twice; name it once"),
        ({"paths": ("",)}, "paths\n.*'' names nothing; remove it"),
        ({"text_columns": ("q", "q")}, "text_columns\n.*'q' stands twice; name it once"),
        ({"text_columns": ("a\0",)}, r"text_columns\n.*names nothing; remove it"),
    ],
)
def test_a_set_names_each_thing_once(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        EvaluationSet.model_validate({**SET, **changes})
    assert re.search(said, str(error.value))


def test_each_set_has_a_name_of_its_own() -> None:
    other = {**SET, "name": "exam", "action": "report"}
    both = Decontamination.model_validate({"sets": (SET, other)})
    assert [both.action_of(number) for number in range(2)] == ["drop", "report"]
    with pytest.raises(ValidationError, match="sets: the name 'quiz' stands twice"):
        Decontamination.model_validate({"sets": (other, SET, {**SET, "paths": ("other.jsonl",)})})


def test_a_text_that_is_looked_for_as_a_whole_is_shorter_than_an_ngram() -> None:
    Decontamination.model_validate({"sets": (SET,), "min_words": 13, "ngram": 13})
    with pytest.raises(ValidationError, match="min_words = 14: over ngram = 13; lower it, or raise"):
        Decontamination.model_validate({"sets": (SET,), "min_words": 14, "ngram": 13})
