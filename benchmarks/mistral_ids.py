r"""The template `mistral` beside mistral-common: ids of dialogues, with the tokenizers that it brings.

    pip install mistral-common      in an environment that has this program
    PYTHONPATH=. python benchmarks/mistral_ids.py --dialogues 2000

Tokenizers: the SentencePiece model of version 3 and its tekken files. Contents begin and end with white
space as often as not, and some hold markup. Passes if the ids of all dialogues are equal.
"""

import argparse
import random
import sys
from pathlib import Path

import mistral_common
import numpy as np
from mistral_common.protocol.instruct.messages import AssistantMessage, SystemMessage, UserMessage
from mistral_common.protocol.instruct.normalize import get_normalizer
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistral_common.tokens.tokenizers.instruct import InstructTokenizerV3
from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.chat.rendering import marked_pieces, open_template
from stages.chat.template import BY_ITSELF, MARKUP
from stages.tokenizer.existing import describe, existing_tokenizer
from stages.tokenizer.markup import MarkupEncoder, Sections
from stages.tokenizer.recognised import tokenizer_file
from stages.tokenizer.roles import SpecialPieces, find_roles

BITS = (
    *("Hello", " Hi", "Paris", "\n", "\n\n", " ", "  two", "\u00e9", "\u4e2d\u6587", "[INST]", "</s>"),
    *("a b", "\tx", "123", "def f():\n    return 1", "\U0001f600", "'s", "."),
)
MESSAGES = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}
CHAT = ChatConfig(template="mistral")
SYSTEM, OPEN = 0.4, 0.3
"""Share of dialogues with a system message, and of those that end with a user."""


def dialogue(chance: random.Random) -> list[ChatTurn]:
    """Return a dialogue."""

    def content() -> str:
        return "".join(chance.choices(BITS, k=chance.randint(1, 6)))

    turns = [ChatTurn("system", content())] if chance.random() < SYSTEM else []
    for _ in range(chance.randint(1, 3)):
        turns += [ChatTurn("user", content()), ChatTurn("assistant", content())]
    return turns[: -1 if chance.random() < OPEN else None]


class Ours:
    """The ids of dialogues by this program.

    Args:
        place: of the tokenizer.
    """

    def __init__(self, place: Path) -> None:
        file = tokenizer_file(place.read_bytes(), name=place.name)
        found = describe(file.data, file.kind, name=place.name)
        ids = dict(find_roles(found, SpecialPieces(), name=place.name).ids)
        for piece in sorted(marked_pieces(CHAT, found.marks).turns):
            ids.setdefault(f"reserved_{found.marks[piece]}", found.marks[piece])
        self._ends = ids["bos"], ids["eos"]
        tokenizer = existing_tokenizer(file.data, file.kind, {"pad": ids["eos"], **ids}, name=place.name)
        self._encoder, self._render = MarkupEncoder(tokenizer), open_template(CHAT)

    def ids(self, turns: list[ChatTurn]) -> list[int]:
        """Return the ids of a dialogue, with those that framing puts around it."""
        sections = self._render(turns)
        flags = np.array([one.flags for one in sections])
        parts = Sections(
            [one.text for one in sections], flags & MARKUP > 0, by_itself=flags & BY_ITSELF > 0
        )
        found = self._encoder.encode(parts, dtype=np.dtype(np.int32)).ids.tolist()
        return [self._ends[0], *found, *self._ends[1:][: turns[-1].role == "assistant"]]


def main() -> int:
    """Compare, and print a line for each tokenizer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dialogues", type=int, default=2000, help="[default: 2000]")
    number, wrong = parser.parse_args().dialogues, 0
    folder = Path(mistral_common.__file__).parent / "data"
    normaliser = get_normalizer(TokenizerVersion.v3, None)
    for place in sorted([*folder.glob("*.model.v3"), *folder.glob("tekken*.json")]):
        opened = Tekkenizer.from_file if place.suffix == ".json" else SentencePieceTokenizer
        theirs, ours = InstructTokenizerV3(opened(place)), Ours(place)
        chance, differ = random.Random(1), 0  # noqa: S311  # which dialogues
        for _ in range(number):
            turns = dialogue(chance)
            messages = [MESSAGES[turn.role](content=turn.content) for turn in turns]
            request = ChatCompletionRequest(messages=messages)
            wanted = normaliser.from_chat_completion_request(request)
            differ += theirs.encode_instruct(wanted).tokens != ours.ids(turns)
        print(f"{place.name}: {number:,} dialogues, {differ:,} differ", flush=True)
        wrong += differ
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
