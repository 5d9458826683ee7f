"""What C4's rules promise: which lines go, which documents, and that texts change only if asked to."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.filtering import table
from stages.filtering.c4 import C4, count_sentences
from stages.filtering.chain import FilterChain
from stages.filtering.filter import Change, Document, Removal
from stages.filtering.table import filter_of
from tests.campaign import examples
from tests.stages.filtering.texts import TEXTS, judged, rule

GOOD = "One two three four five."
THREE = "\n".join([GOOD] * 3)
POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
LINES = st.lists(
    st.sampled_from(
        [
            GOOD, "No end is here at all", "Four words, too short.", "Is it so or not?\t",
            ' He said: "Go on now!"', "And so on and on...", "a" * 1001 + " b c d e.",
            "Turn on JavaScript to go on.", "We use cookies on this page.", "It was 'as it always was'",
            "A fact[1] of our life.[citation needed]", "A fact [1] of [edit] life.", "", " ", "[edit]",
            "if {x} then go on.", "Lorem ipsum dolor sit amet.", "lorem[1] ipsum dolor sit amet.",
        ]
    ),
    min_size=1,
    max_size=12,
).map("\n".join)  # fmt: skip


def plain(text: str, config: C4) -> str:
    """Return the rule that a text breaks, or what is left of it, by the definitions."""
    sentences, kept = 0, []
    for line in text.splitlines():
        words = line.split()
        if any(len(word) > config.max_word_length for word in words):
            continue
        left = re.sub(r"\[\d*\]|\[edit\]|\[citation needed\]", "", line.strip())
        if not left.endswith(config.line_ends) or left.endswith("..."):
            continue
        if len(left.split()) < config.min_line_words:
            continue
        if "lorem ipsum" in left.lower():
            return "lorem_ipsum"
        if "javascript" in left.lower():
            continue
        if "{" in left:
            return "curly_bracket"
        if any(phrase in left.lower() for phrase in POLICIES):
            continue
        sentences += count_sentences(left)
        kept.append(left)
    return "few_sentences" if sentences < config.min_sentences else "\n".join(kept).strip()


def found(text: str, config: C4) -> str:
    """Return the rule that a text breaks, or what is left of it."""
    verdict = judged(config, text)
    if isinstance(verdict, Removal):
        return verdict.rule
    changed = isinstance(verdict, Change) and verdict.text is not None
    return verdict.text.decode() if changed else text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [
        "No end is here at all", "Four words, too short.", "Too [1] short [2] [edit].", "[edit]",
        "And so on and on...", "a" * 1001 + " b c d e.", "Turn on the JavaScript now.",
        "It was 'as it always was'", *(f"See all our {phrase} now." for phrase in POLICIES),
    ],
)  # fmt: skip
def test_a_line_that_is_no_sentence_goes_and_is_counted(line: str) -> None:
    verdict = judged(C4(), f"{THREE}\n{line}\n{GOOD}")
    assert verdict == Change(f"{THREE}\n{GOOD}".encode(), counts={"lines": 1})
    assert judged(C4(remove_lines=False), f"{THREE}\n{line}\n{GOOD}") is None


@pytest.mark.parametrize(
    "line", ['He said "so it is"', "Is it that or not?", "It is so right now!", "b" * 1000 + " b c d e."]
)
def test_a_line_within_the_bounds_stays(line: str) -> None:
    assert judged(C4(), f"{THREE}\n{line}") is None


def test_citations_go_and_are_counted() -> None:
    verdict = judged(C4(), f"{THREE}\nA fact[12] of our life.[edit]")
    assert verdict == Change(f"{THREE}\nA fact of our life.".encode(), counts={"citations": 2})


def test_a_line_that_ends_in_a_space_and_a_citation_goes_as_in_the_program() -> None:
    verdict = judged(C4(), f"{THREE}\nThe tide was low, he said. [3]\nThe tide was low, he said.[3]")
    left = f"{THREE}\nThe tide was low, he said."
    assert verdict == Change(left.encode(), counts={"lines": 1, "citations": 1})


def test_documents_go_at_their_bounds() -> None:
    assert rule(C4(), THREE) is None
    assert judged(C4(), "\n".join([GOOD] * 2)) == Removal(
        "few_sentences", "sentences: 2; min_sentences = 3"
    )
    assert rule(C4(), f"{THREE}\nA Lorem Ipsum text of ours.") == "lorem_ipsum"
    assert rule(C4(), f"{THREE}\nint main() {{ return 0; }}.") == "curly_bracket"
    assert rule(C4(), f"{THREE}\nint main() {{") is None, "a line that went is not read on"


def test_a_document_of_which_nothing_is_left_goes_for_a_rule_of_the_filter() -> None:
    document = Document(b"No end is here at all", 21)
    reason = FilterChain([C4(min_sentences=0)], "any").judge(document).reason
    assert reason == "c4.empty"
    assert reason in filter_of(C4()).reasons


def test_a_rule_that_a_filter_does_not_list_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.FILTERS, "c4", replace(filter_of(C4()), rules=("lorem_ipsum",)))
    with pytest.raises(AssertionError, match=r"c4\.few_sentences"):
        FilterChain([C4()], "any").judge(Document(b"No end is here at all", 21))


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("", 0),
        ("One.", 1),
        ("One. Two", 2),
        ('Go! "Now?" he said.', 3),
        ("e.g 3.5.", 1),
        ("Wait... what?!", 2),
    ],
)
def test_sentences_are_counted_as_written_out(line: str, number: int) -> None:
    assert count_sentences(line) == number


def test_the_settings_of_datatrove_keep_what_its_filter_keeps() -> None:
    text = "\n".join(["He said 'so be it'", "Is it now?"] * 3)
    theirs = C4(min_sentences=5, min_line_words=3, line_ends=(".", "?", "!", '"', "'"))
    assert (rule(C4(), text), rule(theirs, text)) == ("few_sentences", None)


@pytest.mark.parametrize("end", ["", " ", ". ", "\n", "\ufeff", "\x07"])
def test_an_end_that_no_line_has_is_refused(end: str) -> None:
    with pytest.raises(ValidationError, match="a line never ends so"):
        C4(line_ends=(end,))


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(TEXTS | LINES.filter(str.strip), st.integers(0, 6), st.sampled_from([C4().line_ends, ("e", "'")]))
def test_verdicts_equal_the_plain_definition(text: str, least: int, ends: tuple[str, ...]) -> None:
    config = C4(min_sentences=least, line_ends=ends)
    assert found(text, config) == plain(text, config)
