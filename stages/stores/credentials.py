"""Where credentials of stores are looked for, and what is said if there are none.

environment, web identity        the client reads them
role of a container or machine   the client asks a service on that machine
profile, single sign-on          botocore reads them, by which s3fs finds them for inputs
"""

import configparser
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stages.errors import ConfigError
from stages.stores.url import StoreUrl

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile,"
    " or work on a machine that has a role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or work on a machine that has a service account",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or work on a machine that has an"
    " identity",
}
"""By scheme, what a user may set."""
_HOSTS = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "[fd00:ec2::254]",
    "metadata.google.internal",
)
"""Of services that give credentials to machines and containers."""
_SERVICES = (
    "AWS_METADATA_ENDPOINT",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "GCE_METADATA_HOST",
    "GCE_METADATA_ROOT",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
)
"""Variables that name another such service."""
_ASKED = re.compile(r"Error performing [A-Z]+ (https?://\S+)")
_OF_A_PROFILE = frozenset(
    {
        "aws_access_key_id",
        "credential_process",
        "login_session",
        "role_arn",
        "sso_session",
        "sso_start_url",
    }
)
"""Settings of a profile that lead to credentials; others are a region or a form of output."""
_OF_THE_CLIENT = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)
"""Variables that lead the client itself to credentials."""
_OF_A_CONTAINER = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
"""To this the client goes with the token of a file alone."""

_LASTING = timedelta(minutes=5)
"""Less than before the end of a token, where botocore fetches another one."""


def is_of_credentials(said: str) -> bool:
    """Say whether an error of the client is of a request for credentials, not of one to the store."""
    asked = _ASKED.search(said)
    named = (os.environ.get(name, "") for name in _SERVICES)
    own = {urlsplit(one if "://" in one else f"//{one}").netloc for one in named if one}
    return asked is not None and urlsplit(asked[1]).netloc in {*_HOSTS, *own}


class ProfileCredentials:
    """Credentials of a profile or of single sign-on, for the client to ask for again and again.

    Args:
        url: of the store, for messages.
        where: they are, for messages.

    Raises:
        ConfigError: botocore, which reads them, is not installed, or finds none.
    """

    config: "S3Config"
    """What else a profile says to the client."""

    def __init__(self, url: StoreUrl, where: str) -> None:
        try:
            from botocore.exceptions import BotoCoreError  # noqa: PLC0415  # an extra
            from botocore.session import Session  # noqa: PLC0415  # an extra
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{url}: the credentials are in {where}, which boto3 reads: pip install boto3, or set"
                " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from error
        session = Session()
        try:
            region = session.get_config_variable("region")
            self._credentials = session.get_credentials()
            if self._credentials is not None:
                self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise ConfigError(f"{url}: {_unreadable(where, str(error))}") from error
        if self._credentials is None:
            raise ConfigError(f"{url}: {_unreadable(where, 'it holds none')}")
        self.config = {"region": region} if region else {}

    def __call__(self) -> "S3Credential":
        """Return what is good for the next minutes; botocore fetches it anew before it expires."""
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _LASTING,
        }


def profile_credentials(url: StoreUrl) -> ProfileCredentials | None:
    """Return what reads credentials of profiles and of single sign-on, if they are where it alone looks.

    The client itself knows the environment, web identities, and the roles of containers and instances.

    Raises:
        ConfigError: credentials are where botocore reads them, and it is not installed, or finds none.
    """
    where = None if os.environ.get("AWS_ACCESS_KEY_ID") else _place_of_credentials()
    return None if where is None else ProfileCredentials(url, where)


def _unreadable(where: str, error: str) -> str:
    return (
        f"the credentials are in {where}: {error}; run `aws configure` or `aws sso login`, or set"
        " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


def _place_of_credentials() -> str | None:
    """Return where there are credentials that the client does not read; None if there are none."""
    profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    if profile:
        return f"the profile {profile}"
    shared = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser()
    if shared.exists():
        return str(shared)
    if any(os.environ.get(name) for name in _OF_THE_CLIENT):
        return None
    config = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    profiles = configparser.RawConfigParser(strict=False)
    try:
        profiles.read(config, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):  # boto3 says what is wrong with it
        return str(config)
    own = profiles["default"] if profiles.has_section("default") else {}
    if _OF_A_PROFILE & {*own}:
        return str(config)
    return f"the service of {_OF_A_CONTAINER}" if os.environ.get(_OF_A_CONTAINER) else None
