"""Where another user calls commands: the places, the commands, what they find. For other_users.py.

A place has the folder of the campaign at /mnt, and a /tmp and a /var/tmp of its own; nothing outside
sees them, and they go with the last process in them.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stages.export.table import FORMATS
from stages.export.texts import TEXT_FORMATS
from tests.material.door_material import write_material
from tests.material.words import WORDS

USER = 12345
_TOOLS = ("setpriv", "unshare", "mount", "find")
_HIDDEN = ("/tmp", "/var/tmp", "/mnt")  # noqa: S108  # places have others there
_PROGRAM = Path(__file__).resolve().parents[2]
_AS_USER = [
    *("setpriv", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
    *("--reuid", str(USER), "--regid", str(USER), "--clear-groups"),
]
"""The program and Python may lie below a folder of root's: they are read, and not written."""
_ENTER = r"""
mount --bind "$1" /mnt && mount -t tmpfs -o "$2" users /tmp && mount --bind /tmp /var/tmp || exit 99
cd "$3" && shift 3 && "$@"; code=$?
find /tmp /mnt /mnt/t -maxdepth 1 -name 'shardmill*' -printf 'left: %p\n' >&2
exit $code
"""
LEFT = "left: "
_NONE = "mode=0755"
"""Options of a /tmp that root alone may write."""
_LARGE = ("plan --sample", "tokenizer sweep")
"""Commands that make a run in a temporary folder."""
_MODEL_UNPACKED = "run, more steps"
"""It fills in languages: the library that detects them unpacks its model into a temporary file."""
_TRANSFORMERS = "compare --from"
"""It loads a model: its library wants a temporary folder."""
_NO_FOLDER = (2, "set TMPDIR to one")
_NO_RUN = {"export megatron-sentences": (2, "run-more")}
"""What that run would have been for."""


@dataclass(frozen=True)
class Place:
    """What a user finds."""

    environment: dict[str, str]
    temporary: str = "mode=1777,size=2g"
    """Options of /tmp."""
    folder: str = "/mnt"
    """The current one."""
    refused: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Commands that need more than there is: of each its code, and what it says."""


ROOT = Place({"HOME": str(Path.home())})
KEPT = Place({"NUMBA_CACHE_DIR": "/mnt/kernels"})
"""What the note about kernels advises."""
PLACES = {
    "no home": Place({}),
    "HOME=/": Place({"HOME": "/"}),
    "small /tmp": Place(
        {"HOME": "/nonexistent"},
        temporary="mode=1777,size=1m",
        refused={
            **dict.fromkeys(_LARGE, (75, "the disk is full")),
            _MODEL_UNPACKED: (75, "set TMPDIR to another folder"),
            **_NO_RUN,
        },
    ),
    "no folder": Place(
        {"HOME": "/nonexistent"},
        temporary=_NONE,
        folder="/",
        refused={
            **dict.fromkeys((*_LARGE, _TRANSFORMERS, _MODEL_UNPACKED, "run on Ray"), _NO_FOLDER),
            "tokenizer resize": (2, "no such file or folder"),  # of the model that is not made
            **_NO_RUN,
        },
    ),
    "TMPDIR": Place({"HOME": "/nonexistent", "TMPDIR": "/mnt/t"}, temporary=_NONE, folder="/"),
}
RUNS = ("run", "run-ray", "run-more")
MADE = "made"
"""Folder of files that have the same bytes wherever they were made."""
_RUN, _MODEL = "/mnt/run", "/mnt/run/tokenizer/tokenizer.model"
_WORDS = {
    "schema": "schema",
    "init": "init /mnt/corpus -o /mnt/made/init.toml",
    "plan": f"plan /mnt/run.toml -o {_RUN}",
    "plan --sample": f"plan /mnt/run.toml -o {_RUN} --sample 50%",
    "run": f"run /mnt/run.toml -o {_RUN} --workers 0",
    "run on Ray": "run /mnt/run.toml -o /mnt/run-ray --workers 2",
    "run, more steps": "run /mnt/run.toml -o /mnt/run-more --workers 0 --set dedup.semantic={}"
    ' --set filters=[{kind="language",fill=true}]'
    ' --set datasets=[{name="clm"},{name="sop",objective={kind="sop"}},'
    '{name="mlm",objective={kind="mlm"}}]',
    "launch slurm": f"launch slurm /mnt/run.toml -o {_RUN} --nodes 2 --dry-run",
    "status": f"status {_RUN}",
    "verify": f"verify {_RUN} --workers 0",
    "inspect": f"inspect {_RUN}",
    "inspect --clusters": f"inspect {_RUN} --clusters",
    "quick": f"quick /mnt/corpus/*.jsonl --tokenizer {_MODEL} --format megatron --to /mnt/made/quick"
    " --work /mnt/quick --workers 0",
    "compare": f"compare {_RUN} --tokens 2000",
    "compare --from": f"compare {_RUN} --tokens 2000 --from /mnt/model -o /mnt/compared --save",
    "tokenizer verify": f"tokenizer verify {_MODEL}",
    "tokenizer compare": f"tokenizer compare {_MODEL}",
    "tokenizer sweep": "tokenizer sweep /mnt/run.toml --sizes 600 --alphas 1.0",
    "tokenizer extend": f"tokenizer extend {_MODEL} --text /mnt/new.jsonl --pieces 3"
    " --output /mnt/made/new.model",
    "tokenizer resize": f"tokenizer resize /mnt/compared/weights/clm/seed-1 --old {_MODEL}"
    " --new /mnt/made/new.model --output /mnt/made/resized",
    "tokenizer export": f"tokenizer export {_RUN} /mnt/made/tokenizer",
}
_SOURCES = {"megatron-sentences": "/mnt/run-more --dataset sop"}
"""Of formats that do not take the first run."""
_EXPORTS = {
    f"export {name}": f"export {_SOURCES.get(name, _RUN)} --format {name} --to /mnt/made/{name}"
    for name in (*FORMATS, *TEXT_FORMATS)
}
COMMANDS = {name: words.split() for name, words in (_WORDS | _EXPORTS).items()}
"""In an order in which each finds what it needs."""
_MODEL_CONFIG = """
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 620, "n_embd": 16,
 "n_layer": 1, "n_head": 2, "n_positions": 64}
