"""What markup promises of roles: pieces that a template writes are none of an objective's."""

from typing import Any

import pytest

from pipeline.run_file.config import RunFile
from pipeline.steps.tokenizer.chats import with_markup
from stages.errors import ConfigError
from stages.tokenizer.roles import SpecialPieces, TokenizerDescription, find_roles

PIECES = {
    "<unk>": 0,
    "</s>": 1,
    "<pad>": 2,
    "<extra_id_0>": 3,
    "<extra_id_1>": 4,
    "<extra_id_2>": 5,
    "a": 6,
}
TEMPLATE = (
    "{% for m in messages %}{{ '<extra_id_0>' if m.role == 'system' else '<extra_id_1>' }}{{ m.role }}"
    "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
)


def roles_of(objective: dict[str, Any], **special: str) -> dict[str, int]:
    """Return the special ids of a run over dialogues whose template opens turns by <extra_id_1>."""
    file = RunFile.model_validate(
        {
            "sources": [
                {"name": "s", "paths": ["a.jsonl"], "chat": {"template": "jinja", "jinja": TEMPLATE}}
            ],
            "tokenizer": {"path": "tokenizer.json", "special": special},
            "datasets": [{"name": "d", "objective": objective}],
        }
    )
    marks = {piece: number for piece, number in PIECES.items() if piece != "a"}
    found = TokenizerDescription(len(PIECES), PIECES, marks, frozenset(marks.values()), {"unk": 0})
    return with_markup(file, found, find_roles(found, file.tokenizer.special, name="x")).ids


def test_pieces_that_only_look_like_sentinels_are_markup() -> None:
    ids = roles_of({"kind": "clm"})
    assert {role for role, number in ids.items() if number in (3, 4, 5)} == {
        "reserved_3",
        "reserved_4",
        "reserved_5",
    }


@pytest.mark.parametrize(
    ("objective", "special"),
    [({"kind": "span_corruption"}, {}), ({"kind": "clm"}, {"sentinels": "<extra_id_{}>"})],
)
def test_a_piece_that_is_markup_and_a_sentinel_is_refused(
    objective: dict[str, Any], special: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"a template of dialogues writes <extra_id_[01]>, which a"):
        roles_of(objective, **special)


def test_without_such_a_template_sentinels_stay() -> None:
    found = TokenizerDescription(len(PIECES), PIECES, PIECES, frozenset(PIECES.values()), {"unk": 0})
    roles = find_roles(found, SpecialPieces(), name="x")
    file = RunFile.model_validate(
        {"sources": [{"name": "s", "paths": ["a.jsonl"]}], "datasets": [{"name": "clm"}]}
    )
    assert with_markup(file, found, roles) == roles
