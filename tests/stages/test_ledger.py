"""What the ledger promises: no document, byte, token or row is lost, repeated or exchanged unseen."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.identity import document_id
from stages.ledger import Flow, IdSum, Tally, id_sum, tally_of, total_flow


def ids(count: int, *, source: str = "s") -> NDArray[np.uint8]:
    """Return the ids of some documents: (count, 16) uint8."""
    joined = b"".join(document_id(source, "a.jsonl", n) for n in range(count))
    return np.frombuffer(joined, np.uint8).reshape(-1, 16)


def test_the_sum_is_that_of_single_documents_in_any_order_and_any_parts() -> None:
    identities = ids(9_000)
    whole = id_sum(identities)
    assert id_sum(identities[::-1]) == whole
    assert (id_sum(identities[:77]) + id_sum(identities[77:])) % (1 << 128) == whole
    assert sum(id_sum(row[None]) for row in identities) % (1 << 128) == whole
    one_by_one = IdSum()
    for row in identities:
        one_by_one.add(row.tobytes())
    assert one_by_one.tally(bytes=5) == tally_of(identities, bytes=5)


def test_losing_one_document_and_repeating_another_changes_the_sum() -> None:
    identities = ids(50)
    sums = {id_sum(identities)}
    for lost in range(50):
        for repeated in range(50):
            if lost != repeated:
                changed = identities.copy()
                changed[lost] = changed[repeated]
                sums.add(id_sum(changed))
    assert len(sums) == 1 + 50 * 49


def test_copies_of_a_document_have_sums_of_their_own_that_do_not_cancel() -> None:
    one = ids(1)
    copies = [id_sum(one, copy=copy) for copy in range(200)]
    assert len(set(copies)) == 200
    combinations = {copies[a] + copies[b] for a in range(200) for b in range(a, 200)}
    assert len(combinations) == 200 * 201 // 2


def test_halves_of_an_id_are_told_apart() -> None:
    halves = ids(1).view("<u8")
    exchanged = np.ascontiguousarray(halves[:, ::-1]).view(np.uint8)
    assert id_sum(exchanged) != id_sum(ids(1))
    same = np.zeros((1, 16), np.uint8)
    assert id_sum(same) >> 64 != id_sum(same) & ((1 << 64) - 1)


def flow(**changes: Tally) -> Flow:
    """Return a flow of 10 documents, of which 3 are gone, that adds up unless changed."""
    parts = {
        "input": tally_of(ids(10), bytes=100, tokens=20),
        "output": tally_of(ids(10)[:7], bytes=60, tokens=15),
        "gone": tally_of(ids(10)[7:], bytes=40, tokens=5),
    } | changes
    return Flow(input=parts["input"], output=parts["output"], gone={"why": parts["gone"]})


def test_a_flow_that_adds_up_has_no_faults() -> None:
    assert flow().faults() == []
    assert (flow() + flow()).faults() == []
    assert total_flow([flow(), flow(), flow()]) == flow() + flow() + flow()
    assert total_flow([]) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"output": tally_of(ids(10)[:6], bytes=60, tokens=15)}, "10 documents, not 9"),
        ({"output": tally_of(ids(10)[:7], bytes=59, tokens=15)}, "100 bytes, not 99"),
        ({"output": tally_of(ids(10)[:7], bytes=60, tokens=16)}, "20 tokens, not 21"),
        ({"gone": tally_of(ids(10)[6:9], bytes=40, tokens=5)}, "but other ones"),
        ({"output": tally_of(ids(7, source="t"), bytes=60, tokens=15)}, "but other ones"),
    ],
)
def test_whatever_does_not_add_up_is_said(changes: dict[str, Tally], named: str) -> None:
    (fault,) = flow(**changes).faults()
    assert named in fault


def test_what_one_side_does_not_count_is_not_compared() -> None:
    counted, uncounted = tally_of(ids(3), bytes=7), tally_of(ids(3))
    assert counted.differences(uncounted) == []
    assert (counted + uncounted).bytes is None
    assert Tally(rows=4).differences(Tally(rows=5)) == ["4 rows, not 5"]


def test_h_is_the_one_that_the_format_documents() -> None:
    def mixed(value: int) -> int:
        mask = (1 << 64) - 1
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & mask
        value = (value ^ value >> 27) * 0x94D049BB133111EB & mask
        return value ^ value >> 31

    identity = document_id("s", "a.jsonl", 3)
    for copy in (0, 1, 5):
        halves = [
            mixed(int.from_bytes(half, "little") ^ (constant * (copy + 1) % (1 << 64)))
            for half, constant in zip(
                (identity[:8], identity[8:]), (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03), strict=True
            )
        ]
        row = np.frombuffer(identity, np.uint8)[None]
        assert id_sum(row, copy=copy) == halves[0] + (halves[1] << 64)
