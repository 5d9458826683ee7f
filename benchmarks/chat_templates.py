r"""Dialogues beside transformers: ids and masks of `apply_chat_template`, template by template.

    PYTHONPATH=. python benchmarks/chat_templates.py TEXTS.jsonl TEMPLATES TOKENIZER.json [...]

Needs the extra `examples`. TRL brings such templates in its folder `chat_templates`. Each tokenizer gets
the pieces of a template that it lacks: those in angles and bars as special ones, tags such as <think> as
pieces that are not. Dialogues are cut from the texts; some begin with white space, some have thoughts.

A dialogue is one of these:

    equal        the ids are those of transformers, and the mask is
    border       not equal, and a token of transformers holds characters on both sides of a border
    lookahead    not equal, and the ids are those that the library gives section by section: how its
                 expression cuts white space hangs on what is behind
    ours refuses, theirs refuses, both refuse
    OTHER        anything else, shown; passes if there is none
"""

import argparse
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from pipeline.run_file.config import RunFile
from pipeline.steps.tokenizer.chats import spelled_out, with_markup
from stages.chat.dialogue import dialogue_of
from stages.chat.jinja_file import JinjaTemplate
from stages.chat.template import LEARNED, MARKUP, SPOKEN, ChatSection, RefusedError
from stages.cleaning.text import clean_text
from stages.errors import ConfigError
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.markup import MarkupEncoder, Sections
from stages.tokenizer.roles import SpecialPieces, find_roles

SPECIAL = re.compile("<[|\uff5c][^|\uff5c<>\\s{}]+[|\uff5c]>|<(?:start|end)_of_turn>|\\[/?[A-Z_]+\\]")
TAGS = re.compile(r"</?[a-z_]+>")
BEGINS = ("", "", "", "", " ", "  ", "\n", "\n\n", "\t", " \n")
ENDS = ("", "", "", "", " ", "\n")
EOS, BOS, PAD = "<|eos|>", "<|bos|>", "<|pad|>"
SHOWN = 3
SYSTEM, THOUGHTS = 0.3, 0.15
"""Share of dialogues with a system message, and of answers with thoughts."""


@dataclass(frozen=True)
class Pair:
    """A template with a tokenizer: what encodes its dialogues, ours and theirs."""

    template: JinjaTemplate
    encoder: MarkupEncoder
    source: str
    theirs: PreTrainedTokenizerFast


def pair_of(source: str, file: bytes) -> Pair:
    """Return a template with a tokenizer that has its pieces.

    Raises:
        ConfigError: we refuse the template.
    """
    library = Tokenizer.from_str(file.decode())
    library.post_processor = None
    pieces = [EOS, BOS, PAD, *dict.fromkeys(SPECIAL.findall(source))]
    library.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in pieces])
    tags = [one for one in dict.fromkeys(TAGS.findall(source)) if one not in ("<s>", "</s>")]
    library.add_tokens([AddedToken(one, special=False, normalized=False) for one in tags])
    data = library.to_str().encode()
    described = describe(data, TokenizerKind.HUGGING_FACE, name="tokenizer")
    chat = {
        "template": "jinja",
        "jinja": source,
        **({"eos_token": EOS} if "eos_token" in source else {}),
        **({"date": datetime.now(UTC).date().isoformat()} if "strftime_now" in source else {}),
    }
    run = RunFile.model_validate(
        {"sources": [{"name": "s", "paths": ["x"], "chat": chat}], "datasets": [{"name": "clm"}]}
    )
    config = run.sources[0].chat
    assert config is not None, "it has one"
    template = JinjaTemplate(source, config.eos_token, config.date)
    named = SpecialPieces(eos=EOS, bos=BOS, pad=PAD)
    roles = with_markup(run, described, find_roles(described, named, name="tokenizer"))
    own = spelled_out(run, described, roles).get("s")
    further = {} if own is None else {f"spelled_{n}": n for n in own["ids"].values()}
    ours, guard = (
        existing_tokenizer(data, TokenizerKind.HUGGING_FACE, ids, name="tokenizer")
        for ids in (roles.ids, roles.ids | further)
    )
    theirs = PreTrainedTokenizerFast(tokenizer_object=library, eos_token=EOS)
    return Pair(template, MarkupEncoder(ours, guard), source, theirs)


def dialogues(texts: list[str], number: int, chance: random.Random) -> list[list[dict[str, str]]]:
    """Return dialogues of cuts of texts."""

    def content() -> str:
        text = chance.choice(texts)
        begin = chance.randrange(len(text))
        cut = text[begin : begin + chance.choice((3, 20, 80, 200))].strip() or "a"
        return clean_text(chance.choice(BEGINS) + cut + chance.choice(ENDS))

    found = []
    for _ in range(number):
        talk = [{"role": "system", "content": content()}] if chance.random() < SYSTEM else []
        for _ in range(chance.randint(1, 3)):
            talk.append({"role": "user", "content": content()})
            talk.append({"role": "assistant", "content": content()})
            if chance.random() < THOUGHTS:
                talk[-1]["reasoning_content"] = content()
        found.append(talk)
    return found


