"""What `tokenizer export` prints: the folder, its roles, and how its ids compare."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.report.plain import PlainConsole, print_json
from stages.tokenizer.framing import FrameIds
from stages.tokenizer.hub_folder import FolderProof


@dataclass(frozen=True)
class TokenizerExport:
    """What `tokenizer export` wrote."""

    model: Path
    to: Path
    files: tuple[str, ...]
    special: Mapping[str, int]
    """By role."""
    frame: FrameIds | None
    """Put around texts; None if the file says itself what is."""
    proof: FolderProof
    split_special: bool


def content_of_export(found: TokenizerExport) -> dict[str, Any]:
    """Return an export as JSON has it."""
    return {
        "model": str(found.model),
        "to": str(found.to),
        "files": list(found.files),
        "special_ids": dict(found.special),
        "frame": None if found.frame is None else found.frame._asdict(),
        "split_special_tokens": found.split_special,
        "proof": asdict(found.proof),
    }


def print_export(found: TokenizerExport, *, as_json: bool) -> None:
    """Print what was written."""
    if as_json:
        print_json(content_of_export(found))
        return
    console, proof = PlainConsole(), found.proof
    console.line(f"{found.to}: {', '.join(found.files)}")
    console.line(
        f"{proof.texts - proof.special:,} comparisons of ids, {proof.differ:,} differ; {proof.special:,}"
        " left out, because the library reads a special token in the text"
    )
    if proof.ties:
        console.line(f"of these, {proof.ties:,} are cut in another way of the same score")
    console.line()
    console.line("from transformers import AutoTokenizer")
    console.line(f"tokenizer = AutoTokenizer.from_pretrained({str(found.to)!r})")
