"""What Jinja templates promise of frames and roles: what begins turns, and who is learned."""

import pytest

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn, dialogue_of
from stages.chat.jinja_file import JinjaTemplate
from stages.chat.rendering import begins_with, never_learns_end, open_left_out, spelled_pieces
from stages.chat.template import LEARNED, MARKUP, SPOKEN
from stages.errors import ConfigError
from tests.stages.chat.test_jinja_file import render

C, L, M = 0, LEARNED, MARKUP
BOS, EOS = "<s>", "</s>"

LLAMA2 = """\
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{ BEGIN + '[INST] ' + m.content.strip() + ' [/INST]' }}
{%- else -%}
{% generation %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endgeneration %}
{%- endif -%}
{%- endfor -%}
"""
"""That of Llama 2, which begins each turn of a user as a text."""


@pytest.mark.parametrize("written", ["bos_token", "'<s>'"])
def test_what_begins_turns_is_written_and_the_first_is_left_to_the_framing(written: str) -> None:
    source = LLAMA2.replace("BEGIN", written)
    turns = [
        ChatTurn(role, f" {text}\n")
        for role, text in zip(["user", "assistant"] * 2, "abcd", strict=True)
    ]
    template = JinjaTemplate(source, EOS, bos_token=BOS)
    assert template.is_begun
    assert render(template, turns) == [
        ("[INST]", M),
        (" a", C),
        (" [/INST]", M),
        (" b", L),
        (f" {EOS}", M | L),
        ("<s>[INST]", M),
        (" c", C),
        (" [/INST]", M),
        (" d", L),
        (" ", M | L),
    ]
    assert not JinjaTemplate(source.replace(written, "''"), EOS, bos_token=BOS).is_begun


def test_only_the_piece_itself_is_left_to_the_framing() -> None:
    source = "{{ bos_token }}<<s>>{% generation %}{{ messages[0].content }}{% endgeneration %}<s></s>"
    found = render(JinjaTemplate(source, "</s>", bos_token=BOS), [ChatTurn("user", "a")])
    assert found == [("<<s>>", M), ("a", L), ("<s>", M)]


def test_what_would_begin_turns_with_nothing_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="writes bos_token between turns, where it would be empty; set"
    ):
        JinjaTemplate(LLAMA2.replace("BEGIN", "bos_token"), EOS)
    whole = "{{ bos_token }}" + LLAMA2.replace("BEGIN", "''")
    assert render(JinjaTemplate(whole, EOS), [ChatTurn("user", "a")])[0] == ("[INST]", M)
    assert render(JinjaTemplate(LLAMA2.replace("BEGIN", "'<s>'"), EOS), [ChatTurn("user", "a")])[0] == (
        "<s>[INST]",
        M,
    )


TOLD = """\
{%- for m in messages -%}
<|{{ m.role }}|>
{%- if m.role == 'assistant' and loop.last -%}
{% generation %}{{ m.content }}<|end|>{% endgeneration %}
{%- else -%}
{{ m.content }}<|end|>
{%- endif -%}
{%- endfor -%}
"""
"""It learns the last answer alone."""


def test_contents_of_a_role_that_is_learned_are_known_whether_the_turn_is_learned_or_not() -> None:
    turns = [ChatTurn(role, "x") for role in ("user", "assistant", "tool", "assistant", "user")]
    contents = [flags & ~L for _, flags in JinjaTemplate(TOLD, None).render(turns) if not flags & M]
    assert contents == [0, SPOKEN, 0, SPOKEN, 0]


def test_a_blank_content_makes_no_role_a_learned_one() -> None:
    turns = [ChatTurn(role, text) for role, text in (("user", "x"), ("assistant", "\n"), ("user", "\n"))]
    source = TOLD.replace("and loop.last", "and loop.index == 2")
    assert JinjaTemplate(source, None).render(turns)[1] == ("x", C)


def test_a_role_counts_as_learned_where_a_dialogue_learns_it() -> None:
    source = TOLD.replace("m.role == 'assistant' and loop.last", "loop.index == 7")
    turns = [ChatTurn("critic" if number % 2 else "user", "x") for number in range(8)]
    flags = [flags for _, flags in JinjaTemplate(source, None).render(turns) if not flags & M]
    assert [one & SPOKEN for one in flags] == [SPOKEN, 0] * 4
    assert [one & L for one in flags] == [0] * 6 + [L, 0]


def test_an_end_that_is_left_to_the_framing_is_learned_as_it_is() -> None:
    source = (
        "{% for m in messages %}{% if loop.last %}{% generation %}{{ m.content + eos_token }}"
        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    assert not never_learns_end(ChatConfig(template="jinja", jinja=source, eos_token=EOS))


def test_a_tokenizer_should_have_what_begins_turns() -> None:
    chat = ChatConfig(template="jinja", jinja=TOLD, bos_token=BOS)
    assert spelled_pieces(chat) == ["<s>", "<|assistant|>", "<|end|>", "<|user|>"]
    assert begins_with(chat) is None
    assert begins_with(ChatConfig(template="jinja", jinja=f"x{BOS}{TOLD}", bos_token=BOS)) is None
    assert begins_with(ChatConfig(template="jinja", jinja=f"{BOS}{TOLD}", bos_token=BOS)) == BOS


@pytest.mark.parametrize(
    ("has", "gets"),
    [
        ({"reasoning": "a"}, {"reasoning": "a", "thinking": "a", "reasoning_content": "a"}),
        ({"thinking": "a"}, {"thinking": "a", "reasoning_content": "a"}),
        ({"reasoning_content": "a"}, {"thinking": "a", "reasoning_content": "a"}),
        (
            {"thinking": "b", "reasoning_content": "a"},
            {"thinking": "b", "reasoning_content": "a"},
        ),
        (
            {"thinking": "b", "reasoning": "c"},
            {"thinking": "b", "reasoning": "c", "reasoning_content": "b"},
        ),
        ({}, {}),
    ],
)
def test_templates_get_what_was_thought_as_transformers_hands_it_over(
    has: dict[str, str], gets: dict[str, str]
) -> None:
    (turn,) = dialogue_of([{"role": "assistant", "content": "x", **has}])
    given = turn.for_template()
    assert {name: given[name] for name in given if name not in ("role", "content", "weight")} == gets


def test_a_content_may_lose_the_spaces_at_its_ends_and_keep_its_line_feeds() -> None:
    source = "{% generation %}{{ messages[0].content.strip(' ') }}<|end|>{% endgeneration %}"
    found = render(JinjaTemplate(source, None), [ChatTurn("assistant", " \n a \n ")])
    assert found == [("\n a \n", L), ("<|end|>", M | L)]


@pytest.mark.parametrize("template", ["chatml", "jinja"])
def test_each_thought_that_a_template_leaves_out_counts_and_blank_ones_are_none(template: str) -> None:
    jinja = TOLD if template == "jinja" else None
    said = [
        {"role": "assistant", "content": "x", "thinking": thought} for thought in ("a", " ", "b", "")
    ]
    turns = [*dialogue_of([*said, {"role": "assistant", "content": "y", "reasoning": "c"}])]
    found = open_left_out(ChatConfig(template=template, jinja=jinja))(turns)
    assert sorted(found) == ["reasoning", "thinking", "thinking"]
