"""Dialogues against transformers' `apply_chat_template` with its mask of what assistants say.

    pip install transformers      in an environment that has this program
    PYTHONPATH=. python benchmarks/oracles/chat_transformers.py FOLDER

Dialogues are made of the bundled corpus's texts: one to six turns, some with a system message, white
space around contents, or literal markup in them. A run writes them with each named template, and encodes
them with a tokenizer that has all pieces; transformers does the same with a Jinja template of the format
that says what is generated. Compared are the texts, the characters that are learned, and, where no token
of theirs crosses a border of content and markup, ids and mask. Of a dialogue that holds literal markup
theirs has control ids in messages, and ours must have none; so ids of these are counted apart.
"""

import argparse
import sys
from pathlib import Path

from stages.chat.table import TEMPLATES
from tests.stages.chat.chat_files import dialogues
from tests.stages.chat.compared_chats import compare


def main() -> int:
    """Compare the dialogues of all templates; return 1 if any differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dialogues", type=int, default=1000)
    given = parser.parse_args()
    turns = list(dialogues(given.dialogues))
    wrong = 0
    for template in TEMPLATES:
        found = compare(template, turns, given.folder / template)
        wrong += found.wrong
        print(
            f"{template}: {found.dialogues:,} dialogues: {found.other_texts:,} other texts,"
            f" {found.other_learned:,} with other characters learned; ids of {found.same_ids:,} the same"
            f" and of {found.other_ids:,} not, masks of {found.other_mask:,} not; {found.crossing:,} in"
            f" which a token crosses a border, {found.literal:,} with literal markup;"
            f" {found.leaks:,} with a control id in a message"
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
