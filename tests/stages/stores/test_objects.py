"""What an object store promises: six verbs, whole objects, and one winner where two write.

The server is a real one, on loopback.
"""

import os
import threading
import time
import uuid
from pathlib import Path

import pytest

from pipeline.state.probing import probe
from stages.errors import ConfigError, NoRightError, Stopped
from stages.stores import bucket
from stages.stores.bucket import PART_BYTES
from stages.stores.faults import Answer
from stages.stores.objects import ObjectStore
from stages.stores.outages import telling_of_outages
from stages.stores.store import FoundObject, Listed
from stages.stores.url import StoreUrl
from tests.material.fault_proxy import VERBS, FaultProxy, Refusals
from tests.material.store_server import BUCKET, StoreServer

pytest.importorskip("obstore")


@pytest.fixture
def store(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An empty place in the bucket."""
    for name, value in store_server.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectStore(StoreUrl("s3", BUCKET, uuid.uuid4().hex))


def test_what_is_put_is_there_whole_and_in_ranges(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(100)))
    tag = store.put("a/b.npy", file)
    assert store.get("a/b.npy") == FoundObject(bytes(range(100)), tag)
    for begin, end in ((0, 1), (10, 20), (90, 200), (30, None), (5, 5), (100, 101), (200, 300)):
        found = store.get("a/b.npy", begin, end)
        assert found is not None
        assert found.data == bytes(range(100))[begin:end]
    assert store.get("a/b") is None
    assert store.get("a") is None
    file.write_bytes(b"other")
    other = store.put("a/b.npy", file)
    assert other != tag
    assert store.get("a/b.npy") == FoundObject(b"other", other)


def test_a_file_of_more_than_a_part_is_put_whole(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(1 << 20) * (PART_BYTES // (1 << 20)) + b"behind")
    store.put("large", file)
    found = store.get("large", PART_BYTES - 4, PART_BYTES + 6)
    assert found is not None
    assert found.data == file.read_bytes()[PART_BYTES - 4 :]
    assert [one.size for one in store.list("")] == [PART_BYTES + 6]


def test_an_object_is_created_once_and_its_own_bytes_are_no_other_s(store: ObjectStore) -> None:
    tag = store.put_new("log/1", b"mine")
    assert tag is not None
    assert store.put_new("log/1", b"mine") == tag
    assert store.put_new("log/1", b"theirs") is None
    assert store.get("log/1") == FoundObject(b"mine", tag)


def test_an_object_is_replaced_by_who_knows_its_tag(store: ObjectStore) -> None:
    first = store.put_new("lease", b"1")
    assert first is not None
    second = store.replace("lease", b"2", first)
    assert second is not None
    assert store.replace("lease", b"3", first) is None
    assert store.get("lease") == FoundObject(b"2", second)
    assert store.replace("lease", b"2", first) == second, "it is there: the answer may have been lost"
    assert store.replace("nothing", b"3", first) is None


def test_of_many_who_create_an_object_one_does(store: ObjectStore) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if store.put_new("log/1", str(number).encode()) is not None:
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    found = store.get("log/1")
    assert found is not None
    assert found.data == str(winner).encode()


def test_a_listing_is_sorted_and_of_one_place_alone(store: ObjectStore) -> None:
    for key in ("run/b", "run/a/c", "run2/a", "run/a/b"):
        store.put_new(key, key.encode())
    assert [one.key for one in store.list("run")] == ["run/a/b", "run/a/c", "run/b"]
    assert [one.key for one in store.list("run/a")] == ["run/a/b", "run/a/c"]
    assert len(list(store.list(""))) == 4
    assert list(store.list("ru")) == []
    (one,) = store.list("run2")
    found = store.get("run2/a")
    assert found is not None
    assert one == Listed("run2/a", 6, found.tag)


def test_what_is_deleted_is_gone_and_may_have_been_gone_before(store: ObjectStore) -> None:
    store.put_new("a", b"1")
    store.put_new("b", b"1")
    store.delete(["a", "never/there"])
    store.delete([])
    assert store.get("a") is None
    assert [one.key for one in store.list("")] == ["b"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait."""
    monkeypatch.setattr(bucket, "_WAITS", (0.0,))
    monkeypatch.setattr(bucket, "_RETRIES", {**bucket._RETRIES, "max_retries": 0})  # noqa: SLF001  # its own


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, ConfigError, "403 SignatureDoesNotMatch .* credentials"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, ConfigError, "403 InvalidAccessKeyId .* credentials"),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
            Stopped,
            r"no answer \(Connection refused\); the same command goes on",
        ),
    ],
)
def test_what_a_server_refuses_is_told_with_the_url_and_the_way_out(
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    error: type[Exception],
    said: str,
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(store.url)
    for ask in (
        lambda: store.get("a"),
        lambda: store.put_new("a", b"1"),
        lambda: list(store.list("")),
        lambda: store.delete(["a"]),
    ):
        with pytest.raises(error, match=f"^{store.place}.*{said}") as found:
            ask()
        assert not {"wrong", "nobody"} & set(str(found.value).split())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        ("moved", ConfigError, "301 PermanentRedirect .* another region: set AWS_REGION"),
        ("denied", NoRightError, "403 AccessDenied .* do not allow it"),
        ("unable", ConfigError, "501 NotImplemented .* use another"),
        ("expired", Stopped, "400 ExpiredToken .* renew them, and run again"),
        ("busy", Stopped, "429 TooManyRequests .* the same command goes on"),
        ("slow_down", Stopped, "503 SlowDown .* the same command goes on"),
    ],
)
def test_what_will_not_pass_is_told_from_what_may(
    store_server: StoreServer,
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    error: type[Exception],
    said: str,
) -> None:
    port = int(store_server.endpoint.rpartition(":")[2])
    with FaultProxy(port, Refusals(0, kinds=dict.fromkeys(VERBS, kind))) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        asked = ObjectStore(store.url)
        for ask in (
            lambda: asked.get("a"),
            lambda: asked.put_new("a", b"1"),
            lambda: list(asked.list("")),
            lambda: asked.delete(["a"]),
        ):
            with pytest.raises(error, match=f"^{store.place}.*{said}"):
                ask()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (
            "denied_each",
            NoRightError,
            "need.* right to delete objects.* 200 AccessDenied .* not allow it",
        ),
        ("slow_each", Stopped, r"200 SlowDown \(drawn\); the same command goes on"),
        ("broken_each", Stopped, r"200 InternalError \(drawn\); the same command goes on"),
    ],
)
def test_what_is_said_of_each_object_that_is_not_deleted_is_the_answer(
    store_server: StoreServer,
    store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    error: type[Exception],
    said: str,
) -> None:
    refusals = Refusals(0, kinds={"delete": kind})
    with FaultProxy(int(store_server.endpoint.rpartition(":")[2]), refusals) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        with pytest.raises(error, match=f"^{store.place}: .*{said}"):
            probe(ObjectStore(store.url))
    assert refusals.requests["delete"] == (1 if error is NoRightError else bucket.ATTEMPTS)
    assert list(store.list("")) == []


