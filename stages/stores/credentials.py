"""Where credentials of stores are looked for, and what is said if there are none.

environment, web identity        the client reads them
profile, single sign-on          boto3 reads them, if it is installed
role of a container or machine   the client asks a service on that machine
"""

import configparser
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stages.errors import ConfigError
from stages.stores.url import StoreUrl

if TYPE_CHECKING:
    from obstore.auth.boto3 import Boto3CredentialProvider

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile (pip install boto3),"
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
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that lead the client itself to credentials."""


def is_of_credentials(said: str) -> bool:
    """Say whether an error of the client is of a request for credentials, not of one to the store."""
    asked = _ASKED.search(said)
    named = (os.environ.get(name, "") for name in _SERVICES)
    own = {urlsplit(one if "://" in one else f"//{one}").netloc for one in named if one}
    return asked is not None and urlsplit(asked[1]).netloc in {*_HOSTS, *own}


def boto3_credentials(url: StoreUrl) -> "Boto3CredentialProvider | None":
    """Return what reads credentials of profiles and of single sign-on, if they are where it alone looks.

    The client itself knows the environment, web identities, and the roles of containers and instances.
    What this returns fetches a token anew before it expires, as the client does.

    Raises:
        ConfigError: credentials are where only boto3 reads them, and it is not installed.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    where = _place_of_profile()
    if where is None:
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{url}: the credentials are in {where}, which boto3 reads: pip install boto3, or set"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    return Boto3CredentialProvider()


def _place_of_profile() -> str | None:
    """Return the profile or the file in which credentials are; None if there is none."""
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
    return str(config) if _OF_A_PROFILE & {*own} else None
