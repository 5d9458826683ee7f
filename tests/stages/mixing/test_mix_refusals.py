"""What a refused mix says: what was asked, what is possible, whose fault it is, and ways out that work.

The ways out are read from the messages and followed, until the plan is possible.
"""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.errors import ConfigError
from stages.mixing.classes import NO_WEIGHT
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.plan import plan_mix
from tests.campaign import examples
from tests.stages.mixing.corpora import Document, corpora, counts_of, mixes

NUMBER = r"([\d.,]*\d)"
WAYS = {
    "share": rf"lower its share to {NUMBER}",
    "max_epochs": rf"raise (?:its max_epochs|max_epochs of sources? (.*?)) to {NUMBER}",
    "epochs": rf"lower its epochs to {NUMBER}",
    "total": rf"(?:lower|set) mix\.total_tokens to {NUMBER}",
    "tolerance": rf"raise mix\.tolerance to {NUMBER}",
}


def refusal(documents: Sequence[Document], mix: DatasetMix) -> str | None:
    """Return what is said of a mix, or None if it is possible."""
    try:
        plan_mix(counts_of(documents), mix, dataset="d")
    except ConfigError as error:
        return str(error)
    return None


def followed(message: str, way: str, mix: DatasetMix) -> DatasetMix | None:
    """Return the mix that a message asks for in one of the ways; None if it does not name that way."""
    found = re.search(WAYS[way], message)
    if found is None:
        return None
    value = float(found[found.lastindex or 0].replace(",", ""))
    if way in ("total", "tolerance"):
        return mix.model_copy(update={"total_tokens" if way == "total" else way: value})
    names = re.findall(r"'(.*?)'", found[1] or "") if way == "max_epochs" else []
    sources = dict(mix.sources)
    for name in names or re.findall(r"source '(.*?)' (?:is to|has)", message):
        changed = {**sources[name].model_dump(exclude_none=True), way: value}
        sources[name] = SourceMix.model_validate(changed)
    return mix.model_copy(update={"sources": sources})


@settings(max_examples=examples(40), deadline=None)
@given(corpora(), mixes(), st.sampled_from(sorted(WAYS)), st.sampled_from([1.0, 0.01]))
def test_following_what_a_message_says_makes_the_plan_possible(
    documents: list[Document], mix: DatasetMix, first: str, tolerance: float
) -> None:
    mix = mix.model_copy(update={"tolerance": tolerance})
    for _ in range(8):
        message = refusal(documents, mix)
        if message is None:
            return
        assert re.match(r"dataset 'd': mix(\.total_tokens = [\d,]+)?: ", message)
        ways = (first, *sorted(WAYS))
        changed = next((new for way in ways if (new := followed(message, way, mix)) is not None), None)
        if changed is None:  # nothing but data or other documents helps
            assert re.search(r"add data|shares that sum to 1", message)
            return
        mix = changed
    pytest.fail(f"no end of refusals: {message}")


EN = [Document("wiki", "en", 0, number, 10) for number in range(100)]
CODE = [Document("code", "en", 0, number, 10) for number in range(100)]
UNWEIGHTED = [Document("code", "en", NO_WEIGHT, number, 10) for number in range(100)]


REFUSALS: dict[str, tuple[list[Document], dict[str, SourceMix], dict[str, int], str]] = {
    "share": (
        EN + CODE,
        {"wiki": SourceMix(share=0.9, max_epochs=2), "code": SourceMix()},
        {},
        """source 'wiki' is to be 0.9 of 10,000 tokens = 9,000, but it has 1,000, which max_epochs = 2
        makes at most 2,000; lower its share to 0.6666, or raise its max_epochs to 9, or add data""",
    ),
    "epochs": (
        EN + CODE,
        {"wiki": SourceMix(max_epochs=6), "code": SourceMix()},
        {"total_tokens": 12_345},
        """sources 'wiki' and 'code' are to fill 12,345 tokens, but they have 2,000, which max_epochs
        (code 4, wiki 6) make at most 10,000; raise max_epochs of sources 'code' and 'wiki' to 6.18, or
        lower mix.total_tokens to 10,000, or add data""",
    ),
    "no weight": (
        EN + UNWEIGHTED,
        {"wiki": SourceMix(), "code": SourceMix(share=0.2)},
        {},
        """source 'code' is to be 0.2 of 1,250 tokens = 250, but it has no training document of a weight
        above 0; leave it out, or add data""",
    ),
    "nothing fills": (
        EN,
        {"wiki": SourceMix(share=0.2), "code": SourceMix()},
        {},
        """no source with epochs has a token to take, so nothing fills the 80.0% that the shares leave;
        set mix.total_tokens, and shares that sum to 1""",
    ),
    "no token": (UNWEIGHTED, {"code": SourceMix()}, {}, "there is no token to take"),
    "whole documents": (
        EN[:3] + CODE,
        {"wiki": SourceMix(share=0.014), "code": SourceMix()},
        {},
        """source 'wiki' is to be 0.014 of the tokens, but whole documents make it 10 of 1,010. That is
        off by 0.41%, and mix.tolerance = 0.001 allows 0.10%; raise mix.tolerance to 0.0041, or add
        data""",
    ),
    "too few": (EN, {"wiki": SourceMix()}, {"total_tokens": 4}, "no document is taken"),
}
NOTHING_LEFT: dict[str, dict[str, SourceMix]] = {
    "epochs": {"wiki": SourceMix(epochs=0), "code": SourceMix(epochs=2)},
    "share": {"wiki": SourceMix(share=0), "code": SourceMix(share=1)},
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_a_total_is_refused_if_only_sources_that_are_left_out_were_to_fill_it(name: str) -> None:
    mix = DatasetMix(sources=NOTHING_LEFT[name], missing="leave_out", total_tokens=1_000)
    said = refusal(EN, mix)
    assert said is not None
    assert said.startswith("dataset 'd': mix.total_tokens = 1,000: every source with training documents")
    assert refusal(EN, mix.model_copy(update={"total_tokens": None})) is None, "nothing is asked"


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_was_asked_what_is_possible_and_what_to_change(name: str) -> None:
    documents, sources, totals, message = REFUSALS[name]
    said = refusal(documents, DatasetMix(sources=sources, tolerance=0.001, **totals))
    assert said is not None
    assert " ".join(message.split()) in said


def test_a_source_has_a_part_of_its_own_in_a_total_only_where_languages_are_not_balanced() -> None:
    """Of 7,600 tokens wiki would have 5,700, which is 5.7 times its own; both have 8,000 together."""
    sources = {"wiki": SourceMix(epochs=3), "code": SourceMix()}
    mix = DatasetMix(sources=sources, total_tokens=7_600)
    said = refusal(EN + CODE, mix)
    assert said is not None
    assert "source 'wiki' has epochs = 3, so its documents would be seen 5.7 times" in said
    assert refusal(EN + CODE, mix.model_copy(update={"language_alpha": 0.5})) is None
