"""What the end-to-end benchmark promises: all processes counted, whole documents, no failure unsaid."""

import gzip
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest
import zstandard
from competition import FailedError, compete, exit_code, take_turn
from contestants import (
    CONTESTANTS,
    Assignment,
    Contestant,
    Counts,
    Side,
    count_alone,
    count_datatrove,
    count_megatron,
)
from converted_tokenizer import convert_model, differing, find_merges
from corpus_slice import write_slice
from end_to_end import parse_arguments
from peer_environments import PEER_ENVIRONMENTS
from process_cost import LOG, last_line, measure
from standings import (
    Spread,
    Standing,
    TurnCost,
    cost_ratios,
    costs_table,
    ratios_table,
    rotated,
    spread,
)

from stages.tokenizer.sentencepiece_model import PieceType
from stages.tokenizer.train import TrainConfig, train_model

SPIN = "import time\nwhile time.process_time() < {seconds}: pass"
ORPHANS = """
import subprocess, sys
child = 'import subprocess, sys; subprocess.Popen([sys.executable, "-c", sys.argv[1]])'
subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], start_new_session=True).wait()
"""
"""Starts a process that starts another; both end, and the last one works on without a parent."""
UNWAITED = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
TEXTS = ["one two\nthree", "  indented   text", "\u00e9t\u00e9 \u4e2d\u6587 \U0001f600", "tab\tand 123"]


def python(program: str, *words: str) -> list[str]:
    """Return the command line of a program."""
    return [sys.executable, "-c", program, *words]


def standing(name: str, side: Side, costs: list[tuple[float, float]]) -> Standing:
    """Return a standing with turns of these CPU and wall seconds."""
    turns = [TurnCost(turn, cpu, wall, 10.0 * turn) for turn, (cpu, wall) in enumerate(costs)]
    return Standing(name, side, {"thing": "1.0"}, 2_000_000, Counts(5, 1_234), turns)


def assignment(folder: Path) -> Assignment:
    """Return what contestants of a test are given: they look at none of it."""
    return Assignment(folder, folder, folder, "", "", {}, 5, 9, 13, 128, 0.8)


def contestant(name: str, program: str, side: Side = Side.PEER) -> Contestant:
    """Return a contestant that runs a program in Python, with its output folder as its argument."""
    return Contestant(name, side, lambda _, output: [python(program, str(output))], count_alone)


def test_the_cpu_of_a_grandchild_that_lost_its_parent_is_counted(tmp_path: Path) -> None:
    cost = measure(python(ORPHANS, SPIN.format(seconds=0.2)), tmp_path, period=600)
    assert cost.exit_code == 0
    assert cost.sampled_cpu_seconds == 0
    assert cost.waited_cpu_seconds > 0.2
    assert cost.cpu_seconds == cost.waited_cpu_seconds


def test_the_cpu_of_a_child_that_nobody_waits_for_is_counted_by_samples(tmp_path: Path) -> None:
    child = [sys.executable, "-c", SPIN.format(seconds=0.6)]
    program = f"{UNWAITED}; import subprocess; subprocess.Popen({child!r}).wait()"
    cost = measure(python(program), tmp_path, period=0.02)
    assert cost.sampled_cpu_seconds > 0.1  # at the last sample, which a busy machine may put off
    assert cost.cpu_seconds == max(cost.sampled_cpu_seconds, cost.waited_cpu_seconds)
    assert cost.processes == 2
    assert cost.peak_mib > 1


def test_the_meter_gives_the_exit_code_and_the_last_line(tmp_path: Path) -> None:
    cost = measure(python("print('first'); raise SystemExit('at last')"), tmp_path)
    assert cost.exit_code == 1
    assert last_line(tmp_path) == "at last"
    assert cost.wall_seconds > 0
    (tmp_path / LOG).write_text("\n")
    assert last_line(tmp_path) == "no message"


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [({}, 7), ({"max_bytes": 1}, 1), ({"max_bytes": 40}, 2), ({"max_documents": 3}, 3)],
)
def test_a_slice_holds_whole_documents(
    tmp_path: Path, bounds: dict[str, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpus_slice.FILE_BYTES", 50)
    texts = [f"{number} " + "\u00e9" * 15 for number in range(7)]  # of 32 bytes each
    lines = [
        orjson.dumps({"id": f"own-{n}", "text": text, "lang": "fr"}) for n, text in enumerate(texts)
    ]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join([*lines[:3], b"{", b""])))
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(b"\n".join(lines[3:])))
    paths = sorted(tmp_path.glob("*.jsonl.*"))
    found = write_slice(paths, tmp_path / "slice", **bounds)
    files = sorted(found.folder.iterdir())
    written = [
        json.loads(line)
        for path in files
        for line in zstandard.decompress(path.read_bytes()).splitlines()
    ]
    assert written == [json.loads(line) for line in lines[:expected]]
    assert (found.documents, found.text_bytes) == (expected, 32 * expected)
    assert len(files) == (expected + 1) // 2
    assert found.unread == (expected > 3)


