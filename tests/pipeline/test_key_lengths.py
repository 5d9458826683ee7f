"""What is said of long names: a run whose objects no store would take is refused before any work."""

import pytest

from pipeline.state.key_lengths import KEY_BYTES, require_short_keys
from stages.errors import ConfigError
from stages.stores.url import MOST_BYTES

NAMES = ["clm", "web", "a-long-name-of-a-source", "größe"]


def test_a_url_leaves_room_for_the_longest_key() -> None:
    most = MOST_BYTES - 1 - KEY_BYTES - len("a-long-name-of-a-source") - len("größe".encode())
    place = "s3://bucket/".ljust(most, "r")
    require_short_keys(place, NAMES)
    with pytest.raises(ConfigError, match=f"has {most + 1} bytes, and may have {most}: .* shorter URL"):
        require_short_keys(f"{place}r", NAMES)
