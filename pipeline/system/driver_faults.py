"""Faults of drivers: what network libraries and Ray raise that is no OSError, as one line.

Known by the library that defines the exception, since none of them is imported here.
"""

from stages.errors import ConfigError, ShardmillError, Stopped

NETWORK = frozenset(
    {
        "adlfs",
        "aiobotocore",
        "aiohttp",
        "azure",
        "botocore",
        "gcsfs",
        "google",
        "httpcore",
        "httpx",
        "huggingface_hub",
        "paramiko",
        "requests",
        "s3fs",
        "urllib3",
    }
)
"""Libraries that fsspec's drivers are made of."""
_REFUSED = ("Credential", "Auth", "Token", "AccessDenied", "Forbidden", "ParamValidation", "InvalidURL")
"""Parts of names of exceptions after which the same call fails again."""


def fault_of_driver(error: BaseException) -> ShardmillError | None:
    """Return what a library's exception means, or None if it is of no driver.

    botocore's EndpointConnectionError -> Stopped; its NoCredentialsError -> ConfigError
    """
    kinds = type(error).__mro__
    libraries = {kind.__module__.partition(".")[0] for kind in kinds}
    said = f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"
    if libraries & NETWORK:
        if any(part in kind.__name__ for kind in kinds for part in _REFUSED):
            return ConfigError(
                f"{said}; set the credentials in the environment, where the driver looks for them"
            )
        return Stopped(f"{said}; the network or the server failed: run again once it works")
    if "ray" in libraries:
        last = said.splitlines()[-1].strip()  # what comes before is where it was raised
        return Stopped(f"Ray failed: {last}; run again to resume")
    return None
