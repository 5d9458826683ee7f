"""What templates promise beside transformers: its texts, its mask of what is said, and its ids."""

from pathlib import Path

import pytest

from stages.chat.table import TEMPLATES
from tests.stages.chat.chat_files import dialogues
from tests.stages.chat.compared_chats import compare


@pytest.mark.slow
@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_dialogues_are_those_of_transformers(template: str, tmp_path: Path) -> None:
    found = compare(template, list(dialogues(84)), tmp_path)
    assert found.wrong == 0
    assert found.dialogues == 84
    assert found.literal >= 12
    assert found.same_ids >= 40
