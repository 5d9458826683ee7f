"""Tokenizer export: a folder that AutoTokenizer of transformers loads, with the ids and roles of a run.

    a run, or a tokenizer's file  ->  DIR.partial: tokenizer.json, tokenizer_config.json, ...
                                  ->  stress texts encoded with what was written, and with ours
                                  ->  DIR

Nothing is left at DIR if an id differs.

What `tokenizer export` prints: the folder, its roles, and how its ids compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.planning.existing import read_tokenizer_file
from pipeline.planning.outputs import require_local
from pipeline.report.plain import PlainConsole, print_json
from pipeline.state.atomic_write import atomic_write, partial_of
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.tokenizer.load import FOLDER, SPECIAL_IDS, model_key, special_ids_of, tokenizer_of
from pipeline.system.disk_faults import disk_faults
from pipeline.tools.tokenizer.verify import special_roles, texts_of
from stages.cleaning.text import clean_text
from stages.errors import ConfigError, VerificationError
from stages.store.digests import sync_path
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, tokenizer_in
from stages.tokenizer.framing import FrameIds, Framing, Preset, row_frame
from stages.tokenizer.hub_folder import (
    FILE,
    FolderProof,
    HubTokenizer,
    difference,
    folder_files,
    hub_tokenizer,
    prove_folder,
    run_frame,
    unigram_scores,
)
from stages.tokenizer.roles import find_roles, framed_roles, require_roles
from stages.tokenizer.stress import stress_texts


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


NOTHING: Literal["none"] = "none"
"""The framing that puts nothing around texts."""


@dataclass(frozen=True)
class OpenedTokenizer:
    """A tokenizer as a run uses it, and what a folder of it holds."""

    hub: HubTokenizer
    tokenizer: Tokenizer
    frame: FrameIds | None


def export_tokenizer(
    model: str | Path,
    to: str | Path,
    *,
    framing: str | None = None,
    special: Sequence[str] = (),
    split_special: bool = False,
    texts: Sequence[str | Path] = (),
) -> TokenizerExport:
    """Write a folder that AutoTokenizer of transformers loads, and return what was written.

    Args:
        model: folder of a run, or a tokenizer's file.
        to: folder to write; must not be there.
        framing: what is put around texts: a preset, or "none"; None takes that of the run or the file.
        special: special ids of a file, such as "eos=</s>".
        split_special: whether special tokens that a text writes out are taken for text.
        texts: files of further texts whose ids are compared.

    Raises:
        ShardmillError: there is no such tokenizer, it cannot be converted, or an id differs.
    """
    model, to = Path(model), require_local(Path(to), "DIR")
    if to.is_symlink() or (to.exists() and not (to.is_dir() and not any(to.iterdir()))):
        raise ConfigError(f"DIR {to}: is there and not empty; choose another folder")
    opened = opened_tokenizer(model, framing=framing, special=special)
    hub, frame = opened.hub, opened.frame
    files = folder_files(hub, frame, split_special=split_special)
    pieces = [piece for number, piece in hub.pieces.items() if number != opened.tokenizer.unk]
    every = [text for group in stress_texts(pieces).values() for text in group]
    every += [clean_text(text) for path in texts for text in texts_of(Path(path))]
    with disk_faults(partial_of(to)), atomic_write(to, option="DIR", names=files) as partial:
        for name, data in files.items():
            (partial / name).write_bytes(data)
            sync_path(partial / name)
        written = (partial / FILE).read_bytes()
        proof = prove_folder(written, opened.tokenizer, frame, every, scores=unigram_scores(hub))
        if proof.differ:
            raise VerificationError(
                f"{model}: tokenizer export: {difference(proof, hub)}; nothing was left at {to}"
            )
    return TokenizerExport(model, to, tuple(files), hub.ids, frame, proof, split_special)


def opened_tokenizer(
    model: Path, *, framing: str | None = None, special: Sequence[str] = ()
) -> OpenedTokenizer:
    """Return the tokenizer of a run or a file; see `export_tokenizer` for arguments and errors."""
    root = model.parent if model.name == FOLDER else model
    if (root / SPECIAL_IDS).exists():
        return _of_run(root, framing, special)
    return _of_file(model, framing, special)


def _of_run(root: Path, framing: str | None, special: Sequence[str]) -> OpenedTokenizer:
    if special:
        raise ConfigError(
            f"--special {special[0]}: {root} is a run, which has its special ids; leave it out"
        )
    if framing not in {None, NOTHING}:
        raise ConfigError(
            f"--framing {framing}: {root} is a run, which has a framing of its own; leave it"
            f" out, or write --framing {NOTHING}"
        )
    key, ids, tokenizer = model_key(root), special_ids_of(root), tokenizer_of(root)
    kind, data = TokenizerKind(Path(key).name), (root / key).read_bytes()
    hub = hub_tokenizer(kind, data, ids, spaces=tokenizer.exact, name=str(root / key))
    return OpenedTokenizer(hub, tokenizer, _frame_of_run(root, ids, framing))


def _frame_of_run(root: Path, ids: dict[str, int], framing: str | None) -> FrameIds:
    """Return what a run puts around a document, or around a row if it frames rows."""
    if framing == NOTHING:
        return _nothing()
    rows = row_frame(RunFolder(root).file.framing, ids)
    return run_frame(ids) if rows is None else FrameIds(rows.get("begin"), rows["end"])


def _of_file(model: Path, framing: str | None, special: Sequence[str]) -> OpenedTokenizer:
    key = str(model)
    path, (kind, data, _) = read_tokenizer_file(model, key, base=Path.cwd())
    description = describe(data, kind, name=key)
    found = find_roles(description, special_roles(tuple(special)), name=path.name)
    require_roles(found, ["eos"], who="tokenizer export", name=path.name)
    frame = _nothing() if framing == NOTHING else None
    if framing not in {None, NOTHING}:
        preset = Framing(preset=_preset(str(framing)))
        found = framed_roles(description, found, preset, name=path.name)
        frame = run_frame(found.ids)
    ids = {"pad": found.ids["eos"], **found.ids}
    tokenizer = tokenizer_in(path, data, kind, ids, name=key).unguarded()
    hub = hub_tokenizer(kind, data, ids, spaces=tokenizer.exact, name=key)
    return OpenedTokenizer(hub, tokenizer, frame)


def _nothing() -> FrameIds:
    return FrameIds(None, None)


def _preset(name: str) -> Preset:
    try:
        return Preset(name)
    except ValueError as error:
        known = [*Preset, NOTHING]
        raise ConfigError(f"--framing {name}: no such preset; presets: {', '.join(known)}") from error