def compare(pair: Pair, talk: list[dict[str, str]]) -> tuple[str, str]:
    """Return what a dialogue is, and what to show of it."""
    theirs, refused = None, ""
    try:
        theirs = _of_theirs(pair, talk)
    except Exception as error:  # noqa: BLE001  # a template may raise anything
        refused = f"{type(error).__name__}: {error}"
    try:
        sections = pair.template.render(dialogue_of([*talk]))
    except RefusedError as error:
        return ("both refuse" if refused else "ours refuses"), str(error)
    return ("theirs refuses", refused) if theirs is None else _kind(pair, sections, theirs)


class Theirs(NamedTuple):
    """A dialogue as transformers has it."""

    text: str
    ids: list[int]
    mask: list[bool]
    offsets: list[tuple[int, int]]


def _kind(pair: Pair, sections: list[ChatSection], theirs: Theirs) -> tuple[str, str]:
    ends = theirs.text.endswith(EOS)
    own, learned = _of_ours(pair, sections, ends=ends)
    pieces = pair.theirs.convert_ids_to_tokens
    if own == theirs.ids:
        wrong = [n for n, (a, b) in enumerate(zip(learned, theirs.mask, strict=True)) if a != b]
        return ("OTHER", f"mask of {pieces(own)[wrong[0]]}") if wrong else ("equal", "")
    borders = np.cumsum([len(one.text) for one in sections]).tolist()
    crosses = any(begin < place < end for place in borders for begin, end in theirs.offsets)
    if pair.encoder.varies and crosses:
        return "border", ""
    if not pair.encoder.varies and own == _section_by_section(pair, sections, ends=ends):
        return ("border" if crosses else "lookahead"), ""
    both = zip([*own, -1], [*theirs.ids, -1], strict=False)
    first = next(n for n, (a, b) in enumerate(both) if a != b)
    span = slice(max(0, first - 4), first + 5)
    return "OTHER", f"at {first}: ours {pieces(own[span])} theirs {pieces(theirs.ids[span])}"


def _of_theirs(pair: Pair, talk: list[dict[str, str]]) -> Theirs:
    options: dict[str, Any] = {"chat_template": pair.source, "bos_token": ""}
    text = pair.theirs.apply_chat_template(talk, tokenize=False, **options)
    found = pair.theirs.apply_chat_template(
        talk,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
        tokenizer_kwargs={"return_offsets_mapping": True},
        **options,
    )
    mask, offsets = map(bool, found["assistant_masks"]), map(tuple, found["offset_mapping"])
    return Theirs(text, list(found["input_ids"]), list(mask), list(offsets))


def _of_ours(pair: Pair, sections: list[ChatSection], *, ends: bool) -> tuple[list[int], list[bool]]:
    """Return ids and mask, with the EOS that the framing puts behind a text if theirs has it."""
    flags = np.array([one.flags for one in sections])
    parts = Sections(
        [one.text for one in sections], flags & MARKUP > 0, answers=flags & (SPOKEN | MARKUP) == SPOKEN
    )
    found = pair.encoder.encode(parts, dtype=np.dtype(np.int32))
    learned = np.repeat(flags & LEARNED > 0, found.counts).tolist()
    ids = found.ids.tolist()
    if ends:
        ids.append(pair.encoder.tokenizer.eos)
        learned.append(bool(sections[-1].flags & LEARNED))
    return ids, learned


def _section_by_section(pair: Pair, sections: list[ChatSection], *, ends: bool) -> list[int]:
    """Return the ids that the library gives each section by itself."""
    found = [n for one in sections for n in pair.theirs.encode(one.text, add_special_tokens=False)]
    return [*found, *([pair.encoder.tokenizer.eos] if ends else [])]


def main() -> int:
    """Compare, and print a line for each template and tokenizer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, help="JSON lines with text")
    parser.add_argument("templates", type=Path, help="a folder of Jinja templates")
    parser.add_argument("tokenizers", type=Path, nargs="+", help="tokenizer.json files")
    parser.add_argument("--dialogues", type=int, default=200, help="[default: 200]")
    args = parser.parse_args()
    texts = [clean_text(orjson.loads(line)["text"]) for line in args.texts.open("rb")]
    talks = dialogues(texts, args.dialogues, random.Random(1))  # noqa: S311  # which dialogues
    total: Counter[str] = Counter()
    for tokenizer in args.tokenizers:
        for place in sorted(args.templates.glob("*.jinja")):
            try:
                pair = pair_of(place.read_text("utf-8"), tokenizer.read_bytes())
            except ConfigError as error:
                print(f"{tokenizer.stem:20} {place.stem:34} refused: {error}", flush=True)
                total["templates refused"] += 1
                continue
            found = [compare(pair, talk) for talk in talks]
            counts = Counter(kind for kind, _ in found)
            total += counts
            print(f"{tokenizer.stem:20} {place.stem:34} {dict(counts.most_common())}", flush=True)
            shown = {said: kind for kind, said in found if kind in ("OTHER", "ours refuses")}
            for said, kind in [*shown.items()][:SHOWN]:
                print(f"    {kind}: {said[:400]}")
    print(dict(total.most_common()))
    return 1 if total["OTHER"] else 0


if __name__ == "__main__":
    sys.exit(main())