def test_a_converted_model_gives_the_same_ids(tmp_path: Path) -> None:
    model, converted = tmp_path / "x.model", tmp_path / "tokenizer.json"
    model.write_bytes(train_model([(text, 9) for text in TEXTS], TrainConfig(vocab_size=560)))
    convert_model(model, converted)
    texts = [*TEXTS, "two  three\n\n one", "\u00df unseen", "", "</s>"]
    assert differing(texts, model, converted) == (len(texts), 0)


def test_merges_make_every_piece_and_begin_with_the_best_score() -> None:
    pieces = ["<s>", "a", "b", "c", "ab", "abc", "bc"]
    types = [PieceType.CONTROL, *[PieceType.NORMAL] * 6]
    scores = [0.0, -9.0, -9.0, -9.0, -1.0, -0.5, -2.0]
    merges = [("a", "bc"), ("ab", "c"), ("a", "b"), ("b", "c")]
    assert find_merges(pieces, scores, [int(kind) for kind in types]) == merges


def test_each_turn_begins_with_the_next_one() -> None:
    assert [rotated(["a", "b", "c"], turn)[0] for turn in range(4)] == ["a", "b", "c", "a"]
    assert sorted(rotated(["a", "b", "c"], 2)) == ["a", "b", "c"]


def test_ratios_are_taken_within_turns_and_against_ours() -> None:
    ours = standing("ours", Side.OURS, [(1.0, 2.0), (2.0, 4.0), (4.0, 4.0)])
    peer = standing("peer", Side.PEER, [(10.0, 2.0), (40.0, 4.0), (60.0, 2.0)])
    start = standing("start", Side.START_UP, [(1.0, 1.0)])
    (ratio,) = cost_ratios([ours, peer, start])
    assert ratio.cpu == Spread(15.0, 10.0, 20.0)
    assert ratio.wall == Spread(1.0, 0.5, 1.0)
    assert ratios_table([ratio]).splitlines()[-1] == (
        "| peer | ours | 15.0 (10.0 to 20.0) | 1.00 (0.500 to 1.00) |"
    )
    peer.error = "broken"
    assert cost_ratios([ours, peer, start]) == []
    assert spread([3.0, 1.0, 2.0, 10.0]) == Spread(2.5, 1.0, 10.0)


def test_a_row_has_medians_ranges_and_what_was_written() -> None:
    table = costs_table([standing("peer", Side.PEER, [(4.0, 5.0), (2.0, 9.0), (3.0, 7.0)])])
    expected = (
        "| peer | thing 1.0 | 5 | 1,234 | 3.00 (2.00 to 4.00) | 0.667 | 7.00 (5.00 to 9.00) | 20 |"
    )
    assert table.splitlines()[-1] == expected


def test_a_failing_contestant_is_a_row_and_the_exit_code_is_1(tmp_path: Path) -> None:
    sound = (
        "import json, pathlib, sys;"
        "pathlib.Path(sys.argv[1], 'counts.json').write_text(json.dumps({'documents': 3, 'tokens': 9}))"
    )
    named = [
        contestant("sound", sound),
        contestant("broken", "print('going on'); raise SystemExit('the disk | is full')"),
        contestant("silent", "print('all is well')"),
    ]
    found = {one.name: Standing(one.name, one.side, {}, 1_000) for one in named}
    order: list[tuple[int, str]] = []

    def turn(one: Contestant, number: int) -> tuple[TurnCost, Counts]:
        order.append((number, one.name))
        return take_turn(one, assignment(tmp_path), tmp_path / one.name, turn=number, period=600)

    compete(named, found, turn, 2)
    assert [name for number, name in order if number >= 0] == ["sound", "sound"]
    assert exit_code(found.values()) == 1
    assert exit_code([found["sound"]]) == 0
    assert found["sound"].counts == Counts(3, 9)
    assert [cost.turn for cost in found["sound"].turns] == [0, 1]
    assert found["sound"].turns[0].cpu_seconds == found["sound"].turns[0].commands[0].cpu_seconds > 0
    _, _, ran, broken, silent = costs_table(found.values()).splitlines()
    assert re.match(r"\| sound \|  \| 3 \| 9 \| 0\.\d", ran)
    assert "failed: exit code 1: the disk / is full" in broken
    assert "failed: its output cannot be read" in silent
    assert all(line.count("|") == 9 for line in (ran, broken, silent))


