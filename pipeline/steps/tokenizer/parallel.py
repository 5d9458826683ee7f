"""Parallel: what the same text comes to in many languages, under the run's tokenizer and others.

    parallel text, tokenizer.model or tokenizer.json  ->  tokenizer/parity.json

It is a unit of its own: with other text, another reference or other tokenizers it is done again, and
nothing is trained.
"""

import json
from collections.abc import Mapping

from pydantic import Field

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Workspace
from pipeline.inputs.parallel_text import (
    describe_other,
    read_others,
    read_parallel,
    require_unchanged,
)
from pipeline.run_file.config import OWN, FairnessSection, TokenizerSection
from pipeline.steps.records import UnitRecord
from pipeline.steps.tokenizer.load import EXISTING, load_tokenizer
from stages.tokenizer.bpe.encoder import MEMORY
from stages.tokenizer.existing import open_file
from stages.tokenizer.fairness import LanguageCounts, TextCounter
from stages.tokenizer.parity import ParallelTexts, compared_languages, count_languages
from stages.tokenizer.roles import SpecialPieces, find_roles

PARITY = "tokenizer/parity.json"
MEASURE = "measure"
"""The name of the unit."""
VERSION = 1
"""Raised when the same text gives another file."""


_TEXT = 128 << 20
"""The parallel text of a language, its ids, and what is counted of it."""


class ParallelRecord(UnitRecord):
    """What the run's own tokenizer came to in each language of the parallel text."""

    reference: str
    parity: dict[str, float] = Field(default_factory=dict)
    byte_fallback: dict[str, float] = Field(default_factory=dict)


def measured_settings(fairness: FairnessSection) -> Mapping[str, object]:
    """Return what decides the file beside the tokenizer: texts and files by digest, never by path."""
    return {
        "version": VERSION,
        "reference": fairness.reference,
        "names": list(fairness.others),
        "digests": fairness.digests,
    }


def measuring_need(section: TokenizerSection) -> Need:
    """Return the memory of a worker that measures; it opens one tokenizer after the other."""
    existing = section.path is not None or bool(section.fairness.compare)
    return Need(2 * MEMORY + _TEXT + EXISTING * existing, "remove tokenizer.fairness.compare")


def measure_parallel(workspace: Workspace, work: FairnessSection) -> ParallelRecord:
    """Measure the run's tokenizer and others on parallel text.

    Raises:
        DataError: a file changed since the run was planned.
    """
    require_unchanged(work)
    found = read_parallel(work)
    own = TextCounter(load_tokenizer(workspace).codec)
    counts, sizes = {OWN: count_languages(own, found.texts.items())}, {OWN: own.vocab_size}
    del own
    for name, read in read_others(work).items():
        counter = _other_counter(read(), name)
        counts[name], sizes[name] = count_languages(counter, found.texts.items()), counter.vocab_size
    content = _content(counts, found, sizes=sizes, fairness=work)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    workspace.create(PARITY).write_text(text + "\n", encoding="utf-8")
    reference = max(counts[OWN][work.reference].tokens, 1)
    return ParallelRecord(
        reference=work.reference,
        parity={name: round(one.tokens / reference, 4) for name, one in sorted(counts[OWN].items())},
        byte_fallback={name: one.byte_fallback for name, one in sorted(counts[OWN].items())},
    )


def _other_counter(data: bytes, name: str) -> TextCounter:
    """Return what counts with another tokenizer's file."""
    found, description = describe_other(data, name)
    roles = find_roles(description, SpecialPieces(), name=name)
    return TextCounter(open_file(found.data, found.kind, set(roles.ids.values()), name=name))


def _content(
    counts: Mapping[str, Mapping[str, LanguageCounts]],
    found: ParallelTexts,
    *,
    sizes: Mapping[str, int],
    fairness: FairnessSection,
) -> Mapping[str, object]:
    languages, total = compared_languages(counts, fairness.reference)
    return {
        "format_version": 1,
        "reference": fairness.reference,
        "tokenizers": [{"name": name, "vocab_size": size} for name, size in sizes.items()],
        "unit": "declaration part" if fairness.parallel is None else "sentence",
        "sentences": found.sentences,
        "left_out": found.left_out,
        "languages": languages,
        "total": total,
    }
