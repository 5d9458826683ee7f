"""Measuring: a dataset made ready once, then a model of it for every seed, trained and asked.

dataset -> rows of the budget -> Prepared -+- seed 1 -> train -> its own loss, the questions, the probe
run's texts -> questions                   +- seed 2 -> ...
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stages.comparing.budget import rows_of_tokens, tokens_read, train_once, with_rare_labels
from stages.comparing.classes import Classes, bits_per_byte, frequency_bits, knowledge, linear_accuracy
from stages.comparing.questions import ask
from stages.comparing.settings import CompareSettings, IdCounts, MemorisedBits, ModelMeasures
from stages.comparing.texts import Beginning, ChosenTexts, Texts
from stages.loading.dataset import ShardDataset
from stages.objectives.table import questions_of
from stages.objectives.traits import Form
from stages.objectives.vocabulary import Vocabulary
from stages.tokenizer.framing import BEGIN
from stages.verify.learning import measured_loss
from stages.verify.model import reproducible
from stages.verify.rows import LabelledRows, count_labelled, frequent_ids, log_unigram
from stages.verify.training import CPU, Machine, Stream, TrainedModel, Trainer, draws_of

_KINDS = {"fresh", "repeated", "once"}


@dataclass(frozen=True, eq=False)
class ModelQuestions:
    """What the models of a run are asked.

    Args:
        texts: all that are chosen, as the run's tokenizer has them.
        chosen: which of them are what.
        classes: of the fresh ones.
        ids: of the run's vocabulary.
    """

    texts: Texts
    chosen: ChosenTexts
    classes: Classes | None
    ids: IdCounts


@dataclass(frozen=True, eq=False)
class PreparedDataset:
    """A dataset ready to be learned from, and the questions to its models."""

    training: LabelledRows
    heldout: LabelledRows
    kept: NDArray[np.int64]
    passes: float
    going_on: Mapping[str, LabelledRows]
    """Questions by the kind of text; none if no row asks so."""
    filling_in: LabelledRows | None
    fresh: tuple[Beginning, ...]
    begin: int | None
    """The id that begins every document or every row of the run, if one does."""
    frequencies: float
    examination: ModelQuestions


def prepare(
    training: ShardDataset,
    heldout: ShardDataset,
    examination: ModelQuestions,
    *,
    settings: CompareSettings,
) -> PreparedDataset:
    """Read the rows of the budget and put the questions in the forms of the objective.

    Raises:
        DataError: a split has no row with a label.
    """
    reading = rows_of_tokens(training, settings.tokens)
    own = rows_of_tokens(heldout, settings.heldout_tokens, most_epochs=1).rows
    kept = frequent_ids(reading.rows, settings.max_ids)
    forms, vocabulary, chosen = questions_of(training.objective), asked_of(training), examination.chosen

    def texts(names: Sequence[bytes]) -> list[Beginning]:
        return [examination.texts[name] for name in names]

    def questions(names: Sequence[bytes], form: Form, *, within: bool = False) -> LabelledRows:
        places = draw_places(texts(names), settings.places)
        return ask(texts(names), places, form=form, vocabulary=vocabulary, within=within)

    fresh = tuple(texts(chosen.fresh))
    kinds = {"fresh": chosen.fresh, "repeated": chosen.repeated, "once": chosen.once}
    return PreparedDataset(
        with_rare_labels(reading.rows, kept),
        with_rare_labels(own, kept),
        kept,
        reading.passes,
        {}
        if forms.continuation is None
        else {kind: questions(names, forms.continuation) for kind, names in kinds.items() if names},
        None if forms.cloze is None else questions(chosen.fresh, forms.cloze, within=True),
        fresh,
        vocabulary.special_ids.get(BEGIN),
        frequency_bits(fresh, draw_places(fresh, settings.places), examination.ids),
        examination,
    )


def asked_of(dataset: ShardDataset) -> Vocabulary:
    """Return a dataset's ids; what begins its rows begins the texts of questions."""
    frame = dataset.manifest.row_frame
    if frame is None or "begin" not in frame:
        return dataset.vocabulary
    ids = {**dataset.vocabulary.special_ids, BEGIN: frame["begin"]}
    return replace(dataset.vocabulary, special_ids=ids)


def draw_places(texts: Sequence[Beginning], places: int) -> list[list[int]]:
    """Return the places that are asked for of each text, one in each of so many equal parts of it."""
    shares = (draws_of(0, Stream.PLACES).random((len(texts), places)) + np.arange(places)) / places
    return [
        sorted({1 + int(share * (len(text) - 1)) for share in some})
        for text, some in zip(texts, shares, strict=True)
    ]


def measure(
    prepared: PreparedDataset,
    settings: CompareSettings,
    *,
    seed: int,
    machine: Machine = CPU,
    progress: Callable[[int, int], None] | None = None,
) -> ModelMeasures:
    """Train a model on the prepared rows and say what came out; on a CPU the same to the bit."""
    rows, kept, ids = prepared.training, prepared.kept, prepared.examination.ids
    num_ids = len(kept) + 1
    log_probabilities = log_unigram(rows, rows.classes or num_ids)
    trainer = Trainer(rows, log_probabilities, num_ids=num_ids, seed=seed, machine=machine)
    model = trainer.model

    def accuracy() -> float | None:
        classes = prepared.examination.classes
        if classes is None:
            return None
        attention, begin = rows.attention, prepared.begin
        known = knowledge(model, prepared.fresh, kept=kept, attention=attention, begin=begin)
        return linear_accuracy(known, classes)

    with reproducible(machine.device):
        untrained = accuracy()
        curve = train_once(trainer, rows, settings, seed=seed, progress=progress)
        labelled, steps = count_labelled(rows), curve[-1][0] + 1
        trained = TrainedModel(model, log_probabilities, curve, steps, steps, labelled)
        entropy, loss = measured_loss(trained, rows, prepared.heldout)
        asked = {
            kind: bits_per_byte(model, questions, kept=kept, ids=ids)
            for kind, questions in prepared.going_on.items()
        }
        filling_in = prepared.filling_in
        return ModelMeasures(
            seed=seed,
            tokens=int(tokens_read(rows).sum()),
            labelled_tokens=labelled,
            passes=prepared.passes,
            unigram_entropy=entropy,
            loss=loss,
            gain=entropy - loss,
            frequencies=prepared.frequencies,
            going_on=asked.get("fresh"),
            filling_in=None
            if filling_in is None
            else bits_per_byte(model, filling_in, kept=kept, ids=ids),
            accuracy=accuracy(),
            untrained_accuracy=untrained,
            memorised=MemorisedBits(**asked) if asked.keys() == _KINDS else None,
            curve=curve,
        )
