"""What a run in a store says where it cannot go on: exit code and message of each case.

    store_refusals.py WORK
    store_refusals.py WORK --server localbucket=http://127.0.0.1:9000 --bucket runs

2 is for what somebody must mend first, 75 for what the same command goes on with later. A case fails if
it ends with the other code, with a traceback, or with a message that has no URL, or that has a secret.
With `--server` a run is tried at a server that ignores conditions; it must be refused. Such servers are
`localbucket` (pip) and `s3rver` (npm); the bucket is there already.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trial_lines import Trials, add_trial_options, conduct

from pipeline.state.lease import LEASE, Lease, LeaseObject
from stages.config import canonical_json
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.laws.tiny_run import TINY, write_tiny_corpus
from tests.material.fault_proxy import FaultProxy, Refusals
from tests.material.store_server import BUCKET, SECRET, StoreServer, changed_environment, shared_server

REFUSED, LATER = 2, 75
NOBODY = "http://127.0.0.1:1"
WRONG, OTHER = "wrong-secret", "S3RVER"
"""A secret that is none, and what s3rver takes for user and secret."""
ALL = ("get", "put", "put_new", "replace", "list", "delete")
SMALL_DISK = 256 << 10
"""Bytes of the disk that is full soon."""


@dataclass
class Call:
    """One call of the program."""

    url: str
    environment: dict[str, str]
    before: str = ""
    """Python that runs before the program does."""
    command: tuple[str, ...] = ("run", "run.toml", "--workers", "0", "--quiet", "--output")
    during: Callable[[], None] | None = None
    """Done while the program is at work."""
    wrapped: tuple[str, ...] = ()
    """A command that runs the program."""


Case = Callable[["Place"], contextlib.AbstractContextManager[Call]]


@dataclass
class Place:
    """Where cases are tried."""

    folder: Path
    server: StoreServer
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def call(self, **changes: str) -> Call:
        """Return a call that goes well, but for some changes of its environment."""
        return Call(f"s3://{BUCKET}/{self.name}", {**self.server.environment, **changes})

    @property
    def port(self) -> int:
        """Of the server."""
        return int(self.server.endpoint.rpartition(":")[2])


def changed(**environment: str) -> Case:
    """Return a case of another environment."""

    @contextlib.contextmanager
    def case(place: Place) -> Iterator[Call]:
        yield place.call(**environment)

    return case


def at(url: str) -> Case:
    """Return a case of another URL; NAME in it is a new name."""

    @contextlib.contextmanager
    def case(place: Place) -> Iterator[Call]:
        call = place.call()
        call.url = url.replace("NAME", place.name)
        yield call

    return case


def answered(*verbs: str, kind: str, after: int = 0) -> Case:
    """Return a case of a server that answers requests of some verbs with an error."""

    @contextlib.contextmanager
    def case(place: Place) -> Iterator[Call]:
        refusals = Refusals(0, kinds=dict.fromkeys(verbs, kind), after=after)
        with FaultProxy(place.port, refusals) as proxy:
            yield place.call(AWS_ENDPOINT_URL=proxy.endpoint)

    return case


@contextlib.contextmanager
def not_installed(place: Place) -> Iterator[Call]:
    """Have no client of stores."""
    call = place.call()
    call.before = "sys.modules['obstore'] = None; "
    yield call


@contextlib.contextmanager
def other_things(place: Place) -> Iterator[Call]:
    """Name a prefix that holds something else."""
    with changed_environment(place.server.environment):
        ObjectStore(StoreUrl("s3", BUCKET, place.name)).put_new("model.bin", b"1")
    yield place.call()


@contextlib.contextmanager
def held(place: Place) -> Iterator[Call]:
    """Begin a run where another one is at work, which renews its lease every second."""
    with changed_environment(place.server.environment):
        store = ObjectStore(StoreUrl("s3", BUCKET, place.name))
        lease = Lease(store, "other", "elsewhere", 7, period=6.0)
        lease.take(least=1, tell=print)
        yield place.call()
        lease.give_back()


@contextlib.contextmanager
def taken_over(place: Place) -> Iterator[Call]:
    """Have another process take the lease while a run is at work."""
    call = place.call()

    def take() -> None:
        store = _wait_for_lease(place)
        found = store.get(LEASE)
        assert found is not None
        lease = canonical_json(LeaseObject(epoch=9, holder="other", host="elsewhere", pid=7))
        while store.replace(LEASE, lease, found.tag) is None:
            found = store.get(LEASE)
            assert found is not None

    call.during = take
    yield call


@contextlib.contextmanager
def full_disk(place: Place) -> Iterator[Call]:
    """Have the cache on a disk that is full soon; needs the right to mount one."""
    call, cache = place.call(), place.folder / "full"
    cache.mkdir(exist_ok=True)
    mount = f'mount -t tmpfs -o size={SMALL_DISK} none {cache} && exec "$@"'
    call.wrapped = ("unshare", "-m", "sh", "-c", mount, "sh")
    call.environment["SHARDMILL_CACHE"] = str(cache)
    yield call


CASES: dict[str, tuple[int, Case]] = {
    "no such bucket": (REFUSED, at("s3://no-such-bucket/NAME")),
    "unknown user": (REFUSED, changed(AWS_ACCESS_KEY_ID="nobody")),
    "wrong secret": (REFUSED, changed(AWS_SECRET_ACCESS_KEY=WRONG)),
    "no right to write": (REFUSED, answered("put", "put_new", "replace", kind="denied")),
    "no right to read": (REFUSED, answered("get", kind="denied")),
    "no right to list": (REFUSED, answered("list", kind="denied")),
    "no right to delete": (REFUSED, answered("delete", kind="denied")),
    "no right to delete, for each object": (REFUSED, answered("delete", kind="denied_each")),
    "bucket in another region": (REFUSED, answered(*ALL, kind="moved")),
    "no credentials": (
        REFUSED,
        changed(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_METADATA_ENDPOINT=NOBODY),
    ),
    "the extra is not installed": (REFUSED, not_installed),
    "a profile that is not there": (REFUSED, changed(AWS_ACCESS_KEY_ID="", AWS_PROFILE="mine")),
    "http:// without AWS_ENDPOINT_URL": (REFUSED, changed(AWS_ENDPOINT_URL="", AWS_ENDPOINT=NOBODY)),
    "a secret in the URL": (REFUSED, at(f"s3://me:{SECRET}@{BUCKET}/NAME")),
    "a secret in AWS_ENDPOINT_URL": (REFUSED, changed(AWS_ENDPOINT_URL=f"https://me:{SECRET}@host")),
    "a query in the URL": (REFUSED, at(f"s3://{BUCKET}/NAME?X-Amz-Signature={SECRET}")),
    "a URL of no store": (REFUSED, at("ftp://host/NAME")),
    "a prefix that is too long": (REFUSED, at(f"s3://{BUCKET}/NAME/" + "/".join(["x" * 90] * 11))),
    "a prefix with other things": (REFUSED, other_things),
    "nobody answers": (LATER, changed(AWS_ENDPOINT_URL=NOBODY)),
    "no such host": (LATER, changed(AWS_ENDPOINT_URL="http://no-such-host.invalid:80")),
    "429": (LATER, answered(*ALL, kind="busy")),
    "500": (LATER, answered(*ALL, kind="broken")),
    "503 slow down": (LATER, answered(*ALL, kind="slow_down")),
    "503 after 20 requests": (LATER, answered("put", "get", kind="slow_down", after=20)),
    "token expired": (LATER, answered(*ALL, kind="expired")),
    "token expired during the run": (LATER, answered("put", "get", kind="expired", after=20)),
    "in use by another": (LATER, held),
    "lease lost": (LATER, taken_over),
    "disk of the cache full": (LATER, full_disk),
}


@contextlib.contextmanager
def _program(place: Place, call: Call) -> Iterator[Any]:
    code = (
        f"import sys; {call.before}\n"
        "from pipeline.main import main\n"
        f"sys.argv = {['shardmill', *call.command, call.url]!r}\n"
        "main()\n"
    )
    base = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(  # noqa: S603  # this program
        [*call.wrapped, sys.executable, "-c", code],
        cwd=place.folder,
        env={
            **base,
            "SHARDMILL_CACHE": str(place.folder / "cache"),
            "HOME": str(place.folder),
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            **{name: value for name, value in call.environment.items() if value},
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        yield program


def _wait_for_lease(place: Place) -> ObjectStore:
    with changed_environment(place.server.environment):
        store = ObjectStore(StoreUrl("s3", BUCKET, place.name))
        while store.get(LEASE) is None:
            time.sleep(0.02)
        return store


def try_case(place: Place, case: Case) -> dict[str, Any]:
    """Return the code and the message of a case."""
    began = time.monotonic()
    with case(place) as call, _program(place, call) as program:
        if call.during is not None:
            call.during()
        _, said = program.communicate(timeout=600)
    shutil.rmtree(place.folder / "cache", ignore_errors=True)
    secrets = [call.environment.get("AWS_SECRET_ACCESS_KEY", SECRET), SECRET]
    return {
        "code": program.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "said": said.strip()[-2_000:],
        "leaks": any(secret in said for secret in secrets if secret),
    }


def is_bad(result: dict[str, Any], wanted: int) -> bool:
    """Say whether a case ended otherwise than it must."""
    said = result["said"]
    unknown = "Traceback" in said or "unexpected error" in said or "://" not in said
    return result["code"] != wanted or unknown or result["leaks"]


def at_server(url: str, bucket: str) -> Case:
    """Return a case of another server."""

    @contextlib.contextmanager
    def case(place: Place) -> Iterator[Call]:
        call = place.call(AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID=OTHER, AWS_SECRET_ACCESS_KEY=OTHER)
        call.url = f"s3://{bucket}/{place.name}"
        yield call

    return case


def campaign(trials: Trials, *, servers: dict[str, str], bucket: str, first: int | None) -> int:
    """Try all cases, print them as a table, and return the exit code."""
    work = trials.new_folder()
    write_tiny_corpus(work / "corpus")
    text = TINY.replace('paths = ["*.jsonl"]', 'paths = ["corpus/*.jsonl"]')
    (work / "run.toml").write_text(text)
    server = shared_server(work / "server", parent=os.getpid())
    cases = dict(list(CASES.items())[:first])
    for name, url in servers.items():
        cases[f"conditions ignored: {name}"] = (REFUSED, at_server(url, bucket))
    bad = 0
    print("| case | code | seconds | message |\n|---|---|---|---|")
    for name, (wanted, case) in cases.items():
        result = trials.trial(
            name,
            lambda case=case: try_case(Place(work, server), case),  # type: ignore[misc]
            failed=lambda one, wanted=wanted: is_bad(one, wanted),  # type: ignore[misc]
        )
        wrong = is_bad(result, wanted)
        bad += wrong
        code = f"{result['code']}{f', and not {wanted}' if wrong else ''}"
        said = " ".join(result["said"].split())
        print(f"| {name} | {code} | {result['seconds']} | {said} |", flush=True)
    print(f"\n{len(cases)} cases, {bad} wrong")
    return int(bad > 0)


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument(
        "--server", action="append", default=[], metavar="NAME=URL", help="may be repeated"
    )
    parser.add_argument("--bucket", default="runs", help="of those servers [default: runs]")
    parser.add_argument("--first", type=int, metavar="N", help="cases [default: all]")
    add_trial_options(parser)
    given = parser.parse_args()
    servers = dict(one.split("=", 1) for one in given.server)
    chosen = {"servers": servers, "bucket": given.bucket, "first": given.first}
    return conduct(lambda trials: campaign(trials, **chosen), given, chosen, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
