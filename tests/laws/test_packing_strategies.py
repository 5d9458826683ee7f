"""What a run promises of every strategy of packing and of packed prompts.

Rows are as the strategy says, whoever makes them; verify finds nothing of them, and finds rows that are
laid out by another strategy. 300 short prompts with targets fill rows.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.session.verifying import verify_session
from stages.cleaning.text import clean_text
from stages.loading.dataset import open_dataset
from stages.loading.masks import PADDING, masks_of
from stages.objectives.rows import IGNORED
from stages.packing.layout import Strategy
from stages.store.manifest import read_manifest, write_manifest
from stages.tokenizer.encode import load_trained
from tests.campaign import some_of
from tests.conftest import bundled_lines, digests, run_small
from tests.laws.sectioned import SOURCES, write_sections

PAIRS = 200
QUESTIONS = {
    "name": "questions",
    "paths": ["questions/*.jsonl"],
    "text_column": "prompt",
    "section_columns": ["target"],
    "id_column": "id",
    "language": "en",
}
PACKED = {"kind": "prefix_lm", "split": "source", "pack_documents": True}
DATASETS: list[dict[str, Any]] = [
    *({"name": f"clm-{name}", "packing": {"strategy": name}} for name in Strategy),
    {"name": "fim-full", "objective": {"kind": "fim"}, "packing": {"strategy": "full"}},
    {"name": "fim-document", "objective": {"kind": "fim"}, "packing": {"strategy": "document"}},
    *(
        {"name": f"prompts-{name}", "objective": PACKED, "packing": {"strategy": name}}
        for name in Strategy
    ),
    {"name": "drawn", "objective": {"kind": "prefix_lm", "pack_documents": True}},
    {"name": "t5-full", "objective": {"kind": "span_corruption"}, "packing": {"strategy": "full"}},
    {
        "name": "masks-full",
        "packing": {"strategy": "full"},
        "objective": {
            "kind": "mixture",
            "components": [{"objective": {"kind": "mlm"}}, {"objective": {"kind": "mlm"}}],
        },
    },
]
SETTINGS: dict[str, Any] = {
    "sources": [*SOURCES, QUESTIONS],
    "datasets": DATASETS,
    "packing": {"seq_len": 128, "shards": 1},
    "tokenizer": {"train": {"vocab_size": 1024}},
    "verify": {"learning": False},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of one section and of three, and pairs of a short question with a short answer."""
    folder = tmp_path_factory.mktemp("strategies")
    (folder / "a.jsonl").write_bytes(b"\n".join(bundled_lines("text/*", 6)))
    write_sections(folder / "sections", [], each=5)
    (folder / "questions").mkdir()
    draws = np.random.default_rng(3)
    words = " ".join(json.loads(line)["text"] for line in bundled_lines("text/*", 2)).split()
    with (folder / "questions" / "q.jsonl").open("w") as file:
        for number in range(PAIRS):
            prompt, target = (" ".join(draws.choice(words, draws.integers(2, 13))) for _ in "ab")
            pair = {"id": f"q{number}", "prompt": f"{prompt}? ", "target": target}
            file.write(json.dumps(pair) + "\n")
    return folder


