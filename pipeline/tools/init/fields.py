"""Fields: which field of the records holds the text, the id, the language, a dialogue, a target.

{"id": "a1", "meta": {"lang": "fr"}, "content": "..."}    text: content, id: id, language: meta.lang
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stages.chat.dialogue import ChatTurn, NoDialogueError
from stages.reading.messages import turns_of
from stages.reading.nested import column_names, find_column

_TEXTS = ("text", "content", "body", "raw_content", "document", "article", "story", "code", "passage")
"""Usual names of the field of the text, the most usual first."""
_PAIRS = (
    ("prompt", "completion"),
    ("prompt", "response"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("question", "answer"),
    ("question", "response"),
    ("query", "response"),
    ("input", "output"),
    ("source", "target"),
)
"""Usual names of a prompt and what is learned behind it."""
_CONTEXTS = ("input", "context")
"""Usual names of what an instruction is about; it stands between the instruction and the answer."""
_INSTRUCTION = "instruction"
_DIALOGUES = ("messages", "conversations", "conversation", "dialogue", "dialog", "chat", "turns")
_ANSWERERS = ("assistant", "bot", "chatbot", "model", "ai", "gpt", "agent", "answer")
"""Usual names, in lower case, of the role whose turns are learned."""
_IDS = ("id", "_id", "uuid", "guid", "doc_id", "docid", "document_id", "doc_key", "key", "url", "path")
_ID_ENDINGS = ("_id", "_uuid", "_key")
"""Of other names of ids, which are taken if no usual one is there."""
_LANGUAGES = ("lang", "language", "lang_code", "language_code", "programming_language")
_LICENCES = ("license", "licence", "licenses", "max_stars_repo_licenses")
_KEPT = ("url", "source", "title", "date", "timestamp")
_ALL_USUAL = frozenset(
    {*_TEXTS, *_DIALOGUES, *_IDS, *_LANGUAGES, *_LICENCES, *_KEPT, *_CONTEXTS}
    | {name for pair in _PAIRS for name in pair}
)
_LONGEST_LANGUAGE = 32
_IN_LISTS = 4
"""Times as much text in lists, which are not read, beyond which no other field is the text."""
_SHARE = 0.5
"""Of the records that must have a value for it to be the field."""
_PROSE, _WORDS = 20, 3
"""Characters and words of a value that is taken for text rather than a name, a date or a URL."""
_PROSE_SHARE = 0.1
"""Of the records that have such a value, from which a field that is not read is named."""


@dataclass(frozen=True)
class FieldChoice:
    """What holds what; None is no field."""

    text: str | None = None
    section: str | None = None
    """What continues the text: a target behind its prompt."""
    context: str | None = None
    """What stands between the two: the input of an instruction. All records have text there."""
    chat: str | None = None
    """In place of a text."""
    completion: str | None = None
    """What continues the dialogue: a completion behind its prompt."""
    own_id: str | None = None
    language: str | None = None
    licence: str | None = None
    """A field that names it; nothing of a run file reads it."""
    kept: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    """Of the dialogues, the commonest first."""
    learned: str | None = None
    """The role that answers."""
    unread: tuple[str, ...] = ()
    """Fields that hold text too, and that nothing of the run file reads, the longest texts first."""

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The fields whose texts follow each other in a document; none of a dialogue."""
        return tuple(name for name in (self.text, self.context, self.section) if name is not None)

    @property
    def dialogue_columns(self) -> tuple[str, ...]:
        """The fields with the messages of a dialogue; none of a text."""
        return tuple(name for name in (self.chat, self.completion) if name is not None)

    @property
    def is_usable(self) -> bool:
        """Say whether there is something to read."""
        return self.text is not None or self.chat is not None


