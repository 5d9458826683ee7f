"""What a run promises of pieces that a Jinja template names and the tokenizer does not call special.

Contents of roles that are not learned spell them out. Everywhere else they give their ids, as if no
template named them.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from pipeline.planning.existing import find_tokenizer
from pipeline.run_file.config import RunFile
from pipeline.run_file.filters import resolve_chats
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from pipeline.steps.tokenizer.chats import spelled_out, with_markup
from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.chat.jinja_file import JinjaTemplate
from stages.chat.rendering import marked_pieces
from stages.chat.template import MARKUP, SPOKEN
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.markup import MarkupEncoder, Sections
from stages.tokenizer.roles import SpecialPieces, find_roles
from tests.campaign import some_of
from tests.stages.chat.chat_files import chat_run, chat_tokenizer, write_lines
from tests.stages.chat.stored_chats import stored_dialogues

THINK = ("<think>", "</think>")
TEMPLATE = """\
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}
{% generation %}{% if loop.last %}<think>

</think>

{% endif %}{{ m.content }}<|im_end|>{% endgeneration %}
{%- else -%}
{{ m.content }}<|im_end|>
{%- endif %}

{% endfor -%}
"""
SAID = "a <think>b</think>"


def thinking_tokenizer(*, special: bool = True) -> bytes:
    """Return a tokenizer whose marks of thoughts are none that it calls special; nor are the others."""
    library = Tokenizer.from_str(chat_tokenizer(special=special).decode())
    library.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in THINK])
    return str(library.to_str()).encode()


def run_of(folder: Path, *, special: bool = True, **chat: Any) -> RunFile:
    """Return a run over dialogues and plain texts, whose files are put into a folder."""
    (folder / "tokenizer.json").write_bytes(thinking_tokenizer(special=special))
    (folder / "think.jinja").write_text(TEMPLATE)
    roles = ("system", "user", "assistant", "user", "assistant")
    talk = [{"role": role, "content": f"{SAID} {number}"} for number, role in enumerate(roles)]
    (folder / "a.jsonl").write_bytes(write_lines([talk]))
    (folder / "b.jsonl").write_text(json.dumps({"id": 0, "text": SAID}) + "\n")
    content = chat_run("chatml")
    content["sources"][0]["chat"] = {"template": "think.jinja", **chat}
    content["sources"].append({"name": "plain", "paths": ["b.jsonl"], "id_column": "id"})
    content["validation"] = {"fraction": 0}
    return RunFile.model_validate(content)


def request_of(folder: Path, file: RunFile) -> RunRequest:
    """Return what is asked for."""
    return RunRequest(file, folder, folder / "run", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("special", "in_answers"),
    some_of([(True, False), (True, True), (False, True), (False, False)], 2),
)
def test_contents_of_roles_that_are_not_learned_spell_the_pieces_out(
    tmp_path: Path, *, in_answers: bool, special: bool
) -> None:
    file = run_of(tmp_path, special=special, spell_in_answers=in_answers)
    library = Tokenizer.from_str(thinking_tokenizer().decode())
    marks = {piece: library.token_to_id(piece) for piece in (*THINK, "<|im_start|>", "<|im_end|>")}
    run_session(replace(request_of(tmp_path, file), until="shard"), stream=None)
    (talk,) = stored_dialogues(tmp_path / "run").values()
    counts = {piece: talk.ids.count(number) for piece, number in marks.items()}
    answers = 0 if in_answers else 2
    assert counts == {"<|im_start|>": 5, "<|im_end|>": 5, **dict.fromkeys(THINK, answers + 1)}
    (plain,) = (tmp_path / "run/tokens/plain").rglob("ids.npy")
    assert np.load(plain).tolist()[:-1] == library.encode(SAID).ids
    assert verify_session(tmp_path / "run", workers=0, address=None, stream=None)["passed"]


@pytest.mark.slow
def test_a_later_generation_spells_out_what_the_first_does(tmp_path: Path) -> None:
    file = run_of(tmp_path, special=False)
    chats = file.sources[0].model_copy(update={"paths": ("a*.jsonl",)})
    file = file.model_copy(update={"sources": (chats, file.sources[1])})
    run_session(request_of(tmp_path, file), stream=None)
    text = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a2.jsonl").write_text(text.replace("a <think>", "c <think>"))
    run_session(replace(request_of(tmp_path, file), until="shard"), stream=None)
    later = tmp_path / "run/generations/0001"
    (place,) = (later / "tokens/chats").rglob("ids.npy")
    library = Tokenizer.from_str(thinking_tokenizer().decode())
    counts = {piece: np.load(place).tolist().count(library.token_to_id(piece)) for piece in THINK}
    assert counts == dict.fromkeys(THINK, 3)
    for name in ("spelled_out.json", "special_ids.json"):
        assert (later / "tokenizer" / name).read_text() == (
            tmp_path / "run/tokenizer" / name
        ).read_text()
    assert verify_session(later, workers=0, address=None, stream=None)["passed"]


def test_the_plan_lists_the_pieces(tmp_path: Path) -> None:
    (told,) = [
        one.plan_line for one in plan_session(request_of(tmp_path, run_of(tmp_path))) if one.plan_line
    ]
    assert told == (
        "tokenizer: contents of chats spell out <think>, </think> where their role is not learned"
    )
    request = request_of(tmp_path, run_of(tmp_path, spell_in_answers=True))
    (told,) = [one.plan_line for one in plan_session(request) if one.plan_line]
    assert told.endswith("spell out <think>, </think> in all turns")


@pytest.mark.parametrize("special", [True, False])
def test_pieces_of_turns_are_special_and_others_are_not(tmp_path: Path, *, special: bool) -> None:
    found = find_tokenizer(resolve_chats(run_of(tmp_path, special=special), tmp_path), tmp_path)
    assert found is not None
    library = Tokenizer.from_str(thinking_tokenizer().decode())
    kept = {library.id_to_token(number) for number in found.special_ids.values()}
    assert {"<|im_start|>", "<|im_end|>"} <= kept
    assert not kept & {*THINK}
    assert [*found.spelled_out["chats"]["ids"]] == [*THINK]


TURNS = {
    "qwen": (
        (
            "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n"
            "{{ m.content }}\n</tool_response><|im_end|>\n{% else %}<|im_start|>{{ m.role }}\n"
            "{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}{% generation %}"
            "{{ m.content }}<|im_end|>{% endgeneration %}\n{% endif %}{% endfor %}"
        ),
        {"<|im_start|>", "<|im_end|>"},
        {"<think>", "</think>", "<tool_response>", "</tool_response>"},
    ),
    "deepseek": (
        (
            "{% for m in messages %}{% if m.role == 'assistant' %}<\uff5cAssistant\uff5c><think>\n\n"
            "</think>{% generation %}{{ m.content }}<\uff5cend\uff5c>{% endgeneration %}{% else %}"
            "<\uff5cUser\uff5c>{{ m.content }}{% endif %}{% endfor %}"
        ),
        {"<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<\uff5cend\uff5c>"},
        {"<think>", "</think>"},
    ),
    "brackets": (
        (
            "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>"
            "{% endgeneration %}{% else %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}"
            "{% if messages[0].content == 'never' %}[TOOL]{% endif %}"
        ),
        {"[INST]", "[/INST]", "</s>"},
        {"[TOOL]"},
    ),
    "phi": (
        (
            "{% for m in messages %}{% if m.role == 'user' %}<|user|>{% elif m.role == 'assistant' %}"
            "<|assistant|>{% else %}<|system|>{% endif %}\n{% generation %}{{ m.content }}<|end|>"
            "{% endgeneration %}\n{% endfor %}"
        ),
        {"<|user|>", "<|assistant|>", "<|system|>", "<|end|>"},
        set(),
    ),
    "tags": (
        (
            "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}"
            "</{{ m.role }}>{% endfor %}"
        ),
        {"<user>", "</user>", "<assistant>", "</assistant>", "<tool>", "</tool>", "<b>", "<unused>"},
        set(),
    ),
    "tags and an end": (
        (
            "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think></think>"
            "{% generation %}{{ m.content }}</{{ m.role }}><|eot|>{% endgeneration %}{% else %}"
            "{{ m.content }}</{{ m.role }}><|eot|>{% endif %}{% endfor %}"
        ),
        {"<user>", "</user>", "<assistant>", "</assistant>", "<|eot|>", "<b>", "<unused>"},
        {"<think>", "</think>"},
    ),
    "roles of its own": (
        (
            "{% for m in messages %}{% if m.role == 'question' %}<|q|>{{ m.content }}<|end|>"
            "{% elif m.role in ['answer', 'reply'] %}<|a|><think></think>{% generation %}"
            "{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ raise_exception('no') }}{% endif %}"
            "{% endfor %}"
        ),
        {"<|q|>", "<|a|>", "<|end|>"},
        {"<think>", "</think>"},
    ),
    "capitals": (
        (
            "{% for m in messages %}{{ '[' + m.role|upper + ']' }}{% generation %}{{ m.content }}[END]"
            "{% endgeneration %}{% endfor %}"
        ),
        {"[USER]", "[ASSISTANT]", "[CRITIC]", "[END]"},
        set(),
    ),
    "no turn at all": (
        "{% generation %}{% endgeneration %}{{ raise_exception('no') }}<|a|><think>",
        {"<|a|>", "<think>"},
        set(),
    ),
    "no piece": (
        (
            "{% for m in messages %}{% if m.role == 'user' %}User: {{ m.content }}\n{% else %}Assistant:"
            " {% generation %}{{ m.content + '\n' }}{% endgeneration %}{% endif %}{% endfor %}"
        ),
        set(),
        set(),
    ),
    "built": (
        (
            "{% for m in messages %}{{ '<|' + m.role + '|>' }}{% generation %}{{ m.content }}"
            "{% endgeneration %}{% endfor %}"
        ),
        {"<|user|>", "<|assistant|>", "<|critic|>"},
        set(),
    ),
}
"""Templates in the manner of models, what opens and closes their turns, and what else they name."""


@pytest.mark.parametrize("name", TURNS)
def test_pieces_that_open_and_close_turns_are_told_from_others(name: str) -> None:
    source, turns, others = TURNS[name]
    known = {*turns, *others, "<b>", "<unused>"}
    assert marked_pieces(ChatConfig(template="jinja", jinja=source), known) == (turns, others)


said = st.lists(
    st.sampled_from([*THINK, "<|im_end|>", "<|im_start|>", "\n", " ", "user", "a"]), max_size=6
).map("".join)


@cache
def encoder_of(*, special: bool, in_answers: bool) -> tuple[MarkupEncoder, dict[str, int]]:
    """Return what encodes dialogues of the template, and the ids of its pieces."""
    data, kind = thinking_tokenizer(special=special), TokenizerKind.HUGGING_FACE
    described = describe(data, kind, name="x")
    named = SpecialPieces(bos="<|begin_of_text|>", eos="<|endoftext|>", pad="<pad>")
    chat = {"template": "jinja", "jinja": TEMPLATE, "spell_in_answers": in_answers}
    file = RunFile.model_validate(
        {"sources": [{"name": "s", "paths": ["a"], "chat": chat}], "datasets": [{"name": "clm"}]}
    )
    roles = with_markup(file, described, find_roles(described, named, name="x"))
    own = spelled_out(file, described, roles)["s"]
    guarded = {**roles.ids, **{f"spelled_{n}": n for n in own["ids"].values()}}
    tokenizer, guard = (existing_tokenizer(data, kind, ids, name="x") for ids in (roles.ids, guarded))
    return MarkupEncoder(tokenizer, guard, guards_answers=own["in_answers"]), dict(described.marks)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("in_answers", [True, False])
@settings(deadline=None)
@given(contents=st.lists(said, min_size=1, max_size=5))
def test_a_row_has_as_many_marks_of_turns_as_messages_whatever_these_say(
    contents: list[str], *, in_answers: bool, special: bool
) -> None:
    encoder, marks = encoder_of(special=special, in_answers=in_answers)
    roles = ["user", "assistant"] * 3
    turns = [ChatTurn(role, text) for role, text in zip(roles, contents, strict=False)]
    sections = JinjaTemplate(TEMPLATE, None).render(turns)
    flags = np.array([one.flags for one in sections])
    parts = Sections(
        [one.text for one in sections], flags & MARKUP > 0, answers=flags & (SPOKEN | MARKUP) == SPOKEN
    )
    ids = encoder.encode(parts, dtype=np.dtype(np.int32)).ids.tolist()
    assert [ids.count(marks[piece]) for piece in ("<|im_start|>", "<|im_end|>")] == [len(turns)] * 2
    last = turns[-1].role == "assistant"
    answers = [] if in_answers else [turn.content for turn in turns if turn.role == "assistant"]
    for piece in THINK:
        assert ids.count(marks[piece]) == last + sum(text.count(piece) for text in answers)
    assert encoder.spell(np.array(ids)).tobytes().decode() == "".join(parts.texts)
