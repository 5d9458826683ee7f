"""Dialogues: the ids of the token store against dialogues, section by section.

encoded    the ids of each section are those that it gives when it is encoded once more
spelled    they spell it, control ids their pieces; as `decode.texts` has it
learned    the sections that are learned are those of ingest
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.decode.texts import Returned, StoredTexts
from pipeline.steps.tokenize.dialogues import encoded_sections, normalised_texts, sections_in
from pipeline.steps.tokenizer.load import CHECK, load_markup
from pipeline.steps.units import joined_sections, section_flags, section_ptr, sections_of
from stages.chat.template import LEARNED
from stages.findings import Finding
from stages.ragged import runs
from stages.tokenizer.markup import MarkupEncoder
from stages.tokenizer.spelling import Stored
from stages.tokenizer.texts import Encoded

_SECTIONS, _LEARNED, _TEXT, _PIECES = "sections", "learned", "text", "pieces"
_SAID = {
    _TEXT: "do not decode to their text",
    _PIECES: "have other ids than the tokenizer gives of their sections",
    _SECTIONS: "are cut into other sections than ingest has them",
    _LEARNED: "have other sections that are learned than ingest has them",
}


def compare_dialogues(
    workspace: Workspace, stored: StoredTexts, returned: Counter[str]
) -> Iterator[tuple[str, Finding]]:
    """Yield what is wrong of the ids of a unit's dialogues, each with its file.

    Args:
        workspace: where texts and tokenizer are.
        stored: the documents.
        returned: gets how documents come back, of an existing tokenizer.
    """
    encoder = load_markup(workspace, stored.unit.source, use=CHECK)
    wrong: dict[str, list[int]] = {name: [] for name in _SAID}
    for part, numbers in stored.kept(workspace):
        ptr = section_ptr(part)
        others = np.diff(ptr) != np.diff(stored.sections.ptr)[numbers]
        if others.any():
            wrong[_SECTIONS] += numbers[others].tolist()
            continue
        flags = stored.learned_of(numbers) != (section_flags(part) & LEARNED != 0)
        wrong[_LEARNED] += numbers[np.logical_or.reduceat(flags, ptr[:-1])].tolist()
        ids = stored.ids(numbers)
        encoded = encoded_sections(encoder, joined_sections(part), part, dtype=ids.ids.dtype)
        same = np.logical_and.reduceat(_are_same(ids, encoded), ptr[:-1])
        kinds = _come_back(encoder, part, encoded, ptr)
        wrong[_PIECES] += numbers[~same].tolist()
        if encoder.tokenizer.exact:
            wrong[_TEXT] += numbers[same & (kinds == _ENCODED)].tolist()
        else:
            returned.update(_KINDS[kind].value for kind in kinds[same].tolist())
    for name, found in wrong.items():
        if found:
            yield stored.finding(name, np.array(found, np.int64), _SAID[name])


_KINDS = (Returned.TEXT, Returned.NORMALISED, Returned.ENCODED)
_ENCODED = _KINDS.index(Returned.ENCODED)


def _are_same(stored: Stored, encoded: Encoded) -> NDArray[np.bool_]:
    """Say of which sections the stored ids are those of the text: (S,)."""
    counts = stored.ends - stored.begins
    same: NDArray[np.bool_] = counts == encoded.counts
    chosen = np.flatnonzero(same)
    begins = (encoded.ends - encoded.counts)[chosen]
    differ = (
        stored.ids[runs(stored.begins[chosen], counts[chosen])]
        != encoded.ids[runs(begins, counts[chosen])]
    )
    owner = np.repeat(chosen, counts[chosen])
    same[owner[differ]] = False
    return same


def _come_back(
    encoder: MarkupEncoder, part: pa.Table, encoded: Encoded, ptr: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how documents come back from their ids, as numbers of `_KINDS`: (N,)."""
    sections = [encoder.spell(ids).tobytes() for ids in encoded.parts()]
    texts, normalised = part.column("text").to_pylist(), normalised_texts(encoder, part)
    found, bare = np.zeros(len(texts), np.int64), sections
    if encoder.varies:
        own_texts = [text for own in sections_of(part) for text in own]
        bare = encoder.bare(sections_in(part, own_texts))
    for number, (text, left) in enumerate(zip(texts, normalised, strict=True)):
        own = slice(ptr[number], ptr[number + 1])
        spelled, plain = b"".join(sections[own]), b"".join(bare[own])
        wanted = text.encode()
        if wanted not in (spelled, plain):
            found[number] = 1 if left.encode() in (spelled, plain) else _ENCODED
    return found
