"""What is promised of arguments: what could be meant otherwise is refused, with what is possible."""

import pytest

from stages.errors import ConfigError
from stages.loading.arguments import refuse_columns


@pytest.mark.parametrize("wanted", ["ab", "a", "", [], ["a", "c"]])
def test_columns_are_a_list_of_names_that_there_are(wanted: str | list[str]) -> None:
    refuse_columns(["b", "a"], ["a", "b"])
    with pytest.raises(ConfigError, match="must be a list of some of a, b"):
        refuse_columns(wanted, ["a", "b"])
