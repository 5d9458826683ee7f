"""The tokenizer of an export: a folder that AutoTokenizer loads, made of the run's file.

    tokenizer/    `stages.tokenizer.hub_folder`, if a proof finds the ids of the run

Documents of the data are framed already. What is encoded with the folder is mostly a prompt. So it puts
before a text what begins a document, and no EOS behind it, unless the dataset is for models that read
whole texts. This imports from `stages.tokenizer`, which says how a folder is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stages.errors import FormatError
from stages.export.format import quoted
from stages.export.source import ExportSource
from stages.store.manifest import Manifest
from stages.stores.mounts import here
from stages.tokenizer.existing import TokenizerKind, open_tokenizer
from stages.tokenizer.framing import BEGIN, FrameIds
from stages.tokenizer.hub_folder import (
    FILE,
    HubTokenizer,
    difference,
    folder_files,
    hub_tokenizer,
    prove_folder,
    unigram_scores,
)
from stages.tokenizer.stress import stress_texts

CARRIED = "tokenizer"
"""The folder's name in an export."""
CARRIED_FILE = f"{CARRIED}/{FILE}"
"""The file in it that every such folder has."""
_STRINGS = 140
"""Random strings of the proof: `tokenizer export` draws thousands."""
_WRITTEN_OUT = ("bos", "eos", "pad", "mask")
"""Special pieces that texts of the proof write out."""
_CONTINUED = ("causal", "prefix")
"""Attention of models that go on with a text."""


@dataclass(frozen=True)
class CarriedTokenizer:
    """What an export holds of a tokenizer beside its file."""

    notes: tuple[str, ...]
    """For people, a sentence or two each."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """By their names in the export; none if there is no such folder."""


def carried_frame(manifest: Manifest) -> FrameIds:
    """Return what the folder puts around a text.

    That is the frame of documents or of rows, but without an end where models go on with a text.
    """
    ids = manifest.special_ids
    sides = manifest.row_frame or {"end": ids["eos"], **({"begin": ids[BEGIN]} if BEGIN in ids else {})}
    open_ended = manifest.attention.startswith(_CONTINUED)
    return FrameIds(sides.get("begin"), None if open_ended else sides["end"])


def carried_tokenizer(source: ExportSource, data: bytes) -> CarriedTokenizer:
    """Return the folder of a dataset's tokenizer, or why there is none.

    Args:
        source: of the dataset.
        data: the tokenizer's file, whose digest was checked.
    """
    manifest, file = source.manifest, source.tokenizer
    place = here((source.reader.folder / manifest.tokenizer.file).resolve())
    frame = carried_frame(manifest)
    try:
        kind = TokenizerKind(file)
        opened = open_tokenizer(place, manifest.special_ids).unguarded()
        hub = hub_tokenizer(kind, data, manifest.special_ids, spaces=opened.exact, name=file)
        files = folder_files(hub, frame)
        proof = prove_folder(files[FILE], opened, frame, _texts(hub), scores=unigram_scores(hub))
        why = difference(proof, hub) if proof.differ else None
    except FormatError as error:
        why = str(error).replace(str(place), file)
    if why is not None:
        return CarriedTokenizer((f"There is no folder for AutoTokenizer of transformers: {why}.",))
    return CarriedTokenizer(
        tuple(_notes(frame, hub)), {f"{CARRIED}/{name}": content for name, content in files.items()}
    )


def read_carried(folder: str) -> str:
    """Return the Python that loads the folder.

    Args:
        folder: of the export.
    """
    place = quoted(f"{folder}/{CARRIED}")
    return "\n".join(
        (
            "from transformers import AutoTokenizer",
            "",
            f"tokenizer = AutoTokenizer.from_pretrained({place})",
        )
    )


def _texts(hub: HubTokenizer) -> list[str]:
    pieces = [hub.pieces[hub.ids[role]] for role in _WRITTEN_OUT if role in hub.ids]
    groups = stress_texts(dict.fromkeys(pieces), strings=_STRINGS)
    return [text for group in groups.values() for text in group]


def _notes(frame: FrameIds, hub: HubTokenizer) -> Iterator[str]:
    """Say what the folder is, and what it puts around a text."""
    yield (
        f"{CARRIED}/ is a folder for AutoTokenizer of transformers, with the ids and special tokens of"
        f" the data; {hub.kind} is the file that the run used."
    )
    before, behind = (
        "nothing" if number is None else f"{hub.pieces[number]} (id {number})" for number in frame
    )
    eos = hub.ids["eos"]
    yield (
        f"It puts {before} before a text and {behind} behind it"
        + (f": a prompt goes on. To close a document, append {eos}." if frame.end is None else ".")
    )
    yield (
        "It takes special tokens that a text writes out for special tokens, as transformers does. The"
        " data has none that come from text: pass split_special_tokens=True for texts of strangers."
    )
