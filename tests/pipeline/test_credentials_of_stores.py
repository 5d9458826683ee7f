"""What is promised of credentials: inputs and outputs find the same ones, wherever they are.

The server is a real one, on loopback, and asks for a signature. The role is that of a container, whose
service is one on loopback, too.
"""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import place_status
from stages.errors import ConfigError
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, CREDENTIALS, SECRET, USER, StoreServer

s3fs = pytest.importorskip("s3fs")
pytest.importorskip("obstore")

KEYS = f"aws_access_key_id = {USER}\naws_secret_access_key = {SECRET}\n"


class _Role(BaseHTTPRequestHandler):
    """The service that gives a container the credentials of its role."""

    asked: list[str]

    def do_GET(self) -> None:
        """Give them."""
        self.asked.append(self.headers["User-Agent"])
        content = {"AccessKeyId": USER, "SecretAccessKey": SECRET, "Token": ""}
        body = json.dumps({**content, "Expiration": "2100-01-01T00:00:00Z"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def role() -> Iterator[str]:
    """The URL of a service that gives credentials to both, each on its own."""
    _Role.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Role) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/role"
        server.shutdown()
    assert len(set(_Role.asked)) > 1, "the clients of inputs and of outputs"


Give = Callable[[Path, pytest.MonkeyPatch, pytest.FixtureRequest], None]


def in_the_environment(home: Path, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    del home, request
    for name, value in CREDENTIALS.items():
        patch.setenv(name, value)


def in_a_profile(home: Path, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    del request
    (home / ".aws" / "config").write_text(f"[profile mine]\nregion = us-east-1\n{KEYS}")
    patch.setenv("AWS_PROFILE", "mine")


def in_the_credentials_file(
    home: Path, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    del patch, request
    (home / ".aws" / "credentials").write_text(f"[default]\n{KEYS}")


def of_a_process(home: Path, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    del patch, request
    content = {"Version": 1, "AccessKeyId": USER, "SecretAccessKey": SECRET}
    (home / "keys.json").write_text(json.dumps(content))
    (home / ".aws" / "config").write_text(f"[default]\ncredential_process = cat {home}/keys.json\n")


def of_a_role(home: Path, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    del home
    patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", request.getfixturevalue("role"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_server: StoreServer) -> Path:
    """A user who has no credentials, with the address of the server."""
    for name in (*CREDENTIALS, "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store_server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    s3fs.S3FileSystem.clear_instance_cache()
    return tmp_path


@pytest.mark.parametrize(
    "give", [in_the_environment, in_a_profile, in_the_credentials_file, of_a_process, of_a_role]
)
def test_inputs_and_outputs_find_the_same_credentials(
    give: Give, home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    give(home, monkeypatch, request)
    store = ObjectStore(StoreUrl("s3", BUCKET, uuid.uuid4().hex))
    (home / "text").write_bytes(b'{"text": "a"}\n')
    store.put("a.jsonl", home / "text")
    place = f"{store.place}/a.jsonl"
    assert place_status(place, key="sources.s").size == 14
    with open_place(place, key="sources.s") as file:
        assert file.read() == b'{"text": "a"}\n'


def test_without_credentials_inputs_and_outputs_say_so(home: Path) -> None:
    del home
    store = ObjectStore(StoreUrl("s3", BUCKET, "run"))
    with pytest.raises(ConfigError, match="no credentials found"):
        store.get("a.jsonl")
    with pytest.raises(ConfigError, match="redentials"):
        place_status(f"{store.place}/a.jsonl", key="sources.s")


def test_a_profile_that_is_not_there_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(ConfigError, match=r"the profile other: .* could not be found"):
        ObjectStore(StoreUrl("s3", BUCKET, "run")).get("a")