@pytest.fixture(scope="module")
def finished(
    corpus: Path,
    few_redrawn: None,  # noqa: ARG001  # must be in place
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run over them to its end."""
    output = tmp_path_factory.mktemp("finished") / "run"
    verdicts = run_small(corpus, output, until=None, **SETTINGS)["verify"]
    assert {name: verdict["findings"] for name, verdict in verdicts.items()} == {
        dataset["name"]: [] for dataset in DATASETS
    }
    return output


def segments_of(shard: Path) -> dict[str, Any]:
    """Return where documents lie in the rows of a shard."""
    return {path.stem: np.load(path) for path in (shard / "segments").glob("*.npy")}


def shards(run: Path, dataset: str) -> list[Path]:
    """Return the folders of the training shards, which hold something."""
    found = sorted((run / "datasets" / dataset / "train" / "epoch-0000").iterdir())
    assert found
    return found


@pytest.mark.parametrize("name", ["clm-document", "fim-document", "prompts-document"])
def test_document_gives_each_row_one_document(finished: Path, name: str) -> None:
    for shard in shards(finished, name):
        segments = segments_of(shard)
        assert (np.diff(segments["row_ptr"]) == 1).all()
        documents = pq.read_table(shard / "documents.parquet").column("tokens").to_numpy()
        room = 128 - (3 if name == "fim-document" else 0)
        assert len(segments["doc"]) == (-(-documents // room)).sum()


@pytest.mark.parametrize("name", ["clm-full", "fim-full", "prompts-full", "masks-full"])
def test_full_cuts_documents_where_sentences_end(finished: Path, name: str) -> None:
    ends = _ends_by_id(finished)
    cuts = torn = 0
    for shard in shards(finished, name):
        segments = segments_of(shard)
        ids = pq.read_table(shard / "documents.parquet").column("id").to_pylist()
        for doc, offset in zip(segments["doc"], segments["doc_offset"], strict=True):
            if offset:
                own = ends[ids[doc]]
                begin = own[own < offset].max(initial=0)
                cuts += 1
                if offset not in own:
                    torn += 1
                    assert own[own > offset].min() - begin > 128 - 3, "a sentence that a row can hold"
    assert cuts > 50
    assert torn < cuts / 2


def _ends_by_id(run: Path) -> dict[str, Any]:
    """Return where the sentences of each document end, by its id."""
    found = {}
    for folder in sorted((run / "sentences").glob("*/*")):
        ptr, ends = (np.load(folder / f"{name}.npy") for name in ("ptr", "ends"))
        store = run / "tokens" / folder.relative_to(run / "sentences") / "documents.parquet"
        for number, own in enumerate(pq.read_table(store).column("id").to_pylist()):
            found[own.hex()] = ends[ptr[number] : ptr[number + 1]]
    return found


def test_a_kind_with_a_document_a_row_needs_no_strategy(finished: Path) -> None:
    for shard in shards(finished, "t5-full"):
        assert (np.diff(segments_of(shard)["row_ptr"]) == 1).all()
        assert not (shard / "sentences").exists()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_packed_prompts_are_those_of_their_documents(
    finished: Path, corpus: Path, strategy: Strategy
) -> None:
    lines = (corpus / "questions" / "q.jsonl").read_text().splitlines()
    records = {record["id"]: record for record in map(json.loads, lines)}
    tokenizer = load_trained(finished / "tokenizer" / "tokenizer.model")
    dataset = open_dataset(finished / "datasets" / f"prompts-{strategy}", shuffle=False)
    first = seen = 0
    for shard in shards(finished, f"prompts-{strategy}"):
        segments = segments_of(shard)
        own_ids = pq.read_table(shard / "documents.parquet").column("own_id").to_pylist()
        pieces = np.bincount(segments["doc"], minlength=len(own_ids))
        for row in range(len(segments["row_ptr"]) - 1):
            item = dataset[first + row]
            for number in range(segments["row_ptr"][row], segments["row_ptr"][row + 1]):
                doc = segments["doc"][number]
                if pieces[doc] > 1 or own_ids[doc] not in records:
                    continue
                record = records[own_ids[doc]]
                inside = item["segment_ids"] == number - segments["row_ptr"][row]
                shown, ids = item["in_prefix"][inside] == 1, item["input_ids"][inside]
                wanted = [clean_text(record[key]) for key in ("prompt", "target")]
                assert tokenizer.decode([ids[shown], ids[~shown]]) == wanted
                assert np.array_equal(item["labels"][inside], np.where(shown, IGNORED, ids))
                seen += 1
        first += len(segments["row_ptr"]) - 1
    assert seen > PAIRS // 3


@pytest.fixture(scope="module")
def questions(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over the short pairs alone."""
    output = tmp_path_factory.mktemp("questions") / "run"
    settings = {
        **SETTINGS,
        "sources": [QUESTIONS],
        "packing": {"seq_len": 512, "shards": 1},
        "validation": {"fraction": 0.0},
        "dedup": {"near": False},
        "datasets": [{"name": "packed", "objective": PACKED}],
        "tokenizer": {"train": {"vocab_size": 1024}},
        "verify": {"labelled_tokens": 1500, "min_labelled_tokens": 500, "min_heldout_tokens": 100},
    }
    verdict = run_small(corpus, output, until=None, **settings)["verify"]["packed"]
    assert verdict["findings"] == []
    isolation = verdict["learning"]["isolation"]
    assert isolation["ends"] > 30
    assert isolation["max_change"] == 0.0
    assert isolation["max_change_without"] > 0.0
    return output


def test_short_pairs_fill_rows_with_loss_on_targets_alone(questions: Path, corpus: Path) -> None:
    dataset = open_dataset(questions / "datasets" / "packed", shuffle=False)
    totals = dataset.manifest.totals
    assert totals.documents > PAIRS - 3
    assert totals.tokens / (totals.rows * 512) >= 0.95
    batch = dataset.batch(np.arange(len(dataset)))
    targets = {
        clean_text(json.loads(line)["target"])
        for line in (corpus / "questions" / "q.jsonl").read_text().splitlines()
    }
    tokenizer = load_trained(questions / "tokenizer" / "tokenizer.model")
    said = 0
    for row in range(len(dataset)):
        for number in range(int(batch["segment_ids"][row].max()) + 1):
            inside = batch["segment_ids"][row] == number
            labels = batch["labels"][row][inside]
            assert labels[0] == IGNORED, "no label is predicted across a border"
            assert tokenizer.decode([labels[labels != IGNORED]])[0] in targets
            said += 1
    assert said == totals.documents


def test_no_position_of_a_pair_sees_another_and_each_prefix_is_seen_both_ways(questions: Path) -> None:
    dataset = open_dataset(questions / "datasets" / "packed")
    batch = dataset.batch(np.arange(4))
    mask = masks_of(batch, dataset.manifest.attention)["attention_mask"]
    segments, place = batch["segment_ids"], np.arange(512)
    same = (segments[:, :, None] == segments[:, None, :]) & (segments != PADDING)[:, :, None]
    earlier = (place[:, None] >= place) | (batch["in_prefix"] == 1)[:, None, :]
    assert np.array_equal(mask, (same & earlier) | np.eye(512, dtype=np.bool_))


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_two_workers_make_the_same_bytes(corpus: Path, finished: Path, tmp_path: Path) -> None:
    run_small(corpus, tmp_path / "run", workers=2, **SETTINGS)
    assert digests(tmp_path / "run", "datasets") == digests(finished, "datasets")


@pytest.mark.parametrize(
    ("kind", "taken", "name"),
    some_of(
        [
            ("clm", "concat", "full"),
            ("prompts", "full", "concat"),
            ("prompts", "best_fit", "document"),
        ],
        1,
    ),
)
def test_rows_of_another_strategy_are_found(
    finished: Path, corpus: Path, tmp_path: Path, kind: str, taken: str, name: str
) -> None:
    run, names = tmp_path / "run", {f"{kind}-{name}", f"{kind}-{taken}"}
    shutil.copytree(finished, run)
    two = [dataset for dataset in DATASETS if dataset["name"] in names]
    run_small(corpus, run, **{**SETTINGS, "datasets": two})  # of the others nothing is verified again
    for split in ("train", "validation"):
        target = run / "datasets" / f"{kind}-{name}" / split
        shutil.rmtree(target)
        shutil.copytree(run / "datasets" / f"{kind}-{taken}" / split, target)
        manifest = read_manifest(target)
        changed = manifest.model_copy(update={"name": f"{kind}-{name}", "packing": name})
        (target / "dataset.json").unlink()
        write_manifest(target / "dataset.json", changed.signed())
    verdicts = verify_session(run, workers=0, address=None, stream=None)["verify"]
    checks = {finding["check"] for finding in verdicts[f"{kind}-{name}"]["findings"]}
    assert "layout" in checks
    assert verdicts.keys() == names
    assert all(verdict["passed"] for one, verdict in verdicts.items() if one != f"{kind}-{name}")
