"""What the search for credentials promises: where they are is told, and that there are none.

Nothing here is asked of a network: a port on loopback that nobody serves is the service of the machine.
"""

import os
import sys
from pathlib import Path

import pytest

from stages.errors import ConfigError, Stopped
from stages.stores import bucket
from stages.stores.credentials import is_of_credentials, profile_credentials
from stages.stores.faults import Answer, explained
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl

pytest.importorskip("obstore")

NOBODY = "http://127.0.0.1:1"
URL = StoreUrl("s3", "bucket", "run")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has no credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path


def test_without_any_credentials_it_is_told_what_may_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", NOBODY)
    with pytest.raises(ConfigError, match=r"^s3://bucket/run/a: no credentials found: ") as found:
        ObjectStore(URL).get("a")
    for part in ("Connection refused", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "a role"):
        assert part in str(found.value)


def test_a_client_that_has_had_credentials_waits_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", NOBODY)
    monkeypatch.setattr(bucket, "_WAITS", (0.0,))
    monkeypatch.setattr(bucket, "_RETRIES", {"max_retries": 0})
    client = bucket.client_of(URL, bucket.Endpoint())
    with pytest.raises(Stopped, match=r"^s3://bucket/run/a: no answer \(Connection refused\)"):
        bucket.Bucket(URL, client, {os.getpid()}).get("a")
    with pytest.raises(ConfigError, match="no credentials found"):
        bucket.Bucket(URL, client).get("a")


@pytest.mark.parametrize(
    ("scheme", "url", "named"),
    [
        ("s3", "http://169.254.169.254/latest/api/token", "AWS_PROFILE"),
        ("s3", "http://169.254.170.2/v2/credentials", "AWS_PROFILE"),
        ("gs", "http://metadata.google.internal/computeMetadata/v1/token", "GOOGLE_APPLICATION"),
        ("az", "http://169.254.169.254/metadata/identity", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
@pytest.mark.parametrize("said", ["HTTP error", "status code: 404 Not Found: ", "status code: 403"])
def test_a_service_that_gives_none_is_told_from_a_store_that_is_away(
    scheme: str, url: str, named: str, said: str
) -> None:
    place = f"{scheme}://bucket/run"
    error = OSError(f"Generic error: Error performing GET {url} in 1ms - {said}")
    assert not Answer.of(error).is_passing(answered=False)
    told = explained(error, place, answered=False)
    assert isinstance(told, ConfigError)
    assert f"{place}: no credentials found" in str(told)
    assert named in str(told)
    busy = OSError(f"Generic error: Error performing GET {url} in 1ms - status code: 503 Busy")
    assert isinstance(explained(busy, place, answered=False), Stopped)
    away = OSError("Generic error: Error performing GET http://host:9000/bucket/run in 1ms - HTTP error")
    assert isinstance(explained(away, place, answered=False), Stopped)
    assert Answer.of(error).is_passing(answered=True)
    assert isinstance(explained(error, place, answered=True), Stopped), (
        "it has had some: they come again"
    )


@pytest.mark.parametrize(
    ("name", "value", "url"),
    [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1:80/x?q", "http://10.0.0.1:80/x?q"),
        ("GCE_METADATA_HOST", "10.0.0.1:80", "http://10.0.0.1:80/computeMetadata"),
    ],
)
def test_the_environment_may_name_the_service(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, url: str
) -> None:
    text = f"Error performing GET {url} in 1ms - HTTP error"
    assert not is_of_credentials(text)
    monkeypatch.setenv(name, value)
    assert is_of_credentials(text)


PROFILES = {
    "sso": ("[default]\nsso_session = mine\nregion = eu-central-1\n", True),
    "role": ("[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = other\n", True),
    "region": ("[default]\nregion = eu-central-1\noutput = json\n", False),
    "other": ("[profile mine]\nsso_session = mine\n", False),
    "broken": ("sso_session\n", True),
    "empty": ("", False),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_default_profile_that_leads_to_credentials_is_for_boto3(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text, leads = PROFILES[name]
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert profile_credentials(URL) is None
    config = home / ".aws" / "config"
    config.write_text(text)
    for elsewhere in (False, True):
        if elsewhere:
            config = config.rename(home / "elsewhere")
            monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        if leads:
            with pytest.raises(ConfigError, match=f"the credentials are in {config}, which boto3 reads"):
                profile_credentials(URL)
        else:
            assert profile_credentials(URL) is None
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(home / "token"))
    assert profile_credentials(URL) is None, "the client itself finds these"
