"""What inspection promises: a row as the loader gives it, each token with what became of it."""

import json
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.report.inspection import RowContent, SequenceContent, inspect, print_row
from stages.errors import ConfigError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.rows import IGNORED
from tests.called import called
from tests.conftest import run_small
from tests.pipeline.test_cli import one_line

pytestmark = pytest.mark.slow

OBJECTIVES: dict[str, dict[str, Any]] = {
    "mlm": {"kind": "mlm", "mask_probability": 0.3, "mask_share": 0.5, "random_share": 0.25},
    "t5": {"kind": "span_corruption"},
    "fim": {"kind": "fim", "fim_rate": 1.0, "train_on_sentinels": False},
    "ul2": {"kind": "ul2"},
    "prefix": {"kind": "prefix_lm"},
    "simcse": {"kind": "simcse", "views": "cropped"},
    "electra": {"kind": "electra"},
}
ROW, EPOCH = 5, 2


@pytest.fixture(scope="module")
def output(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of some datasets up to their shards."""
    folder = tmp_path_factory.mktemp("inspection") / "run"
    datasets = [{"name": name, "objective": objective} for name, objective in OBJECTIVES.items()]
    run_small(small_corpus, folder, datasets=datasets)
    return folder


def described(output: Path, name: str, **place: Any) -> RowContent:
    return inspect(output, name, **{"split": "train", "row": ROW, "epoch": EPOCH, **place})


def opened(output: Path, name: str) -> ShardDataset:
    """Return the same rows as the loader does: in stored order."""
    return open_dataset(output / "datasets" / name, epoch=EPOCH, shuffle=False)


def roles(sequence: SequenceContent) -> list[str]:
    return [cell["role"] for cell in sequence["tokens"]]


def ids(sequence: SequenceContent) -> list[int]:
    return [cell["id"] for cell in sequence["tokens"]]


def test_masked_random_and_kept_tokens_are_those_of_the_labels(output: Path) -> None:
    rows, counts = opened(output, "mlm"), dict.fromkeys(("masked", "random", "kept"), 0)
    for number in range(ROW):
        item = rows[number]
        (sequence,) = described(output, "mlm", row=number)["sequences"]
        inputs, labels = item["input_ids"], item["labels"]
        masked = (labels != IGNORED) & (inputs == rows.vocabulary.named("mask"))
        random = (labels != IGNORED) & ~masked & (inputs != labels)
        kept = (labels != IGNORED) & ~masked & ~random
        for role, expected in (("masked", masked), ("random", random), ("kept", kept)):
            assert [place for place, found in enumerate(roles(sequence)) if found == role] == list(
                np.flatnonzero(expected)
            )
            counts[role] += int(expected.sum())
        was = [cell.get("was_id", cell["id"]) for cell in sequence["tokens"]]
        clean = np.where(labels == IGNORED, inputs, labels)[item["segment_ids"] >= 0]
        assert was == clean.tolist()
    assert min(counts.values()) > 50


@pytest.mark.parametrize("name", OBJECTIVES)
def test_documents_and_places_are_those_of_the_segments(output: Path, name: str) -> None:
    content, rows = described(output, name), opened(output, name)
    shard, number = rows.locate(ROW)
    assert (content["shard"], content["row_in_shard"]) == (rows.manifest.shards[shard].path, number)
    folder = output / "datasets" / name / "train" / content["shard"]
    arrays = {path.stem: np.load(path) for path in (folder / "segments").glob("*.npy")}
    table = pq.read_table(folder / "documents.parquet").to_pylist()
    first, last = arrays["row_ptr"][number : number + 2]
    assert len(content["documents"]) == last - first > 0
    for segment, part in enumerate(content["documents"], int(first)):
        assert part["start"] == arrays["start"][segment]
        assert part["length"] == arrays["length"][segment]
        assert part["doc_offset"] == arrays["doc_offset"][segment]
        document = table[arrays["doc"][segment]]
        assert document.items() >= {key: part[key] for key in ("id", "own_id", "path", "tokens")}.items()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_tokens_are_the_columns_of_the_loader_without_padding(output: Path, name: str) -> None:
    content, item = described(output, name), opened(output, name)[ROW]
    pad = opened(output, name).vocabulary.named("pad")
    targets = [item["labels"]] if name in ("t5", "ul2") else []
    columns = [*np.atleast_2d(item["input_ids"]), *targets]
    assert len(content["sequences"]) == len(columns)
    for sequence, column in zip(content["sequences"], columns, strict=True):
        kept = column[(column != pad) & (column != IGNORED)]
        assert ids(sequence) == kept.tolist()
        assert sequence["padding"] == len(column) - len(kept)
    single = {key: value for key, value in item.items() if value.ndim == 0}
    assert content["numbers"] == single


@pytest.mark.parametrize("name", ["t5", "ul2"])
def test_sentinels_stand_out_in_inputs_and_targets_alike(output: Path, name: str) -> None:
    found = 0
    for number in range(ROW):
        inputs, targets = described(output, name, row=number)["sequences"]
        marked = [
            [cell["piece"] for cell in part["tokens"] if cell["role"] == "sentinel"]
            for part in (inputs, targets)
        ]
        assert marked[0] == marked[1] == [f"<sentinel_{place}>" for place in range(len(marked[0]))]
        assert inputs["tokens"][-1]["role"] == targets["tokens"][-1]["role"] == "special"
        found += len(marked[0])
    assert found > 5


def test_replaced_tokens_are_those_of_the_labels_and_say_what_stood_there(output: Path) -> None:
    item, (sequence,) = opened(output, "electra")[ROW], described(output, "electra")["sequences"]
    replaced = [role == "replaced" for role in roles(sequence)]
    assert replaced == (item["labels"][: len(replaced)] == 1).tolist()
    assert sum(replaced) > 5
    was = [cell.get("was_id", cell["id"]) for cell in sequence["tokens"]]
    assert was == item["original_ids"][: len(was)].tolist()


def test_what_has_no_loss_is_said(output: Path) -> None:
    prefix = described(output, "prefix")
    silent = roles(prefix["sequences"][0]).count("no loss")
    assert silent == prefix["numbers"]["prefix_length"] > 0
    (sequence,) = described(output, "fim")["sequences"]
    special = [cell["piece"] for cell in sequence["tokens"] if cell["role"] == "special"]
    assert special.count("<fim_middle>") == len(described(output, "fim")["documents"])


def test_a_loss_is_shown_without_colours_and_of_special_tokens_too(
    output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    seen = 0
    for name in ("prefix", "fim"):
        content, labels = described(output, name), opened(output, name)[ROW]["labels"]
        (sequence,) = content["sequences"]
        learned = [cell["loss"] for cell in sequence["tokens"]]
        assert learned == (labels[: len(learned)] != IGNORED).tolist()
        print_row(content, as_json=False)
        shown = capsys.readouterr().out
        assert f" padding, {sum(learned):,} with a loss\n" in shown
        assert "\u27e6has a loss\u27e7" in shown.splitlines()[-1]
        text = shown.rpartition("\n\n")[0]
        begun = sum(1 for before, now in pairwise([False, *learned]) if now and not before)
        assert text.count("\u27e6") == text.count("\u27e7") == begun > 0
        seen += sum(not one for one in learned)
    assert seen > 5
    found = [described(output, "fim", row=row)["sequences"][0]["tokens"] for row in range(10)]
    specials = {cell["piece"]: cell["loss"] for cell in chain(*found) if cell["role"] == "special"}
    assert specials["</s>"]
    assert not specials["<fim_middle>"]
    assert "loss" not in described(output, "mlm")["sequences"][0]["tokens"][0]


def test_a_row_without_a_loss_says_so(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = described(output, "prefix")
    for cell in content["sequences"][0]["tokens"]:
        cell["loss"] = False
    print_row(content, as_json=False)
    shown = capsys.readouterr().out
    assert ", 0 with a loss" in shown
    assert "\u27e6" not in shown


def test_another_epoch_shows_other_masks_of_the_same_tokens(output: Path) -> None:
    first, second = (described(output, "mlm", epoch=epoch)["sequences"][0] for epoch in (0, 1))
    assert roles(first) != roles(second)
    clean = [[cell.get("was", cell["piece"]) for cell in part["tokens"]] for part in (first, second)]
    assert clean[0] == clean[1]


def test_json_is_what_is_described(output: Path) -> None:
    place = ("--row", str(ROW), "--epoch", str(EPOCH))
    command = [sys.executable, "-m", "pipeline.main", "inspect", str(output), "--dataset", "mlm"]
    root = Path(__file__).parents[2]
    result = subprocess.run([*command, *place, "--json"], cwd=root, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == described(output, "mlm")


def test_the_terminal_shows_documents_text_and_what_stood_there(
    output: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    content = described(output, "mlm")
    print_row(content, as_json=False)
    shown = capsys.readouterr().out
    assert f"mlm/train: row {ROW} (shard {content['shard']}" in shown
    assert all(str(part["own_id"]) in shown for part in content["documents"])
    cells = content["sequences"][0]["tokens"]
    assert shown.count("[<mask>|") == roles(content["sequences"][0]).count("masked") > 0
    assert shown.count("|=]") == sum(cell["role"] == "kept" for cell in cells)
    for role in ("masked", "random", "kept"):
        assert f" {role} " in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--dataset", "bert"),
            "no dataset 'bert'; datasets here: electra, fim, mlm, prefix, simcse, t5, ul2",
        ),
        (("--dataset", "mlm", "--row", "999999"), "--row 999999: mlm/train has rows 0 to"),
        (("--dataset", "mlm", "--row", "-1"), "--row -1: mlm/train has rows 0 to"),
        (("--dataset", "mlm", "--split", "test"), "no split 'test'; splits here: train, validation"),
        (("--dataset", "mlm", "--epoch", "-1"), "epoch = -1: must be at least 0"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(
    output: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = called("inspect", str(output), *arguments, cwd=output)
    assert result.returncode == 2
    assert message in one_line(result)


def test_a_folder_without_datasets_says_so(tmp_path: Path) -> None:
    result = called("inspect", str(tmp_path), "--dataset", "clm", cwd=tmp_path)
    assert result.returncode == 2
    assert "no dataset 'clm'; no dataset here" in one_line(result)


@pytest.mark.parametrize("row", [-1, 10**6])
def test_a_row_that_is_not_there_is_refused_with_those_that_are(output: Path, row: int) -> None:
    last = len(opened(output, "t5")) - 1
    assert described(output, "t5", row=last)["row"] == last
    for number in (row, last + 1):
        with pytest.raises(ConfigError, match=rf"--row {number}: t5/train has rows 0 to {last:,}$"):
            described(output, "t5", row=number)


def test_a_document_is_shown_at_its_first_and_last_token(
    output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    content = described(output, "mlm")
    print_row(content, as_json=False)
    printed = capsys.readouterr().out
    assert content["documents"]
    for part in content["documents"]:
        start, length, first = part["start"], part["length"], part["doc_offset"]
        assert f"{start} .. {start + length - 1} " in printed
        assert f"{first:,} .. {first + length - 1:,} of {part['tokens']:,}" in " ".join(printed.split())
