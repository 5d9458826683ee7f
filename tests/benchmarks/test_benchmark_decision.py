"""What measuring deduplication promises: documents of the shares it names."""

from decision import short_documents


def test_documents_repeat_as_often_as_is_said() -> None:
    texts = list(short_documents(5_000))
    assert texts == list(short_documents(5_000))
    exact = len(texts) - len(set(texts))
    near = sum(" last" in text for text in texts)
    assert 0.03 * len(texts) < exact < 0.07 * len(texts)
    assert 0.07 * len(texts) < near < 0.13 * len(texts)
    assert all(20 <= len(text.split()) < 60 for text in texts)