def test_a_contestant_that_writes_another_number_of_tokens_fails() -> None:
    one = contestant("unsteady", "")
    found = {"unsteady": Standing("unsteady", Side.PEER, {}, 1_000)}
    compete([one], found, lambda _, turn: (TurnCost(turn, 1.0, 1.0, 1.0), Counts(3, turn)), 2)
    assert "turn 2 wrote" in str(found["unsteady"].error)
    assert exit_code(found.values()) == 1
    assert exit_code([]) == 1


def test_what_a_peer_wrote_is_counted_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "merged").mkdir()
    np.array([4, 7], np.uint64).tofile(tmp_path / "merged" / "000_merged.ds.index")
    np.zeros(7, np.uint16).tofile(tmp_path / "merged" / "000_merged.ds")
    assert count_datatrove(tmp_path) == Counts(2, 7)
    np.zeros(6, np.uint16).tofile(tmp_path / "merged" / "000_merged.ds")
    with pytest.raises(ValueError, match="ends at token 7"):
        count_datatrove(tmp_path)
    index = tmp_path / "megatron" / "text.idx"
    index.parent.mkdir()
    arrays = (np.array([4, 3], np.int32), np.array([0, 8], np.int64), np.array([0, 1, 2], np.int64))
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2, 3)
    index.write_bytes(head + b"".join(array.tobytes() for array in arrays))
    np.zeros(7, np.uint16).tofile(index.with_suffix(".bin"))
    assert count_megatron(tmp_path) == Counts(2, 7)
    np.zeros(9, np.uint16).tofile(index.with_suffix(".bin"))
    with pytest.raises(ValueError, match="7 tokens need 14 bytes, but there are 18"):
        count_megatron(tmp_path)


def test_the_limits_count_all_documents_and_an_eos_for_each(tmp_path: Path) -> None:
    lines = [orjson.dumps({"text": text}) for text in TEXTS]
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(b"\n".join(lines)))
    (tmp_path / "x.model").write_bytes(
        train_model([(text, 9) for text in TEXTS], TrainConfig(vocab_size=560))
    )
    script = str(Path(__file__).parents[2] / "benchmarks" / "encode_alone.py")
    words = [sys.executable, script, str(tmp_path), str(tmp_path)]
    subprocess.run(words, check=True)
    assert count_alone(tmp_path) == Counts(4, None)
    subprocess.run([*words, "--model", str(tmp_path / "x.model")], check=True)
    counts = count_alone(tmp_path)
    assert counts.tokens is not None
    assert counts.tokens > 2 * len(TEXTS)


def test_names_and_versions_are_clear(tmp_path: Path) -> None:
    names = [one.name for one in CONTESTANTS]
    assert len(set(names)) == len(names)
    assert {side for one in CONTESTANTS for side in [one.side]} == set(Side)
    for environment in PEER_ENVIRONMENTS:
        named = {requirement.partition("==")[0] for requirement in environment.requirements}
        assert environment.reported[0] in named
    (tmp_path / "a.jsonl").write_text("")
    words = ["--corpus", str(tmp_path / "*.jsonl"), "--cache", "x", "--only", *names[:2]]
    assert parse_arguments(words).only == names[:2]
    with pytest.raises(SystemExit):
        parse_arguments(["--corpus", str(tmp_path / "none"), "--cache", "x"])


def test_a_turn_leaves_nothing_behind_and_begins_anew(tmp_path: Path) -> None:
    output = tmp_path / "work"
    output.mkdir()
    (output / "counts.json").write_text("{}")
    with pytest.raises(FailedError, match="its output cannot be read"):
        take_turn(contestant("silent", ""), assignment(tmp_path), output, turn=0, period=600)
