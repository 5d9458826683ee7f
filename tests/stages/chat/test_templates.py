"""What named templates promise: the text of their format, section by section, with the turns learned."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from pydantic import ValidationError

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.chat.rendering import (
    MarkedPieces,
    marked_pieces,
    open_template,
    spelled_pieces,
    writes_piece,
)
from stages.chat.table import TEMPLATES
from stages.chat.template import BY_ITSELF, LEARNED, MARKUP, ChatSection, RefusedError, merged

TURNS = (
    ChatTurn("system", "Be kind."),
    ChatTurn("user", " Hi\n"),
    ChatTurn("assistant", " Hello "),
    ChatTurn("user", "And?"),
    ChatTurn("assistant", "Yes"),
)
C, L, M, A = 0, LEARNED, MARKUP, BY_ITSELF


def sections(template: str, turns: Sequence[ChatTurn] = TURNS, **changes: object) -> list[ChatSection]:
    """Return a dialogue as a template writes it."""
    return open_template(ChatConfig.model_validate({"template": template, **changes}))(turns)


def test_chatml_writes_each_turn_alike() -> None:
    assert sections("chatml", TURNS[1:3]) == [
        ("<|im_start|>user\n", M),
        (" Hi\n", C),
        ("<|im_end|>\n<|im_start|>assistant\n", M),
        (" Hello ", L),
        ("<|im_end|>", M | L),
        ("\n", M),
    ]


def test_llama3_strips_contents_and_leaves_the_begin_to_framing() -> None:
    head = "<|start_header_id|>{}<|end_header_id|>\n\n"
    assert sections("llama3", TURNS[1:3]) == [
        (head.format("user"), M),
        ("Hi", C),
        ("<|eot_id|>" + head.format("assistant"), M),
        ("Hello", L),
        ("<|eot_id|>", M | L),
    ]


def test_mistral_puts_the_system_before_the_last_user_and_leaves_both_ends_to_framing() -> None:
    assert sections("mistral") == [
        ("[INST]", M),
        (" Hi\n", A),
        ("[/INST]", M),
        (" Hello", L | A),
        ("</s>", M | L),
        ("[INST]", M),
        ("Be kind.\n\nAnd?", A),
        ("[/INST]", M),
        ("Yes", L | A),
    ]


def test_mistral_takes_spaces_alone_from_the_end_of_an_answer() -> None:
    turns = [ChatTurn("user", " a "), ChatTurn("assistant", " b\n  "), ChatTurn("user", "c")]
    found = [text for text, flags in sections("mistral", turns) if flags & A]
    assert found == [" a ", " b\n", "c"]
    empty = [ChatTurn("system", ""), ChatTurn("user", "a")]
    assert sections("mistral", empty) == [("[INST]", M), ("a", A), ("[/INST]", M)]


def test_mistral_closes_with_a_user_too() -> None:
    assert (
        "".join(part.text for part in sections("mistral", TURNS[:2])) == "[INST]Be kind.\n\n Hi\n[/INST]"
    )


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        (TURNS[2:], "message 1 is of role 'assistant', and 'user' must come"),
        ((TURNS[0], TURNS[2]), "message 2 is of role 'assistant'"),
        ((TURNS[1], TURNS[1]), "message 2 is of role 'user', and 'assistant' must come"),
        ((TURNS[1], TURNS[0]), "message 2 is of role 'system'"),
        (TURNS[:1], "there is no message of role 'user'"),
    ],
)
def test_mistral_refuses_turns_that_do_not_alternate(turns: Sequence[ChatTurn], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        sections("mistral", turns)


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_chosen_turns_are_learned_with_what_closes_them(template: str) -> None:
    found = sections(template, learn=["user", "system"])
    learned = "".join(text for text, flags in found if flags & LEARNED)
    wanted = {
        "chatml": "Be kind.<|im_end|> Hi\n<|im_end|>And?<|im_end|>",
        "llama3": "Be kind.<|eot_id|>Hi<|eot_id|>And?<|eot_id|>",
        "mistral": " Hi\n[/INST]Be kind.\n\nAnd?[/INST]",
    }
    assert learned == wanted[template]
    assert not any(flags & LEARNED for _, flags in sections(template, learn=["critic"]))


def test_mistral_tells_a_system_that_is_learned_from_a_user_that_is_not() -> None:
    found = sections("mistral", TURNS[:2], learn=["system"])
    assert found == [("[INST]", M), ("Be kind.", L | A), ("\n\n Hi\n", C), ("[/INST]", M)]


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_section_is_empty_and_no_neighbours_are_alike(template: str) -> None:
    turns = [ChatTurn("user", ""), ChatTurn("assistant", "x"), ChatTurn("user", "y")]
    found = sections(template, turns)
    assert len(found) > 3
    assert all(text for text, _ in found)
    assert all(one.flags != two.flags for one, two in pairwise(found))


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_turn_of_weight_0_is_not_learned_and_its_text_is_the_same(template: str) -> None:
    turns = [ChatTurn(role, "x") for role in ("system", "user", "assistant", "user", "assistant")]
    roles = ["system", "assistant"]
    some = [turns[0]._replace(weight=0), turns[1], turns[2]._replace(weight=0), *turns[3:]]
    before, after = sections(template, turns, learn=roles), sections(template, some, learn=roles)
    assert "".join(text for text, _ in before) == "".join(text for text, _ in after)
    assert sum(flags & L > 0 for _, flags in before) > sum(flags & L > 0 for _, flags in after)
    (content,) = (text for text, flags in after if flags & L and not flags & M)
    assert content.strip() == "x"


def test_neighbours_of_the_same_flags_are_one() -> None:
    parts = [("a", C), ("", M), ("b", C), ("c", M), ("", M), ("d", M)]
    assert merged(ChatSection(*part) for part in parts) == [("ab", C), ("cd", M)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"template": "chatlm"}, "must be chatml, llama3, mistral, or the path"),
        ({"template": "jinja"}, "are given together"),
        ({"template": "chatml", "jinja": "x"}, "are given together"),
        ({"template": "my.jinja", "learn": ["user"]}, "learn is for named templates"),
        ({"template": "chatml", "eos_token": "</s>"}, "eos_token is for Jinja templates"),
        ({"template": "chatml", "learn": []}, "at least 1 item"),
        ({"template": "chatml", "learn": ["the user"]}, "'the user' is no role"),
    ],
)
def test_a_config_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ChatConfig.model_validate(changes)


def test_pieces_of_markup_are_those_that_the_tokenizer_knows() -> None:
    known = {"<|im_end|>", "[INST]", "<think>", ""}
    assert marked_pieces(ChatConfig(template="chatml"), known) == ({"<|im_end|>"}, set())
    text = "{% generation %}[INST]{% endgeneration %}"
    jinja = ChatConfig(template="jinja", jinja=text, eos_token="<|im_end|>")  # noqa: S106  # no password
    assert marked_pieces(jinja, known) == ({"<|im_end|>", "[INST]"}, set())  # it can write no turn


def test_a_jinja_template_keeps_from_texts_what_it_puts_together_and_nothing_that_texts_need() -> None:
    source = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}    be brief.\n{% generation %}"
        "{{ m.content }}{% endgeneration %}<|end|>{% endfor %}"
    )
    chat = ChatConfig(template="jinja", jinja=source)
    pieces = {"<|user|>", "<|critic|>", "<|end|>"}
    assert marked_pieces(chat, {*pieces, "    ", "\n", ".", "be", "<|", "<|pad|> "}).turns == pieces
    assert spelled_pieces(chat) == ["<|assistant|>", "<|end|>", "<|user|>"]
    assert writes_piece(chat, "<|user|>")
    assert not writes_piece(chat, "<s>")


def test_pieces_are_kept_from_texts_though_the_template_refuses_every_dialogue_that_is_tried() -> None:
    source = (
        "{% if messages|length != 7 %}{{ raise_exception('seven') }}{% endif %}{% for m in messages %}"
        "{{ '<|turn_' ~ loop.index ~ '|>' }}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% endfor %}<s>"
    )
    chat = ChatConfig(template="jinja", jinja=source)
    assert marked_pieces(chat, {"<|turn_5|>", "<|pad|>", "<b>"}) == ({"<|turn_5|>"}, set())
    assert spelled_pieces(chat) == []
    assert writes_piece(chat, "<s>"), "it stands in the source"


def test_a_template_that_refuses_roles_is_probed_with_those_it_takes() -> None:
    source = (
        "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no') }}"
        "{% endif %}[{{ m.role|upper }}]{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    known = {"[USER]", "[ASSISTANT]", "[TOOL]"}
    found = marked_pieces(ChatConfig(template="jinja", jinja=source), known)
    assert found == MarkedPieces({"[USER]", "[ASSISTANT]"}, set())