def choose_fields(records: Sequence[Mapping[str, object]]) -> FieldChoice:
    """Say which field of some records holds what."""
    found = (name for record in records for name in column_names(record))
    names = tuple(name for name in dict.fromkeys(found) if name)
    whole = tuple(dict.fromkeys(name for record in records for name in record))
    dialogue = _dialogue_columns(records, names + whole)
    chat, completion = dialogue or (None, None)
    text, section = (None, None) if chat is not None else _text(records, names)
    context = _context(records, names, text) if section is not None else None
    taken = {text, context, section, chat, completion}
    columns = tuple(name for name in (chat, completion) if name is not None)
    roles = _turns(records, columns) if columns else ()
    choice = FieldChoice(
        text=text,
        section=section,
        context=context,
        chat=chat,
        completion=completion,
        own_id=next((n for n in _id_names(names) if n not in taken and _are_ids(records, n)), None),
        language=next((n for n in _first(names, _LANGUAGES) if _are_languages(records, n)), None),
        licence=next(_first(names, _LICENCES), None),
        kept=tuple(n for n in _first(names, _KEPT) if n not in taken)[:4],
        roles=roles,
        learned=_answering(records, columns, roles) if columns else None,
    )
    return replace(choice, unread=_unread(records, names, choice)) if choice.is_usable else choice


def is_usual_name(name: str) -> bool:
    """Say whether a field is called as those are that hold texts, ids and the like."""
    return name.strip().lower() in _ALL_USUAL


def texts_of_records(records: Iterable[Mapping[str, object]], choice: FieldChoice) -> list[str]:
    """Return each record's text, the parts of several fields or turns one behind the other."""
    texts = []
    for record in records:
        if choice.chat is not None:
            turns = _dialogue(record, choice.dialogue_columns) or ()
            texts.append("".join(turn.content for turn in turns))
        elif choice.text is not None:
            parts = [find_column(record, name)[1] for name in choice.text_columns]
            texts.append("".join(part for part in parts if isinstance(part, str)))
    return texts


def gives_document(record: Mapping[str, object], choice: FieldChoice) -> bool:
    """Say whether a record holds what is read as a document: texts, or turns."""
    if choice.chat is not None:
        return _dialogue(record, choice.dialogue_columns) is not None
    return all(isinstance(find_column(record, name)[1], str) for name in choice.text_columns)


def _text(
    records: Sequence[Mapping[str, object]], names: Sequence[str]
) -> tuple[str | None, str | None]:
    """Return the field of the text, and one that continues it."""
    strings = {name: found for name in names if (found := _strings(records, name))}
    by_lower = {name.lower(): name for name in strings}
    for prompt, target in _PAIRS:
        if prompt in by_lower and target in by_lower and _TEXTS[0] not in by_lower:
            return by_lower[prompt], by_lower[target]
    usual = next(_first(tuple(strings), _TEXTS), None)
    if usual is not None:
        return usual, None
    total = {name: sum(map(len, found)) for name, found in strings.items()}
    longest = max(total, key=lambda name: total[name], default=None)
    if longest is not None and sum(map(_listed, records)) > _IN_LISTS * total[longest]:
        return None, None
    return longest, None


def _context(
    records: Sequence[Mapping[str, object]], names: Sequence[str], prompt: str | None
) -> str | None:
    """Return the field of what an instruction is about, if all records have text there.

    A document of which a section is empty is dropped, and `input` is empty in most records of Alpaca.
    """
    if prompt is None or prompt.lower() != _INSTRUCTION:
        return None
    found = (name for name in _first(names, _CONTEXTS) if len(_filled(records, name)) == len(records))
    return next(found, None)


def _unread(
    records: Sequence[Mapping[str, object]], names: Sequence[str], choice: FieldChoice
) -> tuple[str, ...]:
    """Return the fields that hold text in many records and that no setting names."""
    named = {
        *choice.text_columns,
        *choice.dialogue_columns,
        choice.own_id,
        choice.language,
        choice.licence,
    }
    named.update(choice.kept)
    sizes = {}
    for name in names:
        texts = [] if name in named else list(filter(_is_prose, _filled(records, name)))
        if texts and len(texts) >= _PROSE_SHARE * len(records):
            sizes[name] = sum(map(len, texts))
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def _filled(records: Sequence[Mapping[str, object]], name: str) -> list[str]:
    """Return the texts of a field that have a character but white space."""
    values = (find_column(record, name)[1] for record in records)
    return [value for value in values if isinstance(value, str) and value.strip()]


