r"""Other users: commands and `open_dataset` as a user without a home, of a program that root installed.

    python benchmarks/other_users.py WORK --json users.json           as root: it changes users

WORK must not be there, and every folder above it must be open to all. The places: no HOME; `/` as HOME;
and a machine of which no folder but the run's can be written, neither HOME nor /tmp. That is what
`docker run -u`, a read-only root, `DynamicUser` and cron give.

Passes if each call ends with the code that root's has, makes the same artifacts, says nothing of a bug,
tells at most once that kernels are not kept, and leaves no folder of kernels. It also tells the seconds
to the first batch of `open_dataset`, with kernels that are kept and without: medians of 5.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from digests import differences, file_digests
from door_material import campaign_main, write_material

USER = 12345
PROGRAM = Path(__file__).resolve().parent.parent
_AS_USER = [
    *("setpriv", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
    *("--reuid", str(USER), "--regid", str(USER), "--clear-groups"),
]
"""The program and Python may lie below a folder of root's: they are read, and not written."""
_READ_ONLY = (
    "for place in /tmp /var/tmp; do mount --bind $place $place && mount -o remount,ro,bind $place; done;"
    ' exec "$@"'
)
PLACES: dict[str, dict[str, str]] = {
    "no home": {},
    "home is /": {"HOME": "/"},
    "no place at all": {"HOME": "/nonexistent"},
}
_FIRST_BATCH = (
    "import time; began = time.perf_counter(); import shardmill;"
    " batches = shardmill.open_dataset('run/datasets/clm').batches(4, seed=1); next(iter(batches));"
    " print(time.perf_counter() - began)"
)
_TURNS = 5
COMMANDS: dict[str, list[str]] = {
    "init": ["init", "corpus", "-o", "made.toml"],
    "schema": ["schema"],
    "plan": ["plan", "run.toml", "-o", "run"],
    "forecast": ["plan", "run.toml", "-o", "run", "--sample", "50%"],
    "run": ["run", "run.toml", "-o", "run", "--workers", "0"],
    "run on Ray": ["run", "run.toml", "-o", "run-ray", "--workers", "2"],
    "status": ["status", "run"],
    "verify": ["verify", "run", "--workers", "0"],
    "inspect": ["inspect", "run", "--dataset", "clm"],
    "clusters": ["inspect", "run", "--clusters"],
    "export": ["export", "run", "--dataset", "clm", "--format", "nanogpt", "--to", "nanogpt"],
    "quick": [
        *("quick", "corpus/*.jsonl", "--tokenizer", "run/tokenizer/tokenizer.model", "--workers", "0"),
        *("--format", "megatron", "--to", "quick"),
    ],
    "compare": ["compare", "run", "--tokens", "2000"],
    "tokenizer verify": ["tokenizer", "verify", "run/tokenizer/tokenizer.model"],
    "tokenizer compare": ["tokenizer", "compare", "run/tokenizer/tokenizer.model"],
    "tokenizer export": ["tokenizer", "export", "run", "auto"],
}


@dataclass
class Case:
    """One command in one place."""

    place: str
    command: str
    code: int = 0
    wanted: int = 0
    said: str = ""
    faults: list[str] = field(default_factory=list)


def call(words: list[str], folder: Path, place: str | None) -> subprocess.CompletedProcess[str]:
    """Call Python in a folder, as the user in a place, or as root if there is none."""
    command = [sys.executable, *words]
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": str(PROGRAM)}
    if place is None:
        environment["HOME"] = str(Path.home())
    else:
        command = [*_AS_USER, *command]
        environment |= PLACES[place]
        if place == "no place at all":
            command = ["unshare", "--mount", "sh", "-c", _READ_ONLY, "sh", *command]
    return subprocess.run(  # noqa: S603  # ours
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


def _prepare(folder: Path, *, user: bool) -> Path:
    write_material(folder)
    if user:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER, USER)
    return folder


def looked_at(case: Case, root: Path, folder: Path) -> Case:
    """Call a command as the user, and hold it to what root got."""
    words = ["-m", "pipeline.main", *COMMANDS[case.command]]
    kernels = set(Path(tempfile.gettempdir()).glob("shardmill-kernels-*"))
    wanted = (root / f"{case.command}.code").read_text()
    done = call(words, folder, case.place)
    case.code, case.wanted, case.said = done.returncode, int(wanted), done.stderr[-300:]
    if case.code != case.wanted:
        case.faults.append("another code")
    if "bug" in done.stderr or "Traceback" in done.stderr:
        case.faults.append("a bug, it says")
    if done.stderr.count("compiled kernels cannot be kept") > 1:
        case.faults.append("tells it more than once")
    if set(Path(tempfile.gettempdir()).glob("shardmill-kernels-*")) - kernels:
        case.faults.append("leaves kernels")
    for name in ("run", "run-ray"):
        if case.command.startswith("run") and (folder / name).exists():
            case.faults += differences(file_digests(folder / name), file_digests(root / name))
    return case


def first_batch(folder: Path, place: str | None) -> str:
    """Return the seconds to the first batch."""
    found = []
    for _ in range(_TURNS):
        done = call(["-c", _FIRST_BATCH], folder, place)
        if done.returncode:
            return f"FAIL: {done.stderr[-300:]}"
        found.append(float(done.stdout.split()[-1]))
    return f"{median(found):.2f} s"


def campaign(work: Path, *, number: int, seed: int) -> dict[str, Any]:
    """Call all commands in all places, and return what came of it."""
    del number, seed
    if os.geteuid() or shutil.which("setpriv") is None or shutil.which("unshare") is None:
        sys.exit("other_users.py: it needs root, setpriv and unshare, to become another user")
    work.mkdir()
    root = _prepare(work / "root", user=False)
    for command, words in COMMANDS.items():
        began = time.perf_counter()
        done = call(["-m", "pipeline.main", *words], root, None)
        (root / f"{command}.code").write_text(str(done.returncode))
        print(f"root: {command}: {done.returncode}, {time.perf_counter() - began:.1f} s", flush=True)
    cases = []
    batches = {"root": first_batch(root, None)}
    for place in PLACES:
        folder = _prepare(work / place.replace(" ", "-").replace("/", "root"), user=True)
        for command in COMMANDS:
            if "Ray" in command and place == "no place at all":
                continue  # Ray's sockets lie in /tmp
            cases.append(looked_at(Case(place, command), root, folder))
            print(f"{place}: {command}: {cases[-1].code} {cases[-1].faults}", flush=True)
        batches[place] = first_batch(folder, place)
    failed = [f"first batch, {place}: {one}" for place, one in batches.items() if "FAIL" in one]
    return {
        "calls": len(cases),
        "commands": len(COMMANDS),
        "codes": {name: (root / f"{name}.code").read_text() for name in COMMANDS},
        "first batch": batches,
        "faulty": [*(asdict(case) for case in cases if case.faults), *failed],
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=0)


if __name__ == "__main__":
    sys.exit(main())
