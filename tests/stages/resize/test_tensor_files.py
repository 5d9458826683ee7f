"""What files of tensors promise: the library reads what was written, and other tensors are as before."""

import io
import json
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from stages.errors import FormatError
from stages.resize.new_rows import NewTensor, TensorFile
from stages.resize.safetensors_file import SafetensorsFile
from stages.resize.torch_file import TorchFile

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
HEAD, BIAS = "lm_head.weight", "final_logits_bias"


def state(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Return tensors of several types, an empty one and one number among them."""
    torch.manual_seed(0)
    return {
        "a.first": torch.arange(5, dtype=torch.int64),
        HEAD: torch.randn(6, 3).to(dtype),
        BIAS: torch.randn(1, 6).to(dtype),
        "z.bytes": torch.arange(7, dtype=torch.uint8),
        "none": torch.empty(0, 3),
        "one": torch.tensor(2.5),
    }


def grown(file: TensorFile, name: str) -> NewTensor:
    """Return a tensor of 6 rows with 2 more, and another row 4."""
    before = file.rows(name)
    return NewTensor(8, np.array([4, 6, 7]), np.stack([before[0], before[1], before[2]]))


def written(file: TensorFile, names: list[str]) -> bytes:
    target = io.BytesIO()
    file.write(target, {name: grown(file, name) for name in names})
    return target.getvalue()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_grown_tensors_have_their_rows_and_others_their_bytes(
    tmp_path: Path, name: str, kind: str
) -> None:
    before, path = state(TYPES[name]), tmp_path / "x"
    file: TensorFile
    if kind == "safetensors":
        save_file(before, path, metadata={"format": "pt"})
        file = SafetensorsFile.open(path)
    else:
        torch.save(OrderedDict(before), path)
        file = TorchFile.open(path)
    assert file.tensors[HEAD][:2] == ((6, 3), name)
    content = written(file, [HEAD, BIAS])
    (tmp_path / "y").write_bytes(content)
    after = load_file(tmp_path / "y") if kind == "safetensors" else torch.load(tmp_path / "y")
    assert after.keys() == before.keys()
    for key in before.keys() - {HEAD, BIAS}:
        assert after[key].dtype == before[key].dtype
        assert torch.equal(after[key], before[key])
    order = [0, 1, 2, 3, 0, 5, 1, 2]
    assert after[HEAD].dtype == TYPES[name]
    assert torch.equal(after[HEAD], before[HEAD][order])
    assert torch.equal(after[BIAS], before[BIAS][:, order])
    assert written(file, [HEAD, BIAS]) == content


def test_a_safetensors_file_that_changes_nothing_keeps_data_order_and_metadata(tmp_path: Path) -> None:
    save_file(state(), tmp_path / "x", metadata={"format": "pt", "by": "us"})
    file = SafetensorsFile.open(tmp_path / "x")
    (tmp_path / "y").write_bytes(written(file, [HEAD]))
    with safe_open(tmp_path / "y", framework="pt") as found:
        assert found.metadata() == {"format": "pt", "by": "us"}
    headers = [json.loads(one[8 : 8 + one[0] + one[1] * 256]) for one in _contents(tmp_path)]
    places = [
        sorted((tuple(v["data_offsets"]), k) for k, v in h.items() if k[0] != "_") for h in headers
    ]
    assert [name for _, name in places[0]] == [name for _, name in places[1]]
    assert written(file, []) == (tmp_path / "x").read_bytes()


def _contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("x", "y")]


def test_tensors_that_share_memory_share_it_afterwards(tmp_path: Path) -> None:
    one = torch.nn.Parameter(torch.randn(6, 3), requires_grad=False)
    torch.save({"wte.weight": one, HEAD: one, "other": torch.randn(6, 3)}, tmp_path / "x")
    file = TorchFile.open(tmp_path / "x")
    assert file.tensors["wte.weight"].storage == file.tensors[HEAD].storage
    assert file.tensors["other"].storage != file.tensors[HEAD].storage
    (tmp_path / "y").write_bytes(written(file, ["wte.weight", HEAD]))
    after = torch.load(tmp_path / "y")
    assert after[HEAD].data_ptr() == after["wte.weight"].data_ptr()
    assert isinstance(after[HEAD], torch.nn.Parameter)
    assert not after[HEAD].requires_grad
    assert after[HEAD].shape == (8, 3)


def test_state_dicts_of_old_versions_of_torch_and_of_modules_are_read(tmp_path: Path) -> None:
    module = torch.nn.Embedding(6, 3)
    torch.save(module.state_dict(), tmp_path / "old", _use_new_zipfile_serialization=False)
    torch.save(module.state_dict(), tmp_path / "new")
    for name in ("old", "new"):
        file = TorchFile.open(tmp_path / name)
        (tmp_path / "y").write_bytes(written(file, ["weight"]))
        after = torch.load(tmp_path / "y")
        assert torch.equal(after["weight"][:4], module.weight[:4])
        assert vars(after) == vars(module.state_dict())  # what load_state_dict looks at
        assert vars(after)


class Stranger:
    """What only code could make again."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"model": {"a": torch.ones(2)}, "step": 3},
            r"no tensors by name, but model, step; .*\['model'\]",
        ),
        ([torch.ones(2)], "holds a list, not a state dict"),
        ({"a": torch.ones(2), "b": Stranger()}, "holds more than tensors"),
    ],
)
def test_files_of_torch_that_are_no_state_dicts_are_refused(
    tmp_path: Path, content: object, message: str
) -> None:
    torch.save(content, tmp_path / "x")
    with pytest.raises(FormatError, match=message):
        TorchFile.open(tmp_path / "x")
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-40])
    with pytest.raises(FormatError, match="x: not a torch state dict"):
        TorchFile.open(tmp_path / "x")


