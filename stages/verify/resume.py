"""Resume: a training that stops half-way and goes on gives the losses of one that never stopped.

    one     0 1 2 3 4 5 6 7 8 9 10 11      a step each, batches straight from the loader
    two     0 1 2 3 4 5 | 6 7 8 9 10 11    |: model, optimizer and place saved, all opened anew, loaded

With what it shows on the way: how long a step waits for the loader, and how many tokens a second it
takes. Those are measured, not held to bounds, since they depend on the machine and who else uses it.
"""

import io
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import torch

from stages.loading.batches import Batches
from stages.loading.dataset import Batch
from stages.objectives.learning import LearningSettings
from stages.verify.gates import Gate, at_most
from stages.verify.rows import PADDING, LabelledRows, count_labelled
from stages.verify.training import Trainer, learning_rate

STEPS = 12
"""Steps of a training, each of which has its loss compared."""
AHEAD = 2
"""Batches that are read ahead."""
GPU_BOUND = 1e-3
"""Difference of losses that is allowed on a GPU, whose kernels add up in no fixed order."""
PEAKS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10": 125e12,
    "T4": 65e12,
}
"""Dense bfloat16 operations a second (T4: float16), from data sheets, by part of the name."""


@dataclass(frozen=True)
class LoaderSpeed:
    """What the loader gave, and how fast it was used up; depends on the machine and its other users."""

    wait_share: float
    """Share of the time of waiting and training that went to waiting for a batch, the first step left
    out; a thread reads ahead meanwhile, as trainers do."""
    tokens_per_second: float
    """Tokens trained on in a second of training."""
    mfu: float | None
    """Model FLOPs utilisation: share of the device's peak; None if none is known here."""


@dataclass(frozen=True)
class ResumeResult:
    """Losses of a training that stopped and went on, against one that did not."""

    steps: int
    max_difference: float
    """Largest difference of the losses of a step."""
    bound: float
    supply: LoaderSpeed = field(compare=False)

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Hold the difference to its bound."""
        return (at_most("resume", self.max_difference, self.bound),)


def check_resume(
    reopen: Callable[[], Batches],
    prepare: Callable[[Batch], LabelledRows],
    trainer: Callable[[], Trainer],
    *,
    config: LearningSettings,
    steps: int = STEPS,
    clock: Callable[[], float] = time.perf_counter,
) -> ResumeResult:
    """Train twice on the same batches, once with a stop.

    Args:
        reopen: opens the loader.
        prepare: makes rows for the model of a batch.
        trainer: gives one with fresh weights.
        config: of the learning rate.
        steps: of a training.
        clock: seconds, for the supply alone.
    """
    losses: list[float] = []
    waited = worked = tokens = flops = 0.0
    whole = trainer()
    with closing(read_ahead(reopen(), steps)) as batches:
        for step in range(steps):
            started = clock()
            batch = next(batches)
            loaded = clock()
            rows = prepare(batch)
            prepared = clock()
            losses.append(_step(whole, rows, step, config))
            if step:
                waited += loaded - started
                worked += clock() - prepared
                tokens += int(np.count_nonzero(rows.segment_ids != PADDING))
                flops += step_flops(whole, rows)
    half, resumed = steps // 2, []
    first, loader = trainer(), reopen()
    resumed += [_step(first, prepare(_next(loader)), step, config) for step in range(half)]
    saved = io.BytesIO()
    torch.save({"step": half, "walk": loader.state_dict(), **first.state_dict()}, saved)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    second, loader = trainer(), reopen()
    second.load_state_dict(state)
    loader.load_state_dict(state["walk"])
    rest = range(state["step"], steps)
    resumed += [_step(second, prepare(_next(loader)), step, config) for step in rest]
    device = whole.model.output_bias.device
    worked = max(worked, 1e-9)
    return ResumeResult(
        steps,
        float(np.max(np.abs(np.subtract(losses, resumed)))),
        GPU_BOUND if device.type == "cuda" else 0.0,
        LoaderSpeed(waited / (waited + worked), tokens / worked, utilisation(flops / worked, device)),
    )


def read_ahead(batches: Batches, steps: int) -> Generator[Batch, None, None]:
    """Yield the batches of so many steps, which a thread reads while those before are trained on.

    The batches stay where they are; whoever closes the generator waits until the thread is done.
    """
    with ThreadPoolExecutor(1) as reader:
        ahead = deque(reader.submit(batches.__getitem__, step) for step in range(min(AHEAD, steps)))
        for step in range(steps):
            if step + AHEAD < steps:
                ahead.append(reader.submit(batches.__getitem__, step + AHEAD))
            yield ahead.popleft().result()


def _next(batches: Batches) -> Batch:
    """Return the next batch and move on."""
    batch = batches[0]
    batches.advance()
    return batch


def _step(trainer: Trainer, rows: LabelledRows, step: int, config: LearningSettings) -> float:
    """Take a step and give its loss; of no rows there is none to take, and no loss."""
    if not len(rows.labels):
        return 0.0
    return trainer.step(rows, learning_rate(step, STEPS + config.warmup_steps, config=config))[0]


def step_flops(trainer: Trainer, rows: LabelledRows) -> float:
    """Return the operations of a training step: 6 N for each token and those of attention.

    Source: Chowdhery et al. 2022, "PaLM", appendix B, arXiv 2204.02311. N leaves the embedding out, of
    which a token reads one line, and labels alone meet the output weights. A decoder is counted as if it
    read as many tokens as the encoder.
    """
    model = trainer.model
    tokens = np.count_nonzero(rows.segment_ids != PADDING)
    output = model.output_weight.numel() + model.output_bias.numel()
    weights = sum(weight.numel() for weight in model.parameters()) - model.embedding.numel() - output
    layers = len(model.blocks) + 2 * len(model.decoder or ())
    attended = 12 * layers * model.shape.width * rows.input_ids.shape[1]
    return float(tokens * (6 * weights + attended) + 6 * output * count_labelled(rows))


def utilisation(flops_per_second: float, device: torch.device) -> float | None:
    """Return the share of a device's peak; None if it has none that is known here."""
    peak = peak_of(device)
    return None if peak is None else flops_per_second / peak


def peak_of(device: torch.device) -> float | None:
    """Return the dense bfloat16 operations a second of a device; None if none are known here."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAKS.items() if part in name), None)
