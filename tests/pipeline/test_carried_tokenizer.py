"""What the tokenizer beside an export promises.

The folder gives the ids of the run, puts before a text what begins a document, and is covered by the
export's digests. Where there can be none, the export is whole all the same and says why.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from pipeline.tools.export import folder as export_parts
from pipeline.tools.export.folder import DonePart, record_part
from stages.export.carried_tokenizer import carried_tokenizer
from stages.export.source import open_source
from stages.store.digests import digest_file
from stages.store.manifest import MANIFEST_NAME, TokenizerFile, read_manifest, write_manifest
from stages.tokenizer.existing import open_tokenizer
from stages.tokenizer.framing import Framing, trained_ids
from stages.tokenizer.train import TrainConfig, train_model
from tests.pipeline.exporting import TRAIN, contents, export
from tests.stages.export.built_dataset import build_dataset
from tests.stages.tokenizer.existing_files import data_of, model_of, texts

pytestmark = pytest.mark.slow

TEXTS = ["", "a text", "  \u2581 x\r\n\ty", "caf\u00e9 \u4e2d\u6587 \U0001f600", "<0x0A> ## <br>"]
GPT2 = {"eos": 0, "pad": 0}


class EndOfProcess(BaseException):
    """Nothing catches it."""


@cache
def own_model(normalization: str) -> bytes:
    """Return a model that a run trained."""
    lines = [(line, 1) for text in texts() for line in text.splitlines()]
    settings = {"vocab_size": 1_000, "normalization": normalization}
    return train_model(lines, TrainConfig.model_validate(settings))


def run_with(
    root: Path, model: bytes, ids: dict[str, int], *, attention: str = "", file: str = "tokenizer.model"
) -> Path:
    """Write a run whose dataset was made with a tokenizer; give the run."""
    closed = [[[*document[:-1], ids["eos"]] for document in shard] for shard in TRAIN]
    folder = build_dataset(root, {"train": closed}, vocab_size=1_000) / "train"
    place = root / "tokenizer" / file
    place.write_bytes(model)
    manifest = read_manifest(folder)
    known = TokenizerFile(file=f"../../../tokenizer/{file}", sha256=digest_file(place).sha256)
    changed = {
        "tokenizer": known,
        "special_ids": ids,
        "attention": attention or manifest.attention,
    }
    write_manifest(folder / MANIFEST_NAME, manifest.model_copy(update=changed).signed())
    return root


def framed(preset: str | None) -> dict[str, int]:
    """Return the special ids of a run that trains its tokenizer."""
    return trained_ids(Framing.model_validate({"preset": preset}))


def test_an_export_carries_the_folder_and_its_bytes_do_not_depend_on_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(tmp_path / "run", own_model("identity"), framed("llama"))
    report = export(run, tmp_path / "out")
    files = contents(tmp_path / "out")
    named = {f"tokenizer/{name}" for name in ("tokenizer.json", "tokenizer_config.json")}
    assert {*named, "tokenizer/special_tokens_map.json", "tokenizer.model"} <= files.keys()
    assert files["tokenizer.model"] == own_model("identity")
    assert report["files"].keys() == files.keys() - {"export.json"}
    assert f'AutoTokenizer.from_pretrained("{tmp_path}/out/tokenizer")' in report["notes"][-1]
    page = files["READ.md"].decode()
    assert 'tokenizer = AutoTokenizer.from_pretrained("EXPORT/tokenizer")' in page
    assert "It puts <s> (id 1) before a text and nothing behind it: a prompt goes on. To close" in page

    def die_behind(folder: Path, done: DonePart) -> None:
        if done.part == "about":
            raise EndOfProcess
        record_part(folder, done)

    with monkeypatch.context() as patch:
        patch.setattr(export_parts, "record_part", die_behind)
        with pytest.raises(EndOfProcess):
            export(run, tmp_path / "killed")
    half = tmp_path / "killed.partial" / "tokenizer" / "tokenizer.json"
    half.write_bytes(half.read_bytes()[:-9])
    (half.parent / "stranger").write_bytes(b"x")
    export(run, tmp_path / "killed")
    assert contents(tmp_path / "killed") == files


@pytest.mark.parametrize(
    ("preset", "attention", "before", "behind"),
    [
        ("llama", "causal_within_document", [1], []),
        (None, "prefix", [], []),
        ("bert", "bidirectional_within_document", [4], [5]),
        ("t5", "encoder_decoder", [], [2]),
    ],
)
def test_ids_are_those_of_the_run_and_only_prompts_stay_open(
    preset: str | None, attention: str, before: list[int], behind: list[int], tmp_path: Path
) -> None:
    ids = framed(preset)
    run = run_with(tmp_path / "run", own_model("identity"), ids, attention=attention)
    export(run, tmp_path / "out", "hf" if attention == "prefix" else "olmo-core")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out" / "tokenizer", local_files_only=True)
    ours = open_tokenizer(run / "tokenizer" / "tokenizer.model", ids)
    wanted = [found.tolist() for found in ours.encode(TEXTS)]
    assert theirs(TEXTS, add_special_tokens=False)["input_ids"] == wanted
    assert theirs(TEXTS)["input_ids"] == [[*before, *found, *behind] for found in wanted]
    assert theirs.eos_token_id == ids["eos"]
    assert [theirs.decode(found) for found in wanted] == TEXTS


def test_a_tokenizer_json_is_carried_byte_for_byte(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", data_of("gpt2"), GPT2, file="tokenizer.json")
    source = open_source(run / "datasets" / "tiny", split="train")
    found = carried_tokenizer(source, data_of("gpt2"))
    assert found.files["tokenizer/tokenizer.json"] == data_of("gpt2")
    roles = json.loads(found.files["tokenizer/special_tokens_map.json"])
    assert roles.items() >= {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}.items()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nmt_nfkc", r'applies such rules to groups .*\.normalization = "identity"'),
        ("word", "a model of kind word, not BPE or unigram; keep the SentencePiece"),
        ("none", r"tokenizer\.model"),
    ],
)
def test_an_export_without_a_folder_is_whole_and_says_why(kind: str, said: str, tmp_path: Path) -> None:
    ids = framed(None) if kind == "nmt_nfkc" else {"unk": 0, "bos": 1, "eos": 2, "pad": 2}
    model = b"no model"
    if kind != "none":
        model = own_model(kind) if kind == "nmt_nfkc" else model_of(kind=kind)
    run = run_with(tmp_path / "run", model, ids)
    report = export(run, tmp_path / "out")
    files = contents(tmp_path / "out")
    assert files["tokenizer.model"] == model
    assert not any(name.startswith("tokenizer/") for name in files)
    page = files["READ.md"].decode()
    (line,) = (line for line in page.splitlines() if "no folder for AutoTokenizer" in line)
    assert re.search(said, line)
    assert str(tmp_path) not in page
    assert "READ.md says why" in report["notes"][-1]
