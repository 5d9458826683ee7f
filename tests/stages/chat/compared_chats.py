"""Dialogues of a run held to transformers' `apply_chat_template` and its mask of what assistants say."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.chat.table import TEMPLATES
from stages.chat.template import LEARNED, MARKUP
from stages.cleaning.text import clean_text
from tests.stages.chat.chat_files import (
    JINJA,
    LITERALS,
    SPECIAL,
    chat_run,
    chat_tokenizer,
    write_lines,
)
from tests.stages.chat.stored_chats import (
    StoredDialogue,
    WrittenDialogue,
    stored_dialogues,
    written_dialogues,
)

Messages = list[dict[str, str]]


@dataclass
class Compared:
    """What was found of the dialogues of one template."""

    dialogues: int = 0
    other_texts: int = 0
    other_learned: int = 0
    """Dialogues of which other characters are learned."""
    crossing: int = 0
    """Of which a token of theirs crosses a border, so that ids are not compared."""
    literal: int = 0
    """That hold literal markup, so that theirs has control ids in messages."""
    same_ids: int = 0
    other_ids: int = 0
    other_mask: int = 0
    leaks: int = 0
    """With a control id in a message of ours."""

    @property
    def wrong(self) -> int:
        """What must be 0."""
        return self.other_texts + self.other_learned + self.other_ids + self.other_mask + self.leaks


def compare(template: str, turns: list[Messages], folder: Path) -> Compared:
    """Write and encode dialogues with a template, and hold them to transformers'."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.jsonl").write_bytes(write_lines(turns))
    (folder / "tokenizer.json").write_bytes(chat_tokenizer())
    file = RunFile.model_validate(chat_run(template))
    run_session(RunRequest(file, folder, folder / "run", 0, until="decode", replace=True), stream=None)
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        bos_token=SPECIAL[template]["bos"],
        eos_token=SPECIAL[template]["eos"],
        chat_template=JINJA[template],
    )
    written, stored = written_dialogues(folder / "run"), stored_dialogues(folder / "run")
    assert written.keys() == stored.keys() == set(range(len(turns)))
    found = Compared()
    for number, messages in enumerate(turns):
        clean = [{**turn, "content": clean_text(turn["content"])} for turn in messages]
        _compare_one(template, clean, theirs, written[number], stored[number], found)
    return found


def _compare_one(  # what is compared, and where it is counted
    template: str,
    messages: Messages,
    theirs: PreTrainedTokenizerFast,
    written: WrittenDialogue,
    stored: StoredDialogue,
    found: Compared,
) -> None:
    found.dialogues += 1
    (text,), (blocks,) = render_jinja_template(
        [messages],
        chat_template=JINJA[template],
        return_assistant_tokens_mask=True,
        **theirs.special_tokens_map,
    )
    named = TEMPLATES[template]
    begins = named.begins or ""
    closes = named.closes or "" if messages[-1]["role"] == "assistant" else ""
    found.other_texts += text != f"{begins}{written.text}{closes}"
    generated = np.zeros(len(text), np.bool_)
    for first, last in blocks:
        generated[first:last] = True
    learned = np.repeat([bool(f & LEARNED) for f in written.flags], np.diff(written.ends, prepend=0))
    own = generated[len(begins) : len(text) - len(closes)]
    found.other_learned += not np.array_equal(own, learned)
    found.leaks += _leaks(theirs, written, stored, begun=bool(begins))
    whole: Any = theirs.apply_chat_template(
        messages, return_dict=True, return_assistant_tokens_mask=True
    )
    if any(piece in turn["content"] for turn in messages for piece in LITERALS):
        found.literal += 1
        return
    spans = theirs(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    borders = {len(begins) + end for end in written.ends}
    if any(first < border < last for first, last in spans for border in _near(borders, first, last)):
        found.crossing += 1
        return
    begun = int(bool(begins))
    ids, mask = whole["input_ids"][begun:], np.array(whole["assistant_masks"][begun:], np.bool_)
    end = len(ids) - bool(closes)
    same = stored.ids[begun:-1] == ids[:end]
    found.same_ids += same
    found.other_ids += not same
    tokens = stored.learned_tokens()[begun : begun + end]
    found.other_mask += same and not np.array_equal(tokens, mask[:end])


def _near(borders: set[int], first: int, last: int) -> set[int]:
    return borders & set(range(first + 1, last))


def _leaks(
    theirs: PreTrainedTokenizerFast, written: WrittenDialogue, stored: StoredDialogue, *, begun: bool
) -> bool:
    """Say whether a message gave a control id."""
    controls = set(theirs.added_tokens_decoder)
    starts = [int(begun), *stored.ends[:-1]]
    stops = [*stored.ends[:-1], stored.ends[-1] - 1]
    return any(
        controls & set(stored.ids[start:stop])
        for flags, start, stop in zip(written.flags, starts, stops, strict=True)
        if not flags & MARKUP
    )
