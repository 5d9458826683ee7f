"""What `shardmill tokenizer resize` promises: a checkpoint with more rows, whole or not there at all."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner, Result

from pipeline import cli
from pipeline.state.atomic_write import locked
from pipeline.tools.tokenizer import checkpoints
from pipeline.tools.tokenizer.resize import model_file, resize_checkpoint
from pipeline.tools.tokenizer.resize_tables import ResizeResult
from pipeline.tools.tokenizer.step_zero import StepZero
from stages.errors import ConfigError, DataError, FormatError, Stopped
from stages.resize.row_method import RowMethod
from tests.stages.tokenizer.existing_files import data_of
from tests.stages.tokenizer.extended_files import extended_gpt2, extended_model

SIZE, PADDED, CHANNELS = 1500, 1504, 8
PIECES = ("zq", "\u732b\u732b", "\u2581zq")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An old and a new tokenizer."""
    (tmp_path / "old").write_bytes(data_of("llama-model"))
    (tmp_path / "new").write_bytes(extended_model(*PIECES))
    return tmp_path


def called(place: Path, checkpoint: str, *options: object) -> Result:
    files = ["--old", place / "old", "--new", place / "new", "--output", place / "out"]
    words = ["tokenizer", "resize", place / checkpoint, *files, *options]
    return CliRunner().invoke(cli.app, list(map(str, words)), env={"COLUMNS": "200"})


def resize(
    place: Path, checkpoint: str, *, output: str = "out", texts: tuple[Path, ...] = ()
) -> ResizeResult:
    old, new = place / "old", place / "new"
    return resize_checkpoint(
        place / checkpoint, place / output, old=old, new=new, method=RowMethod.MEAN, texts=texts
    )


