"""What the optimizer promises: the steps of torch's own AdamW, to the bit, without torch's compiler."""

import subprocess
import sys

import torch
from torch import Tensor, nn

from stages.verify.training import AdamW

RATES = [0.01, 0.02, 0.005, 0.0, 0.01, 0.003]
IMPORTS = """
import sys
import torch
from stages.verify.model import reproducible
from stages.verify.training import AdamW
weight = torch.nn.Parameter(torch.ones(3))
with reproducible("cpu"):
    optimizer = AdamW([weight])
    weight.sum().backward()
    optimizer.step(0.1)
    assert torch.are_deterministic_algorithms_enabled()
assert not torch.are_deterministic_algorithms_enabled()
print(sorted({"torch._dynamo", "torch._inductor"} & sys.modules.keys()))
"""


def parameters() -> list[nn.Parameter]:
    """Return three parameters of several shapes; the last never has a gradient."""
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(size, generator=generator)) for size in ((7, 33), (5,), (2, 2))]


def give_gradients(given: list[nn.Parameter], step: int) -> None:
    """Set the gradients of a step."""
    generator = torch.Generator().manual_seed(step)
    for one in given[:2]:
        one.grad = torch.randn(one.shape, generator=generator)


def equal(left: list[nn.Parameter], right: list[nn.Parameter]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


def test_steps_are_those_of_torch_to_the_bit() -> None:
    own, theirs = parameters(), parameters()
    optimizer, reference = AdamW(own), torch.optim.AdamW(theirs, betas=(0.9, 0.95), fused=True)
    for step, rate in enumerate(RATES):
        give_gradients(own, step)
        give_gradients(theirs, step)
        optimizer.step(rate)
        reference.param_groups[0]["lr"] = rate
        reference.step()
        assert equal(own, theirs), step
    assert not equal(own[:2], parameters()[:2])
    assert equal(own[2:], parameters()[2:]), "what has no gradient stays"


def test_a_state_goes_on_as_if_nothing_had_stopped_and_is_left_as_it_is() -> None:
    whole, first = parameters(), parameters()
    through, before = AdamW(whole), AdamW(first)
    for step in range(3):
        for given, optimizer in ((whole, through), (first, before)):
            give_gradients(given, step)
            optimizer.step(RATES[step])
    saved: dict[str, list[Tensor]] = before.state_dict()
    kept = {name: [one.clone() for one in tensors] for name, tensors in saved.items()}
    after = AdamW(first)
    after.load_state_dict(saved)
    for step in range(3, 6):
        for given, optimizer in ((whole, through), (first, after)):
            give_gradients(given, step)
            optimizer.step(RATES[step])
    assert equal(whole, first)
    assert all(torch.equal(a, b) for name in kept for a, b in zip(kept[name], saved[name], strict=True))


def test_gradients_are_forgotten() -> None:
    given = parameters()
    give_gradients(given, 0)
    AdamW(given).zero_grad()
    assert [one.grad for one in given] == [None] * 3


def test_no_compiler_of_torch_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
