"""What a new run file has by default follows from what was seen of the corpus."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.tools.init import defaults
from pipeline.tools.init.defaults import Defaults, _memory, _power, _share, defaults_for
from pipeline.tools.init.draft import Draft, DraftSource
from pipeline.tools.init.fields import FieldChoice

GIB = 1 << 30


def source(**changes: Any) -> DraftSource:
    """Return a source of a corpus of a gibibyte."""
    seen: dict[str, Any] = {"text_bytes": float(GIB), "documents": 1e6, "lengths": (4_000,), **changes}
    choice = FieldChoice("text")
    return DraftSource("web", "jsonl", Path(), ("*.jsonl",), files=1, size=GIB, choice=choice, **seen)


def chosen(*sources: DraftSource) -> Defaults:
    """Return the defaults for some sources."""
    return defaults_for(Draft(sources, ()), shortest_row=128, longest_row=8_192)


def test_numbers_are_rounded_within_bounds() -> None:
    assert [_share(one) for one in (0.5, 0.0123, 0.00001, 0.02)] == [0.1, 0.02, 0.001, 0.02]
    assert [_power(one, 4, 64) for one in (0, 5, 8, 1000)] == [4, 8, 8, 64]


@pytest.mark.parametrize(("machine", "gibibytes"), [(1, 1), (8, 6), (24, 18), (1_000, 64)])
def test_a_run_may_hold_three_quarters_of_the_memory_in_bounds(
    machine: int, gibibytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "machine_memory", lambda: machine * GIB)
    assert _memory() == gibibytes * GIB


def test_nine_of_ten_documents_fit_in_a_row() -> None:
    lengths = (*(4_000,) * 17, *(9_000,) * 2, 90_000)
    assert chosen(source(lengths=lengths)).seq_len == 4_096
    assert chosen(source(lengths=lengths[:17]), source(lengths=lengths[:1])).seq_len == 1_024
    assert chosen(source(lengths=())).seq_len == 8_192
    assert chosen(source(lengths=(3,))).seq_len == 128


def test_a_large_corpus_of_many_languages_has_a_large_vocabulary() -> None:
    named, single = source(languages=("de", "en", "fr")), source(language="cs")
    assert chosen(named, single).vocab_size == 64_000
    assert chosen(named, source(language="fr")).vocab_size == 32_000, "three languages"
    assert chosen(named, source()).vocab_size == 64_000, "a source without a language counts as one more"
    few = [source(language=name, text_bytes=GIB / 8) for name in ("cs", "de", "en", "fr")]
    assert chosen(*few).vocab_size == 32_000, "half a gibibyte"


@pytest.mark.parametrize(
    ("text_bytes", "expected"),
    [
        (1e3, (600, 1 << 20, 4 << 20, False)),
        (239_996, (600, 1 << 20, 4 << 20, False)),
        (240_000, (600, 1 << 20, 4 << 20, True)),
        (1e6, (1_000, 1 << 20, 4 << 20, True)),
        (8_192_000, (16_000, 1 << 20, 4 << 20, True)),
        (1e9, (32_000, 32 << 20, 128 << 20, True)),
        (1e12, (32_000, 64 << 20, 512 << 20, True)),
    ],
)
def test_sizes_follow_the_text(text_bytes: float, expected: tuple[int, int, int, bool]) -> None:
    found = chosen(source(text_bytes=text_bytes))
    assert (found.vocab_size, found.unit_size, found.shard_size, found.learning) == expected
    assert found.tokens == text_bytes / 4