def llama(place: Path, *, tied: bool, dtype: torch.dtype = torch.float32, shard: str = "5GB") -> None:
    """Write a small model of four shards or one."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=PADDED,
        hidden_size=CHANNELS,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=200,
        tie_word_embeddings=tied,
    )
    LlamaForCausalLM(config).to(dtype).save_pretrained(place / "model", max_shard_size=shard)


@pytest.mark.parametrize("tied", [True, False])
def test_a_resized_folder_is_loaded_and_gives_the_same_logits_for_old_ids(
    place: Path, *, tied: bool
) -> None:
    llama(place, tied=tied, dtype=torch.bfloat16, shard="20KB")
    (place / "model" / "tokenizer.json").write_text("{}", encoding="utf-8")
    (place / "model" / "notes.md").write_text("mine", encoding="utf-8")
    before = AutoModelForCausalLM.from_pretrained(place / "model")
    result = called(place, "model", "--rows", "pieces", "--multiple-of", "16")
    assert result.exit_code == 0, result.output
    assert "not copied: tokenizer.json" in result.output
    assert "3 of them have rows that were padding before" in result.output
    assert (place / "out" / "notes.md").read_text(encoding="utf-8") == "mine"
    assert not (place / "out.partial").exists()
    after, report = AutoModelForCausalLM.from_pretrained(place / "out", output_loading_info=True)
    assert not any(report.values())
    assert after.config.vocab_size == after.get_input_embeddings().num_embeddings == 1504
    ids = torch.arange(40)[None] + 300
    with torch.no_grad():
        old, new = before(ids).logits, after(ids).logits
    assert torch.equal(old[..., :SIZE], new[..., :SIZE])
    assert not torch.equal(old[..., SIZE : SIZE + 3], new[..., SIZE : SIZE + 3])
    state = before.state_dict()
    for name, tensor in after.state_dict().items():
        kept = slice(SIZE) if len(tensor) == PADDED else slice(None)
        assert torch.equal(tensor[kept], state[name][kept])
        assert len(tensor) != PADDED or torch.equal(tensor[SIZE + 3], state[name][SIZE + 3])
    index = json.loads((place / "out" / "model.safetensors.index.json").read_bytes())
    assert sum(t.nbytes for t in state_of(place / "out").values()) == index["metadata"]["total_size"]


def state_of(folder: Path) -> dict[str, torch.Tensor]:
    """Return all tensors of a folder's files."""
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) > 1
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def test_losses_are_those_of_the_library_before_and_after(place: Path) -> None:
    torch.manual_seed(0)
    sizes = {"n_embd": CHANNELS, "n_layer": 1, "n_head": 2, "n_positions": 64}
    GPT2LMHeadModel(GPT2Config(vocab_size=SIZE + 1, **sizes)).save_pretrained(place / "model")
    (place / "text.txt").write_text("zqx the cat", encoding="utf-8")
    options = ("--rows", "mean", "--multiple-of", "8", "--text", place / "text.txt", "--json")
    result = called(place, "model", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["tensors"] == [
        {
            "name": "transformer.wte.weight",
            "shape": [SIZE + 1, CHANNELS],
            "dtype": "F32",
            "rows": 1504,
            "tied_to": None,
        }
    ]
    assert (found["new_ids"], found["padding"], found["reused"]) == (3, 1, 1)
    (text,) = found["texts"]
    assert text["characters"] == 11
    assert text["new_tokens"] < text["tokens"]
    assert text["largest_difference"] < 1e-6
    assert text["loss"] <= text["same_ids_loss"] < text["loss"] + 0.1
    assert text["new_loss"] < text["same_ids_loss"]


def test_a_state_dict_and_a_safetensors_file_get_the_same_rows(place: Path) -> None:
    llama(place, tied=False)
    model = AutoModelForCausalLM.from_pretrained(place / "model")
    torch.save(model.state_dict(), place / "model.bin")
    outputs: dict[str, Path] = {}
    for name in ("model.bin", "model/model.safetensors"):
        result = called(place, name, "--rows", "random", "--seed", "3", "--multiple-of", "64")
        assert result.exit_code == 0, result.output
        (place / "out").rename(place / f"out-{len(outputs)}")
        outputs[name] = place / f"out-{len(outputs)}"
    one, other = torch.load(outputs["model.bin"]), load_file(outputs["model/model.safetensors"])
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    embedding, head = one["model.embed_tokens.weight"], one["lm_head.weight"]
    assert len(embedding) == len(head) == 1536
    assert not torch.equal(embedding[SIZE : SIZE + 3], head[SIZE : SIZE + 3])


def test_a_folder_of_torch_files_is_resized_shard_by_shard(place: Path) -> None:
    llama(place, tied=False)
    model = place / "model"
    state = load_file(model / "model.safetensors")
    names = sorted(state)
    files = {name: f"pytorch_model-0000{number % 2}.bin" for number, name in enumerate(names)}
    for file in set(files.values()):
        own = {name: state[name] for name in names if files[name] == file}
        torch.save(own, model / file)
    size = sum(tensor.nbytes for tensor in state.values())
    index = {"metadata": {"total_size": size}, "weight_map": files}
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    (model / "model.safetensors").rename(place / "elsewhere")
    result = called(place, "model", "--rows", "mean", "--multiple-of", "1600")
    assert result.exit_code == 0, result.output
    after = {k: v for file in set(files.values()) for k, v in torch.load(place / "out" / file).items()}
    assert after.keys() == state.keys()
    assert after["lm_head.weight"].shape == (1600, CHANNELS)
    assert torch.equal(after["lm_head.weight"][:SIZE], state["lm_head.weight"][:SIZE])
    written = json.loads((place / "out" / "pytorch_model.bin.index.json").read_bytes())
    assert written["metadata"]["total_size"] == size + 2 * (1600 - PADDED) * CHANNELS * 4
    assert json.loads((place / "out" / "config.json").read_bytes())["vocab_size"] == 1600


def test_a_byte_level_file_extends_a_padded_state_dict(place: Path) -> None:
    (place / "old").write_bytes(data_of("gpt2"))
    (place / "new").write_bytes(extended_gpt2(("z", "q")))
    weight = torch.randn(SIZE, CHANNELS)
    torch.save({"wte.weight": weight, "lm_head.weight": weight}, place / "x.pt")
    result = called(place, "x.pt")
    assert result.exit_code == 0, result.output
    assert "one with wte.weight" in result.output
    assert "1 of them are in no text: the mean of all old rows" in result.output
    after = torch.load(place / "out")
    assert after["wte.weight"].data_ptr() == after["lm_head.weight"].data_ptr()
    vocab = json.loads(data_of("gpt2"))["model"]["vocab"]
    expected = (weight[vocab["z"]].double() + weight[vocab["q"]].double()) / 2
    assert torch.equal(after["wte.weight"][SIZE], expected.float())


def test_an_output_is_whole_or_not_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llama(place, tied=False, shard="30KB")
    whole = resize(place, "model")
    (place / "out").rename(place / "expected")
    calls: list[str] = []

    def killed(place: Path) -> None:
        calls.append(place.name)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "sync_path", killed)
    with pytest.raises(KeyboardInterrupt):
        resize(place, "model")
    monkeypatch.undo()
    assert len(calls) == 2
    assert not (place / "out").exists()
    (place / "out.partial").mkdir(exist_ok=True)  # as SIGKILL would leave it
    (place / "out.partial" / "config.json").write_text("{", encoding="utf-8")
    assert resize(place, "model") == whole
    names = sorted(path.name for path in (place / "out").iterdir())
    assert names == sorted(path.name for path in (place / "expected").iterdir())
    for name in names:
        assert (place / "out" / name).read_bytes() == (place / "expected" / name).read_bytes()


