"""Init and dialogues: the shapes in which data sets hold messages become a run that reads them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.initialised import TEXTS, ingested, init, lines_of

Talk = list[dict[str, str]]


def _csv(talks: list[Talk]) -> str:
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(["id", "messages"])
    rows.writerows([number, json.dumps(talk)] for number, talk in enumerate(talks))
    return file.getvalue()


def _lines(record: Callable[[Talk], dict[str, Any]]) -> Callable[[list[Talk]], str]:
    return lambda talks: lines_of([{"id": n, **record(talk)} for n, talk in enumerate(talks)])


SHAPES: dict[str, tuple[str, Callable[[list[Talk]], str], dict[str, str]]] = {
    "dialog": ("a.jsonl", _lines(lambda talk: {"dialog": talk}), {"column": "dialog"}),
    "chat": ("a.jsonl", _lines(lambda talk: {"chat": talk}), {"column": "chat"}),
    "json": ("a.jsonl", _lines(lambda talk: {"messages": json.dumps(talk)}), {"column": "messages"}),
    "csv": ("a.csv", _csv, {"column": "messages"}),
    "pair": (
        "a.jsonl",
        _lines(lambda talk: {"prompt": talk[:-1], "completion": talk[-1:]}),
        {"column": "prompt", "completion_column": "completion"},
    ),
    "pair in capitals": (
        "a.jsonl",
        _lines(lambda talk: {"Prompt": talk[:-1], "Completion": talk[-1:]}),
        {"column": "Prompt", "completion_column": "Completion"},
    ),
    "pair of json": (
        "a.jsonl",
        _lines(lambda talk: {"prompt": json.dumps(talk[:-1]), "response": json.dumps(talk[-1:])}),
        {"column": "prompt", "completion_column": "response"},
    ),
}
"""A file, what it holds of dialogues, and the fields that are to be found."""


@pytest.mark.parametrize("name", SHAPES)
def test_dialogues_of_every_shape_are_found_and_read(tmp_path: Path, name: str) -> None:
    place, written, columns = SHAPES[name]
    web = tmp_path / "web"
    web.mkdir()
    talks = [
        [{"role": "user", "content": text[:80]}, {"role": "assistant", "content": text[80:300]}]
        for text in TEXTS
    ]
    (web / place).write_text(written(talks), encoding="utf-8")
    content, (source,) = init(web)
    assert source["chat"] == {**columns, "template": "chatml"}
    assert content["task"] == "chat"
    assert content["sources"][0]["unread"] == []
    assert content["sources"][0]["text"] == ", ".join(columns.values())
    found = ingested(web)
    assert (found["read"], found["dropped"]) == (len(talks), {})


@pytest.mark.parametrize("completion", ["a text", [{"role": "assistant"}], []])
def test_a_prompt_whose_completion_holds_no_messages_is_no_dialogue(
    tmp_path: Path, completion: object
) -> None:
    web = tmp_path / "web"
    web.mkdir()
    prompt = [{"role": "user", "content": TEXTS[0][:80]}]
    rows = [{"id": n, "prompt": prompt, "completion": completion, "text": TEXTS[n]} for n in range(5)]
    (web / "a.jsonl").write_text(lines_of(rows), encoding="utf-8")
    content, (source,) = init(web)
    assert "chat" not in source
    assert content["sources"][0]["text"] == "text"
