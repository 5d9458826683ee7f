"""What Jinja templates promise: content told from markup and from what is learned, or a refusal."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.chat.jinja_file import JinjaTemplate
from stages.chat.rendering import never_learns_end
from stages.chat.table import TEMPLATES
from stages.chat.template import LEARNED, MARKUP, ChatSection, RefusedError
from stages.errors import ConfigError
from tests.stages.chat.chat_files import JINJA

TURNS = [ChatTurn("user", " Hi\n"), ChatTurn("assistant", "\tHello  ")]
C, L, M = 0, LEARNED, MARKUP
EOS = "</s>"

contents = st.text(st.characters(codec="utf-8"), max_size=12)


def render(template: JinjaTemplate, turns: Sequence[ChatTurn]) -> list[ChatSection]:
    """Return a dialogue as a template writes it, what is learned and what is markup."""
    return [ChatSection(text, flags & (L | M)) for text, flags in template.render(turns)]


@pytest.mark.parametrize("name", JINJA)
@given(st.lists(contents, min_size=1, max_size=5), st.sampled_from([[], ["system"]]))
def test_the_jinja_of_a_named_template_gives_its_text_and_what_is_learned(
    name: str, said: list[str], system: list[str]
) -> None:
    roles = [*system, *["user", "assistant"] * 3]
    turns = [ChatTurn(role, content) for role, content in zip(roles, said, strict=False)]
    if roles[: len(turns)] == ["system"]:
        turns.append(ChatTurn("user", "x"))
    template = JinjaTemplate(JINJA[name], EOS if name == "mistral" else None)
    found = render(template, turns)
    wanted = TEMPLATES[name].render(turns, ("assistant",))
    assert "".join(part.text for part in found) == "".join(part.text for part in wanted)
    assert learned(found) == learned(wanted)


def learned(sections: Sequence[ChatSection]) -> list[bool]:
    """Return of each character whether it is learned."""
    return [bool(flags & LEARNED) for text, flags in sections for _ in text]


def test_white_space_around_a_content_is_content_only_where_it_stands() -> None:
    source = (
        "{% generation %}{% for m in messages %}[{{ m.content|trim }}]\n[{{ m.content }}]{% endfor %}"
        "{% endgeneration %}"
    )
    found = render(JinjaTemplate(source, None), TURNS[:1])
    assert found == [("[", M | L), ("Hi", L), ("]\n[", M | L), (" Hi\n", L), ("]", M | L)]


def test_a_content_is_never_markup_whatever_it_holds() -> None:
    source = "{% for m in messages %}<|x|>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    turns = [ChatTurn("user", "<|x|>"), ChatTurn("user", "\U000f0000 \U000f0001")]
    assert render(JinjaTemplate(source, None), turns) == [
        ("<|x|>", M),
        ("<|x|>", L),
        ("<|x|>", M),
        ("\U000f0000 \U000f0001", L),
    ]


def test_a_last_eos_is_left_to_framing_and_bos_is_empty() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% generation %}{{ m.content + eos_token }}"
        "{% endgeneration %}{% endfor %}"
    )
    found = render(JinjaTemplate(source, EOS), [ChatTurn("user", "a"), ChatTurn("user", EOS)])
    assert found == [("a", L), (EOS, M | L), (EOS, L)]


def test_blocks_are_tracked_in_macros_too() -> None:
    source = (
        "{% macro turn(m) %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}"
        "{% endmacro %}"
        "{% for m in messages %}{{ turn(m) }}{% endfor %}"
    )
    found = render(JinjaTemplate(source, None), [ChatTurn("user", "a")])
    assert found == [("<user>", M), ("a", L)]


def test_loops_may_be_left_and_json_is_plain() -> None:
    source = (
        "{% generation %}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{{ {'a': '<é>'} | tojson }}{{ m.content }}{% endfor %}{% endgeneration %}"
    )
    found = render(JinjaTemplate(source, None), [ChatTurn("user", "x"), ChatTurn("user", " ")])
    assert "".join(part.text for part in found) == '{"a": "<é>"}x'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{{ messages[0].content }}", "leaves out message 2, of role 'assistant'"),
        ("{% for m in messages %}{{ m.content[:3] }}{% endfor %}", "changes or inspects a content"),
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "changes or inspects a content"),
        ("{% for m in messages %}{{ m.content ~ m.content|length }}{% endfor %}", "changes or inspects"),
        (
            "{% for m in messages %}{{ m.content }}{{ 'x' if 'H' in m.content }}{% endfor %}",
            "changes or inspects",
        ),
        (
            "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'x' if 'H' in messages[1].content }}",
            "changes or inspects",
        ),
        ("{{ raise_exception('no tools here') }}", "the template refuses it: no tools here"),
        (
            "{% if messages[0].content | length > 1 %}{{ strftime_now('%Y') }}{% endif %}",
            "another text on another day",
        ),
        ("{{ 1 + messages[0].content }}", "the template refuses it: TypeError"),
        ("{{ messages[7].content }}", "the template refuses it: .*has no element 7"),
        ("{{ '\\ud800' }}", "the template refuses it: UnicodeEncodeError"),
        ("{{ ''.__class__.__mro__ }}", "the template refuses it: .*unsafe"),
        ("{{ messages.append(1) }}", "the template refuses it: .*unsafe"),
    ],
)
def test_a_dialogue_that_cannot_be_told_apart_is_refused(body: str, message: str) -> None:
    template = JinjaTemplate(f"{{% generation %}}{body}{{% endgeneration %}}", None)
    with pytest.raises(RefusedError, match=message):
        render(template, TURNS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for %}", "not a Jinja template, line 1"),
        ("\n{% generation %}", "not a Jinja template, line 2"),
        ("{{ x | random }}", "not a Jinja template, line 1: No filter named 'random'"),
        ("{{ messages[0].content }}", "has no {% generation %}"),
        ("{# {% generation %} #}{{ messages }}", "has no {% generation %}"),
        ("{% generation %}{{ eos_token }}{% endgeneration %}", "set eos_token of chat"),
    ],
)
def test_a_template_that_is_none_is_refused(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        JinjaTemplate(source, None)


def test_a_weight_of_0_is_the_templates_to_heed() -> None:
    turns = [ChatTurn("assistant", "a", weight=0), ChatTurn("assistant", "b")]
    learns = "{% generation %}{{ m.content }}{% endgeneration %}"
    with pytest.raises(RefusedError, match="message 1 has the weight 0"):
        render(JinjaTemplate("{% for m in messages %}" + learns + "{% endfor %}", None), turns)
    heeds = "{% for m in messages %}{% if m.weight %}" + learns + "{% else %}{{ m.content }}{% endif %}"
    assert render(JinjaTemplate(heeds + "{% endfor %}", None), turns) == [("a", C), ("b", L)]


@pytest.mark.parametrize("content", ["", " \n"])
def test_a_blank_message_of_weight_0_is_not_learned_either(content: str) -> None:
    source = "{% for m in messages %}{% generation %}{{ m.content }}<e>{% endgeneration %}{% endfor %}"
    turns = [ChatTurn("assistant", "a"), ChatTurn("assistant", content, weight=0)]
    with pytest.raises(RefusedError, match="message 2 has the weight 0"):
        render(JinjaTemplate(source, None), turns)


@pytest.mark.parametrize("test", ["m.content|length > 1", "'no' not in m.content", "m.content != 'yes'"])
def test_a_template_that_learns_by_what_a_content_says_refuses_the_dialogue(test: str) -> None:
    source = (
        "{% for m in messages %}{% if TEST %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    turns = [ChatTurn("assistant", text) for text in ("yes", "no")]
    with pytest.raises(RefusedError, match="changes or inspects a content"):
        render(JinjaTemplate(source.replace("TEST", test), None), turns)


def test_a_template_that_changes_what_a_block_holds_refuses_the_dialogue() -> None:
    source = (
        "{% for m in messages %}{% set held %}{% generation %} {{ m.content }} {% endgeneration %}"
        "{% endset %}{{ held|trim }}{% endfor %}"
    )
    with pytest.raises(RefusedError, match=r"what a .* block holds"):
        render(JinjaTemplate(source, None), [ChatTurn("assistant", "a")])


@pytest.mark.parametrize(
    ("before", "content", "sections"),
    [
        ("A: ", "Paris", [("A:", M), (" Paris", L)]),
        ("A:  ", "Paris", [("A:", M), ("  Paris", L)]),
        ("A: ", " Paris", [("A:", M), ("  Paris", L)]),
        ("A: ", "\nParis", [("A:", M), (" \nParis", L)]),
        ("A:\n", "Paris", [("A:\n", M), ("Paris", L)]),
        ("A:\t", "Paris", [("A:\t", M), ("Paris", L)]),
        ("A:\n ", "Paris", [("A:\n", M), (" Paris", L)]),
        ("A: ", " ", [("A: ", M), (" <|end|>", M | L)]),
        (" ", "Paris", [(" Paris", L)]),
    ],
)
def test_spaces_of_the_template_before_a_content_belong_to_it(
    before: str, content: str, sections: list[tuple[str, int]]
) -> None:
    block = "{% generation %}{{ messages[0].content }}<|end|>{% endgeneration %}"
    source = f"{{{{ {before!r} }}}}{block}"
    found = render(JinjaTemplate(source, None), [ChatTurn("user", content)])
    assert found == ([*sections, ("<|end|>", M | L)] if content.strip() else sections)


REASONS = """\
{%- set last = messages | length -%}
{%- for m in messages -%}
<|{{ m.role }}|>
{%- if m.role == 'assistant' -%}
{% generation %}
{%- if m.reasoning_content is defined and m.reasoning_content and loop.index == last -%}
<think>{{ '\\n' + m.reasoning_content.strip('\\n') + '\\n' }}</think>
{%- endif -%}
{{- m.content.lstrip('\\n') }}<|end|>{% endgeneration %}
{%- else -%}
{{ m.content }}<|end|>
{%- endif -%}
{%- endfor -%}
"""
"""As templates of models that think: what was thought in earlier turns is left out."""


def test_what_was_thought_is_a_content_that_is_learned_with_its_turn() -> None:
    thought = (("reasoning_content", "\n  <|end|> so\n"),)
    turns = [
        ChatTurn("user", "Hi"),
        ChatTurn("assistant", "\n a", reasoning=(("reasoning_content", "left out"),)),
        ChatTurn("user", "And?"),
        ChatTurn("assistant", "b", reasoning=thought),
    ]
    template = JinjaTemplate(REASONS, None)
    assert render(template, turns) == [
        ("<|user|>", M),
        ("Hi", C),
        ("<|end|><|assistant|>", M),
        (" a", L),
        ("<|end|>", M | L),
        ("<|user|>", M),
        ("And?", C),
        ("<|end|><|assistant|>", M),
        ("<think>\n", M | L),
        ("  <|end|> so", L),
        ("\n</think>", M | L),
        ("b", L),
        ("<|end|>", M | L),
    ]
    assert template.left_out(turns) == ["reasoning_content"]
    assert template.left_out(turns[:2]) == []
    assert template.left_out([turn._replace(reasoning=()) for turn in turns]) == []


def test_thoughts_of_weight_0_are_not_learned() -> None:
    turn = ChatTurn("assistant", "x", 0, (("reasoning_content", "so"),))
    source = (
        "{{ messages[0].content }}{% generation %}{{ messages[0].reasoning_content }}{% endgeneration %}"
    )
    with pytest.raises(RefusedError, match="message 1 has the weight 0, and the template learns it"):
        render(JinjaTemplate(source, None), [turn])


def test_a_template_that_inspects_a_thought_refuses_the_dialogue() -> None:
    source = (
        "{% generation %}{% endgeneration %}{{ messages[0].content }}"
        "{% if 'so' in messages[0].reasoning_content %}!{% endif %}"
    )
    with pytest.raises(RefusedError, match="changes or inspects a content"):
        render(
            JinjaTemplate(source, None),
            [ChatTurn("user", "x", reasoning=(("reasoning_content", "so"),))],
        )


DATED = "{% generation %}{% endgeneration %}{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}"


def test_today_is_the_day_of_the_run_file() -> None:
    with pytest.raises(
        ConfigError, match="strftime_now would give another text on another day; set date"
    ):
        JinjaTemplate(DATED, None)
    found = render(JinjaTemplate(DATED, None, "2024-07-26"), [ChatTurn("user", "x")])
    assert found == [("26 Jul 2024:", M), (" x", C)]


def test_a_template_may_name_today_where_no_dialogue_asks_for_it() -> None:
    source = DATED.replace("{{ strf", "{% if messages[0].role == 'tool' %}{{ strf").replace(
        "') }}", "') }}{% endif %}"
    )
    template = JinjaTemplate(source, None)
    assert render(template, [ChatTurn("user", "x")]) == [(":", M), (" x", C)]
    with pytest.raises(RefusedError, match="set date"):
        render(template, [ChatTurn("tool", "x")])


@pytest.mark.parametrize("role", ["system", "user"])
def test_a_template_that_asks_for_today_in_common_dialogues_is_refused_at_once(role: str) -> None:
    source = DATED.replace("{{ strf", f"{{% if messages[0].role == '{role}' %}}{{{{ strf").replace(
        "') }}", "') }}{% endif %}"
    )
    with pytest.raises(ConfigError, match="set date"):
        JinjaTemplate(source, None)


def test_a_blank_message_of_weight_0_is_written_as_it_is() -> None:
    asks = (
        "{% for m in messages %}{% if m.content %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
    )
    template = JinjaTemplate(asks + "{% generation %}{% endgeneration %}", None)
    turns = [ChatTurn("system", "", weight=0), ChatTurn("user", "a", weight=0), ChatTurn("x", "b")]
    assert render(template, turns) == [("[user]", M), ("a", C), ("[x]", M), ("b", C)]


@pytest.mark.parametrize("written", ["2025-13-01", "yesterday", "2025-01-31T00:00"])
def test_a_date_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ValidationError, match='write a day as "2025-01-31"'):
        ChatConfig(template="jinja", jinja=DATED, date=written)
    with pytest.raises(ValidationError, match="date is for Jinja templates"):
        ChatConfig(template="chatml", date="2025-01-31")


@pytest.mark.parametrize(
    ("body", "never"),
    [
        ("{% generation %}{{ m.content }}{% endgeneration %}<|end|>", True),
        ("{% generation %}{{ m.content }}<|end|>{% endgeneration %}", False),
        ("{{ m.content }}<|end|>", False),
        ("{{ m.content }}{% if m.role == 'user' %}<|x|>{% endif %}", False),
        ("{% generation %}{{ m.content + '\n' }}{% endgeneration %}<|end|>", True),
        ("{% generation %}{{ m.content + '\n' }}{% endgeneration %}", False),
        ("{% generation %}{{ m.content + '\n' }}{% endgeneration %}{{ '\n' }}", False),
        ("{% generation %}{{ m.content }}{% endgeneration %}{{ '\n' }}", True),
        ("{% generation %}{{ m.content }}{% endgeneration %}", False),
        (
            (
                "{% if m.role == 'model' %}{% generation %}{{ m.content }}{% endgeneration %}."
                "{% else %}{{ m.content }}{% endif %}"
            ),
            True,
        ),
        (
            (
                "{% if messages[0].role != 'system' %}{{ raise_exception('first') }}{% endif %}"
                "{% generation %}{{ m.content }}{% endgeneration %}<|end|>"
            ),
            True,
        ),
    ],
)
def test_a_template_that_never_learns_to_stop_is_known(body: str, *, never: bool) -> None:
    source = f"{{% for m in messages %}}{body}{{% endfor %}}{{% generation %}}{{% endgeneration %}}"
    assert never_learns_end(ChatConfig(template="jinja", jinja=source)) is never


def test_named_templates_learn_to_stop() -> None:
    assert not any(never_learns_end(ChatConfig(template=name)) for name in TEMPLATES)
    for name, source in JINJA.items():
        eos = EOS if name == "mistral" else None
        assert not never_learns_end(ChatConfig(template="jinja", jinja=source, eos_token=eos))