def header(**entries: object) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def entry(begin: int, end: int, **other: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [1], "data_offsets": [begin, end]} | other


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header would have 0 bytes|not a safetensors file"),
        (b"\xff" * 20, "cut short: its header would have"),
        (b"\x04" + b"\0" * 7 + b"abcd", "not a safetensors file"),
        (header(a=entry(0, 4)), "12? bytes|it was cut short"),
        (header(a=entry(0, 4)) + b"12345", "it was cut short or overwritten"),
        (header(a=entry(0, 4), b=entry(8, 12)) + b"1" * 12, "leave a gap, or overlap, at byte 4"),
        (header(a=entry(0, 4), b=entry(2, 6)) + b"1" * 6, "leave a gap, or overlap, at byte 4"),
        (header(a=entry(0, 4, data_offsets=[0])) + b"1234", "data_offsets are not two numbers"),
        (header(a={"shape": [1], "data_offsets": [0, 4]}) + b"1234", "'dtype'"),
        (header(a=entry(0, 4, shape=[-1])) + b"1234", "it was cut short or overwritten"),
        (header(a=entry(0, 4, shape="x")) + b"1234", "a shape is no list of numbers"),
    ],
)
def test_safetensors_files_that_are_damaged_are_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        SafetensorsFile.open(tmp_path / "x")


def test_types_that_rows_cannot_be_computed_in_are_refused(tmp_path: Path) -> None:
    numbers = {"wte.weight": torch.ones(6, 3, dtype=torch.int8)}
    save_file(numbers, tmp_path / "x")
    torch.save(numbers, tmp_path / "y")
    for file in (SafetensorsFile.open(tmp_path / "x"), TorchFile.open(tmp_path / "y")):
        with pytest.raises(
            FormatError, match=r"wte.weight is .*resize the model before it is quantised"
        ):
            file.rows("wte.weight")
    (tmp_path / "x").write_bytes(header(a=entry(0, 4, shape=[3])) + b"1234")
    with pytest.raises(FormatError, match=r"a \(3,\) does not fit its 4 bytes"):
        SafetensorsFile.open(tmp_path / "x").rows("a")
