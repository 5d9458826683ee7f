"""AdamW: the steps of `torch.optim.AdamW`, to the bit, without the compiler that its class imports.

`torch.optim` imports `torch._dynamo` for any optimizer, compiled or not: 3 CPU seconds and 100 MB of a
worker that trains for 15 s. The function that the class calls imports nothing.

Source: Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

_BETAS, _EPSILON, _DECAY = (0.9, 0.95), 1e-8, 0.01
OptimizerState = dict[str, list[Tensor]]
"""Of each parameter: the steps it took and the means of its gradients and of their squares."""


class AdamW:
    """An optimizer of some parameters.

    Args:
        parameters: what is trained; those without a gradient stay as they are.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._state: OptimizerState = {
            "steps": [torch.zeros((), device=one.device) for one in self._parameters],
            "means": [torch.zeros_like(one) for one in self._parameters],
            "squares": [torch.zeros_like(one) for one in self._parameters],
        }

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for one in self._parameters:
            one.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the parameters along their gradients.

        Args:
            rate: of learning.
        """
        places = [place for place, one in enumerate(self._parameters) if one.grad is not None]
        steps, means, squares = ([kept[place] for place in places] for kept in self._state.values())
        adamw(
            [self._parameters[place] for place in places],
            [grad for one in self._parameters if (grad := one.grad) is not None],
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            lr=rate,
            weight_decay=_DECAY,
            eps=_EPSILON,
            maximize=False,
        )

    def state_dict(self) -> OptimizerState:
        """Return what is remembered of the gradients; later steps change it."""
        return self._state

    def load_state_dict(self, state: OptimizerState) -> None:
        """Go on from a state, which is left as it is."""
        for name, kept in self._state.items():
            for own, other in zip(kept, state[name], strict=True):
                own.copy_(other)