"""


def refusal() -> str | None:
    """Return why nobody can become another user here, or None."""
    if os.geteuid() or not all(map(shutil.which, _TOOLS)):
        return f"it needs root, and {', '.join(_TOOLS)}"
    for needed in (_PROGRAM, Path(sys.prefix), Path(sys.base_prefix)):
        if any(needed.is_relative_to(hidden) for hidden in _HIDDEN):
            return f"{needed}: the program and Python must not be below {', '.join(_HIDDEN)}"
    tried = subprocess.run(  # ours
        ["unshare", "--mount", *_AS_USER, "true"],  # noqa: S607  # of the system
        capture_output=True,
        text=True,
        check=False,
    )
    return (
        f"it must mount, and become another user: {tried.stderr.strip()}" if tried.returncode else None
    )


def prepare(folder: Path, owner: int) -> Path:
    """Make a folder with what the commands need, and give it to its owner."""
    write_material(folder)
    for name in (MADE, "model", "t", "kernels"):
        (folder / name).mkdir(mode=0o700)
    (folder / "model" / "config.json").write_text(_MODEL_CONFIG, encoding="utf-8")
    texts = [" ".join(word[::-1] for word in WORDS[number % 7 :]) for number in range(40)]
    lines = [json.dumps({"text": text, "lang": "en"}) + "\n" for text in texts]
    (folder / "new.jsonl").write_text("".join(lines), encoding="utf-8")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner)
    return folder


def call(words: Sequence[str], folder: Path, place: Place) -> subprocess.CompletedProcess[str]:
    """Call Python in a place with this folder: as the user, but as root in root's own."""
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": str(_PROGRAM)}
    enter = ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(folder), place.temporary, place.folder]
    return subprocess.run(  # ours
        [*enter, *([] if place is ROOT else _AS_USER), sys.executable, *words],
        env=environment | place.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1_800,
    )
