"""What a run promises of a template that writes the piece with which framing begins texts.

It would stand there twice. So the template is refused, unless `bos_token` says which piece that is: then
the first one is left to the framing.
"""

from pathlib import Path
from typing import Any

import pytest

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session
from stages.errors import ConfigError
from tests.stages.chat.chat_files import chat_run, chat_tokenizer, dialogues, write_lines

BEGUN = """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{% generation %}{{ ' ' + message.content + '</s>' }}{% endgeneration %}
{%- else -%}
{{ '<s>[INST] ' + message.content + ' [/INST]' }}
{%- endif -%}
{%- endfor -%}
"""
"""Llama 2's, which begins each turn of a user."""


@pytest.mark.parametrize("tokenizer", [{}, {"tokenizer": {"train": {"vocab_size": 1200}}}])
def test_a_template_that_writes_what_begins_texts_is_refused_unless_it_says_so(
    tokenizer: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(write_lines(list(dialogues(3))))
    (tmp_path / "tokenizer.json").write_bytes(chat_tokenizer())
    (tmp_path / "begun.jinja").write_text(BEGUN)

    def plan(chat: dict[str, Any] | None = None, **framing: Any) -> str:
        content = chat_run("mistral", framing=framing, **tokenizer)
        content["sources"][0]["chat"] = {"template": "begun.jinja", **(chat or {})}
        request = RunRequest(RunFile.model_validate(content), tmp_path, tmp_path / "run", 0)
        states = plan_session(request)
        return next(one.step.warning for one in states if one.step.name == "tokenize") or ""

    message = r"sources\.chats\.chat: the template writes <s>, and the framing puts <s> before texts"
    for per in ("row", "document"):
        with pytest.raises(ConfigError, match=message):
            plan(begin="bos", per=per)
    assert "writes <s>" not in plan(per="row")
    assert "writes <s>" not in plan()
    begun = {"bos_token": "<s>", "eos_token": "</s>"}
    assert "framing" not in plan(begun, begin="bos").replace("and the framing with", "")
    assert 'set framing.begin = "bos"' in plan(begun)
    with pytest.raises(ConfigError, match="between turns, and the framing puts <s> before rows"):
        plan(begun, begin="bos", per="row")