def _is_prose(value: str) -> bool:
    return len(value) > _PROSE and (len(value.split()) >= _WORDS or not value.isascii())


def _listed(value: object, *, inside: bool = False) -> int:
    """Return the characters of texts in lists: {"version": "1", "data": [{"q": "abc"}]} -> 3."""
    if isinstance(value, str):
        return len(value) if inside else 0
    if isinstance(value, Mapping):
        return sum(_listed(one, inside=inside) for one in value.values())
    return sum(_listed(one, inside=True) for one in value) if isinstance(value, list) else 0


def _first(names: Sequence[str], usual: Sequence[str]) -> Iterator[str]:
    """Yield the fields of usual names in the order of these; of several the one that is least deep."""
    for name in usual:
        fitting = [one for one in names if one.rpartition(".")[2].lower() == name]
        yield from sorted(fitting, key=lambda one: (one.count("."), one))


def _strings(records: Sequence[Mapping[str, object]], name: str) -> list[str]:
    """Return the texts of a field; none if it has them in less than half of the records."""
    found = [value for record in records if isinstance(value := find_column(record, name)[1], str)]
    return found if len(found) >= _SHARE * len(records) and any(map(str.strip, found)) else []


def _id_names(names: Sequence[str]) -> list[str]:
    """Return the fields that may hold ids, those of usual names first."""
    return [*_first(names, _IDS), *(name for name in names if name.lower().endswith(_ID_ENDINGS))]


def _are_ids(records: Sequence[Mapping[str, object]], name: str) -> bool:
    """Say whether a field's values are all there and all different."""
    values = [find_column(record, name)[1] for record in records]
    usable = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool) and v != ""]
    return len(set(usable)) == len(records)


def _are_languages(records: Sequence[Mapping[str, object]], name: str) -> bool:
    values = _strings(records, name)
    return bool(values) and all(len(value) <= _LONGEST_LANGUAGE for value in values)


def _dialogue_columns(
    records: Sequence[Mapping[str, object]], names: Sequence[str]
) -> tuple[str, str | None] | None:
    """Return the field of dialogues, and one that continues them; None if there are none."""
    found = next((name for name in _first(names, _DIALOGUES) if _turns(records, (name,))), None)
    if found is not None:
        return found, None
    by_lower = {name.lower(): name for name in names}
    for prompt, target in _PAIRS:
        pair = by_lower.get(prompt), by_lower.get(target)
        if pair[0] is not None and pair[1] is not None and _turns(records, (pair[0], pair[1])):
            return pair[0], pair[1]
    return None


def _turns(records: Sequence[Mapping[str, object]], names: Sequence[str]) -> tuple[str, ...]:
    """Return the roles in fields of dialogues, the commonest first; none if they hold no dialogues."""
    counts: Counter[str] = Counter()
    read = 0
    for record in records:
        turns = _dialogue(record, names)
        if turns is not None:
            read += 1
            counts.update(turn.role for turn in turns)
    if read < max(1, _SHARE * len(records)):
        return ()
    return tuple(sorted(counts, key=lambda role: (-counts[role], role)))


def _answering(
    records: Sequence[Mapping[str, object]], names: Sequence[str], roles: Sequence[str]
) -> str | None:
    """Return the role that answers: by its usual name, or the one that has the last word most often."""
    usual = {role.lower(): role for role in reversed(roles)}
    found = next((usual[name] for name in _ANSWERERS if name in usual), None)
    if found is not None:
        return found
    last = Counter(turns[-1].role for one in records if (turns := _dialogue(one, names)) is not None)
    return max(roles, key=lambda role: last[role], default=None)


def _dialogue(record: Mapping[str, object], names: Sequence[str]) -> tuple[ChatTurn, ...] | None:
    """Return the turns of a record; None if it holds no dialogue there."""
    try:
        return turns_of([(name, find_column(record, name)[1]) for name in names])
    except NoDialogueError:
        return None