def test_what_is_not_ours_is_never_overwritten(place: Path) -> None:
    torch.save({"wte.weight": torch.randn(SIZE, CHANNELS)}, place / "x.pt")
    llama(place, tied=True)
    for name in ("out", "out.partial"):
        (place / name).mkdir()
        (place / name / "mine").write_text("mine", encoding="utf-8")
        for checkpoint in ("x.pt", "model"):
            with pytest.raises(ConfigError, match=r"is there|is no file|is not ours"):
                resize(place, checkpoint)
        assert (place / name / "mine").read_text(encoding="utf-8") == "mine"
        (place / name).rename(place / f"moved-{name}")
    with pytest.raises(ConfigError, match=r"--output .*inside: lies in CHECKPOINT"):
        resize(place, "model", output="model/inside")


def test_a_second_process_is_refused(place: Path) -> None:
    torch.save({"wte.weight": torch.randn(SIZE, CHANNELS)}, place / "x.pt")
    (place / "out.partial").touch()
    with (
        locked(place / "out.partial"),
        pytest.raises(Stopped, match="another process writes it"),
    ):
        resize(place, "x.pt")


def changed_json(place: Path, **changes: object) -> None:
    """Change a file of JSON; None removes a key."""
    content = json.loads(place.read_bytes()) | changes
    kept = {key: value for key, value in content.items() if value is not None}
    place.write_text(json.dumps(kept), encoding="utf-8")


def test_folders_that_are_not_what_they_must_be_are_refused(place: Path) -> None:
    llama(place, tied=False, shard="30KB")
    model, text = place / "model", place / "text.txt"
    text.write_text("a", encoding="utf-8")
    index = model / "model.safetensors.index.json"
    kept = {path: path.read_bytes() for path in (index, model / "config.json")}

    def refused(kind: type[Exception], message: str, texts: tuple[Path, ...] = ()) -> None:
        with pytest.raises(kind, match=message):
            resize(place, "model", texts=texts)
        for path, content in kept.items():
            path.write_bytes(content)

    changed_json(model / "config.json", architectures=["LlamaForSequenceClassification"])
    refused(ConfigError, "--text: .* is LlamaForSequenceClassification; losses are", (text,))
    text.write_text("", encoding="utf-8")
    refused(ConfigError, "--text .*text.txt: holds no text", (text,))
    changed_json(model / "config.json", vocab_size=SIZE)
    refused(ConfigError, "1,504 rows, but config.json says vocab_size = 1,500")
    changed_json(model / "config.json", vocab_size=None)
    refused(FormatError, "config.json: has no vocab_size")
    changed_json(index, weight_map={"a": "../../x.safetensors"})
    refused(FormatError, "has no weight_map of file names")
    changed_json(index, weight_map={"a": "gone.safetensors"})
    refused(FormatError, "gone.safetensors: gone, or not a file")
    one = min(model.glob("*.safetensors"))
    (model / "twice.safetensors").write_bytes(one.read_bytes())
    changed_json(index, weight_map={"a": one.name, "b": "twice.safetensors"})
    refused(FormatError, "is in model-00001-of-.*safetensors and in twice.safetensors")
    index.unlink()
    with pytest.raises(ConfigError, match=r"has none of model\.safetensors"):
        resize(place, "model")
    (model / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        resize(place, "model")
    assert not (place / "out").exists()
    assert not (place / "out.partial").exists()


def test_files_that_cannot_be_resized_are_refused(place: Path) -> None:
    weight = torch.randn(SIZE, CHANNELS)
    torch.save({"wte.weight": weight}, place / "x.pt")
    with pytest.raises(ConfigError, match=r"CHECKPOINT .*gone: no such file"):
        resize(place, "gone")
    with pytest.raises(ConfigError, match="--text: losses need the model"):
        resize(place, "x.pt", texts=(place / "old",))
    with pytest.raises(ConfigError, match=r"--output .*: there is no folder"):
        resize(place, "x.pt", output="nowhere/out")
    with pytest.raises(FormatError, match=r"old: (neither a torch file nor|not a) safetensors"):
        resize(place, "old")
    weight[3, 3] = torch.inf
    torch.save({"wte.weight": weight}, place / "x.pt")
    with pytest.raises(DataError, match=r"x.pt: wte.weight: its rows hold NaN or infinity"):
        resize(place, "x.pt")
    (place / "new").write_bytes((place / "old").read_bytes())
    with pytest.raises(ConfigError, match="--new: has no id that --old lacks"):
        resize(place, "x.pt")
    assert not (place / "out").exists()


def test_a_written_model_that_transformers_does_not_load_is_refused_with_its_reason(place: Path) -> None:
    model = model_file(place / "old", "--old")
    (place / "config.json").write_text('{"model_type": "no such"}', encoding="utf-8")
    said = "--text: .* is written, but transformers does not load it: .*no such"
    with pytest.raises(ConfigError, match=said):
        StepZero(place, place, old=model, new=model)