def test_who_watches_is_told_once_of_requests_that_wait(
    store: ObjectStore, store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_WAITS", (0.0,))
    monkeypatch.setattr(bucket, "_RETRIES", {"max_retries": 0})
    said: list[str] = []
    port = int(store_server.endpoint.rpartition(":")[2])
    with FaultProxy(port, Refusals(0, kinds={"get": "slow_down"})) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        asked = ObjectStore(store.url)
        with telling_of_outages(said.append), pytest.raises(Stopped):
            asked.get("a")
        for _ in range(2):
            with pytest.raises(Stopped):
                asked.get("b")
    assert len(said) == 1
    assert said[0].startswith(f"{store.place}/a: the server said 503 SlowDown")
    assert "it is tried again" in said[0]


def test_an_answer_may_say_nothing() -> None:
    text = "status code: 400 Bad Request: <Error><Code>Odd</Code><Message>\n</Message></Error>"
    assert Answer.of(OSError(text)) == Answer(400, "Odd", text.splitlines()[0])


def test_what_the_library_says_of_a_url_has_no_secret() -> None:
    text = "Error performing GET https://me:hunter2@host/a?sig=hunter2 in 1ms - HTTP error"
    assert Answer.of(OSError(text)).said == "HTTP error"
    text = 'Client {\n error: "cannot reach https://me:hunter2@host/a?sig=hunter2"'
    assert Answer.of(OSError(text)) == Answer(None, "", "cannot reach https://host/a")


def test_tags_of_listings_are_those_of_answers() -> None:
    tags = {"0x1D": '"0x1D"', '"a"': '"a"', 'W/"a"': 'W/"a"', "": ""}
    assert {tag: bucket._quoted(tag) for tag in tags} == tags  # noqa: SLF001  # Azure lists none


def test_a_forked_process_asks_a_helper_and_never_hangs(store: ObjectStore, tmp_path: Path) -> None:
    store.put_new("a", b"1")  # the client is at work, and its threads do not live on in a child
    (tmp_path / "file").write_bytes(b"of the child")
    child = os.fork()
    if not child:
        other = ObjectStore(store.url)  # nobody has asked this one before
        found, absent = other.get("a"), store.get("b")
        store.put("b", tmp_path / "file")
        there = [one.key for one in store.list("")]
        os._exit(0 if found and found.data == b"1" and absent is None and there == ["a", "b"] else 1)
    end = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.01)
    assert done[1] == 0
    assert store.get("b") is not None


def test_what_a_cut_request_left_is_written_over(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    store.put("a", tmp_path / "empty")
    tag = store.put_new("a", b"mine")
    assert store.get("a") == FoundObject(b"mine", str(tag))
    assert store.put_new("a", b"other") is None


@pytest.mark.parametrize(
    "endpoint",
    [
        *("127.0.0.1:9", "ftp://a", "http://", "http://a b:1", "http://u@a:1"),
        *("https://me:hunter2@host", "https://host?key=hunter2", "me:hunter2@host:9000"),
    ],
)
def test_an_endpoint_that_is_none_is_told(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ConfigError, match=r"AWS_ENDPOINT_URL = .*: must be http://HOST:PORT") as found:
        ObjectStore(store.url).get("a")
    assert "hunter2" not in str(found.value)


def test_a_bucket_that_is_not_there_is_told(store: ObjectStore) -> None:
    other = ObjectStore(StoreUrl("s3", "no-such-bucket", "run"))
    with pytest.raises(ConfigError, match=r"s3://no-such-bucket/run/a: .* there is no such bucket"):
        other.get("a")
    assert store.get("a") is None
