"""What a chain of filters promises: a filter that two sources share is opened once."""

from pathlib import Path

import pytest

from stages.errors import DataError
from stages.filtering.chain import FilterChain
from stages.filtering.filter import Document, FilterConfig
from stages.filtering.length import Length
from stages.filtering.url import URL, UrlLists


def blocked(folder: Path, name: str, *sources: str) -> FilterConfig:
    """Return a filter of one domain, which its list names."""
    (folder / name).write_text("blocked.org\n")
    return URL.resolve(UrlLists(sources=sources, domains=(name,)), folder, "filters.0")


def test_a_chain_goes_on_with_what_the_one_before_had_open_and_reads_the_rest(tmp_path: Path) -> None:
    shared, own = blocked(tmp_path, "shared.txt", "a", "b"), blocked(tmp_path, "own.txt", "a")
    configs = [own, Length(min_chars=3), shared]
    first = FilterChain(configs, "a")
    (tmp_path / "shared.txt").unlink()
    second = FilterChain(configs, "b", first)
    (tmp_path / "own.txt").write_text("other.org\n")
    document = Document(b"A text.", 7, values={"url": "http://blocked.org/a"})
    assert second.judge(document).reason == "url-2.domain"
    assert second.judge(Document(b"a", 1)).reason == "length.too_short"
    with pytest.raises(DataError, match=r"own\.txt: changed since the run was planned"):
        FilterChain(configs, "a", second)
    with pytest.raises(DataError, match=r"shared\.txt: cannot be read"):
        FilterChain(configs, "b")
