"""What the comparison of personal data promises: the same is the same kind at the same place."""

from personal_data import compare, our_spans, our_texts, personal_data_table

TEXTS = ["write to me@example.org from 8.8.8.8.", "nothing here", "a@b.co and x8.8.8.8"]


def test_our_spans_are_what_our_filter_replaces() -> None:
    left, seconds = our_texts(TEXTS)
    assert left == ["write to [EMAIL] from [IP].", "nothing here", "[EMAIL] and x8.8.8.8"]
    assert seconds >= 0
    for text, after in zip(TEXTS, left, strict=True):
        whole = text
        for kind, first, end in reversed(our_spans(text)):
            whole = f"{whole[:first]}[{kind.upper()}]{whole[end:]}"
        assert whole == after


def test_what_both_replace_and_what_one_does_alone_is_counted_and_shown() -> None:
    theirs = [[("email", 9, 23)], [], [("email", 0, 6), ("ip", 12, 19)]]
    left = ["write to [EMAIL] from 8.8.8.8.", "nothing here", "[EMAIL] and x[IP]"]
    mine, _ = our_texts(TEXTS)
    compared, examples = compare(TEXTS, left, theirs, ours=(mine, 0.5), seconds=1.0)
    assert compared.both == {"email": 2}
    assert compared.ours_alone == {"ip": 1}
    assert compared.theirs_alone == {"ip": 1}
    assert compared.same_texts == 1 / 3
    assert compared.ours == 2 * compared.theirs
    assert examples == [
        "ours alone, ip: 'le.org from ' ['8.8.8.8'] '.'",
        "datatrove alone, ip: 'a@b.co and x' ['8.8.8.8'] ''",
    ]
    assert "| ip | 0 | 1 | 1 |" in personal_data_table(compared).splitlines()
    assert "same text: 33.33% of 3 documents" in personal_data_table(compared)
