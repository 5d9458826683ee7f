"""What the kernel that cuts pairs promises: the rows that Python's own numbers give."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.packing.pairs import PairRules
from tests.campaign import examples
from tests.stages.packing.plain_pairs import plain_rows
from tests.stages.packing.test_pairs import KEY, halves, packed, rules


@settings(deadline=None, max_examples=examples(300))
@given(st.data(), st.integers(5, 60), rules)
def test_rows_are_those_of_the_plain_version(
    data: st.DataObject, row_length: int, rules: PairRules
) -> None:
    sizes = st.lists(st.integers(1, (row_length - 1) // 2), min_size=1, max_size=40)
    documents = data.draw(st.lists(sizes, max_size=6))
    found = packed(documents, row_length, rules)
    expected, room = plain_rows(documents, budget=row_length - 1, rules=rules, key=KEY)
    assert halves(found) == expected
    assert found.room.tolist() == room


def test_long_documents_have_the_rows_of_the_plain_version() -> None:
    sizes = np.random.Generator(np.random.Philox(3)).integers(1, 200, (40, 300)).tolist()
    for some in (PairRules(0.1, 0.5), PairRules(0.3, 0.0)):
        found = packed(sizes, 513, some)
        expected, room = plain_rows(sizes, budget=512, rules=some, key=KEY)
        assert halves(found) == expected
        assert found.room.tolist() == room
