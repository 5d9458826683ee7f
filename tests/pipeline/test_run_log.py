"""What the log of a run in a store promises: one writer, no gap, and an end that no listing decides."""

from collections.abc import Sequence

import pytest

from pipeline.state import log_writer
from pipeline.state.log import (
    DropEntry,
    EndEntry,
    LogEntry,
    LogState,
    PlanEntry,
    RunLog,
    TakeEntry,
    number_key,
    state_key,
)
from pipeline.state.log_writer import LogWriter
from stages.errors import FormatError, Stopped
from tests.material.memory_store import MemoryStore

WAY_OUT = "restore the log"


def log_of(store: MemoryStore) -> RunLog:
    """Return the log, read to its end."""
    return RunLog(store, way_out=WAY_OUT).read()


def plan(number: int) -> PlanEntry:
    """Return an entry like no other."""
    return PlanEntry(plan={"number": number})


def append(log: RunLog, epoch: int, entries: Sequence[LogEntry]) -> None:
    """Write entries as the process of an epoch."""
    log.append(entries, epoch=epoch, holder=f"holder-{epoch}")


def take(log: RunLog, epoch: int) -> None:
    """Begin, as the process of an epoch."""
    append(log, epoch, [TakeEntry(host="elsewhere", pid=epoch)])


def write(writer: LogWriter, *entries: LogEntry) -> None:
    """Write entries, each into an object of its own."""
    with writer:
        for entry in entries:
            writer.add(entry)
            writer.flush()


def number_of(state: LogState) -> object:
    """Return what the last entry said."""
    return None if state.plan is None else state.plan["number"]


def test_of_two_writers_that_of_the_lower_epoch_is_stopped_and_the_other_goes_on() -> None:
    store = MemoryStore()
    frozen = log_of(store)
    take(frozen, 1)
    newer = log_of(store)
    take(newer, 2)
    writer = LogWriter(frozen, epoch=1, holder="holder-1")
    with pytest.raises(Stopped, match="s3://memory/run: in use by process 2 of elsewhere, which took"):
        write(writer, plan(1))
    with pytest.raises(Stopped, match="in use"):
        writer.add(plan(2))
    append(newer, 2, [plan(3)])
    assert number_of(log_of(store).state) == 3
    assert len(store.objects) == 3, "nothing of the frozen process is in the log"


def test_a_number_that_a_lower_epoch_took_is_read_and_the_next_one_taken() -> None:
    store = MemoryStore()
    older = log_of(store)
    take(older, 1)
    newer = log_of(store)
    append(older, 1, [plan(1)])  # a last one, which the newer process has not read
    take(newer, 2)
    assert number_of(newer.state) == 1
    assert newer.state.number == 3
    assert log_of(store).state == newer.state


def test_of_one_epoch_only_one_process_writes() -> None:
    store = MemoryStore()
    one, other = log_of(store), log_of(store)
    take(one, 1)
    with pytest.raises(Stopped, match="in use"):
        append(other, 1, [plan(1)])


@pytest.mark.parametrize("objects", [1, 2, 3, 17, 40])
def test_the_first_absent_number_is_the_end_whatever_a_listing_says(objects: int) -> None:
    store = MemoryStore()
    log = log_of(store)
    store.listed = []  # it is behind for ever
    for number in range(objects):
        append(log, 1, [plan(number)])
    log.put_state()
    for behind in (True, False):
        store.listed = [] if behind else None
        found = log_of(store).state
        assert (found.number, number_of(found)) == (objects, objects - 1)
    del store.objects[number_key(objects)], store.objects[state_key(objects)]
    store.write(number_key(objects + 1), b"{}")  # behind the gap; nobody reads it
    assert log_of(store).state.number == objects - 1


def test_an_entry_whose_answer_was_lost_is_in_the_log_once() -> None:
    store = MemoryStore()
    log = log_of(store)
    take(log, 1)
    store.loses = True
    with pytest.raises(Stopped, match=f"{number_key(2)}: no answer"):
        append(log, 1, [plan(1)])
    append(log, 1, [plan(1)])  # asked again: the bytes there are its own
    assert log.state.number == 2
    assert log_of(store).state == log.state


def test_who_adds_to_the_log_learns_that_the_store_had_no_answer() -> None:
    store = MemoryStore()
    writer = LogWriter(log_of(store), epoch=1, holder="holder-1")
    store.loses = True
    with pytest.raises(Stopped, match="no answer"):
        write(writer, plan(1))
    next_log = log_of(store)
    assert number_of(next_log.state) == 1, "what was written holds"
    take(next_log, 2)
    assert next_log.state.number == 2


def test_a_state_stands_for_all_that_came_before_it() -> None:
    store = MemoryStore()
    log = log_of(store)
    take(log, 1)
    append(log, 1, [plan(1), DropEntry(step="decode")])
    append(log, 1, [EndEntry()])
    log.put_state()
    whole = dict(store.objects)
    for number in (1, 2, 3):
        del store.objects[number_key(number)]
    found = log_of(store)
    assert found.state == log.state
    assert found.state.ended
    assert ("get", number_key(3)) not in store.asked[-4:]
    take(found, 2)
    assert log_of(store).state.number == 4
    store.objects = whole
    store.listed = store.now()
    del store.objects[state_key(3)]  # listed, and not there
    assert log_of(store).state == log.state


def test_a_writer_puts_a_state_after_so_many_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "STATE_EVERY", 2)
    store = MemoryStore()
    write(LogWriter(log_of(store), epoch=1, holder="holder-1"), *map(plan, range(5)))
    states = [key for key in store.objects if key.startswith("log/state-")]
    assert states == [state_key(2), state_key(4)]


def test_entries_of_any_cut_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for most in (1, 3, 1_000):
        monkeypatch.setattr(log_writer, "MOST_ENTRIES", most)
        store = MemoryStore()
        with LogWriter(log_of(store), epoch=1, holder="holder-1") as writer:
            for number in range(7):
                writer.add(plan(number))
        state = log_of(store).state
        found.append(list(state.entries()))
        assert all(data.count(b'"kind"') <= most for data in store.objects.values())
    assert found[0] == found[1] == found[2] == [plan(6)]


@pytest.mark.parametrize("key", [number_key(2), state_key(2)])
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b'"plan"', b'"none"', "none"),
        (b'{"', b"{", "JSON"),
        (b'{"', b'\xff{"', "UTF-8"),
        (b',"number":2}', b"}", "number"),
    ],
)
def test_an_object_of_the_log_that_is_damaged_is_named(
    key: str, before: bytes, after: bytes, said: str
) -> None:
    store = MemoryStore()
    log = log_of(store)
    take(log, 1)
    append(log, 1, [plan(2)])
    if key == state_key(2):
        log.put_state()
    damaged = store.objects[key].replace(before, after)
    assert damaged != store.objects[key]
    store.objects[key] = damaged
    with pytest.raises(FormatError, match=f"s3://memory/run/{key}: .*{said}.*; {WAY_OUT}"):
        log_of(store)


def test_an_object_of_the_log_that_was_copied_to_another_number_is_named() -> None:
    store = MemoryStore()
    log = log_of(store)
    take(log, 1)
    append(log, 1, [plan(2)])
    store.objects[number_key(3)] = store.objects[number_key(2)]
    with pytest.raises(FormatError, match=f"/{number_key(3)}: is object 2 of the log; {WAY_OUT}"):
        log_of(store)
