"""What is promised of the documents that the tokenizer's own library encodes: enough, but not most."""

import pytest

from pipeline.steps.decode.step import sample_shares
from pipeline.steps.tokenize.encode import LanguageTokens


def test_the_sample_has_a_thousand_documents_of_a_language_but_not_most_of_the_text() -> None:
    def shares(size: int, **documents: int) -> dict[str, float]:
        counts = {n: LanguageTokens(documents=d, bytes=d * size, tokens=d) for n, d in documents.items()}
        return sample_shares(counts)

    assert shares(9, a=900, b=5_000, c=120_001) == {"a": 1.0, "b": 0.24}
    lowered = 590 / 2_100
    assert shares(10_000, a=900, b=5_000) == pytest.approx({"a": lowered, "b": 0.24 * lowered})
    assert shares(10, a=10) == {"a": 1.0}
    assert shares(1 << 20, a=10) == pytest.approx({"a": 0.4})
    assert shares(1) == {}
