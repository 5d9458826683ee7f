"""What commands and functions say of a run in a store: what they say of the same run in a folder.

The server is a real one, on loopback. One run is made for all.
"""

import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer.main

import shardmill
from pipeline import cli
from pipeline.commands import api
from pipeline.commands.boundary import exit_code_of
from pipeline.report.terminal import print_plan
from pipeline.system.stopping import Signals
from stages.stores.objects import ObjectStore
from tests.laws.stored_tiny_run import RUN, url_of

obstore = pytest.importorskip("obstore")

COMMANDS = {
    "a row": ("inspect", "RUN", "--row", "1"),
    "clusters": ("inspect", "RUN", "--clusters"),
    "a document": ("inspect", "RUN", "--document", "DOCUMENT"),
    "status": ("status", "RUN"),
}
"""RUN stands for the folder, or the URL; DOCUMENT for one that was removed."""
OF_THE_SESSION = {"attempt", "pid"}
"""In what `status` says."""


def test_each_says_of_a_run_in_a_store_what_it_says_of_one_in_a_folder(
    store: ObjectStore, capsys: pytest.CaptureFixture[str]
) -> None:
    api.run(RUN, url_of(store), workers=0)
    places = ("out", url_of(store))
    removed = pq.read_table("out/dedup/removed.parquet")
    document = removed["id"][0].as_py()
    for name, line in COMMANDS.items():
        words = tuple(document if word == "DOCUMENT" else word for word in line)
        near, far = (_said(words, place, capsys) for place in places)
        assert near == far, name
        assert near, name
    near, far = map(shardmill.duplicates, places)
    assert near == far
    assert near
    near, far = (shardmill.find_document(place, document) for place in places)
    assert near == far
    near, far = ([*shardmill.open_sequence(place, ["mlm"], 2)] for place in places)
    assert near
    for one, other in zip(near, far, strict=True):
        assert all(np.array_equal(one[column], other[column]) for column in one)
    near, far = (_planned(place, capsys) for place in places)
    untried = {step.pop("untried") for step in far}
    assert {step.pop("untried") for step in near} == {None}
    assert near == far
    (said,) = untried
    assert said.startswith(f"{url_of(store)}: whether this store and this user can")
    page = obstore.get(store._asked.client, f"{store.url.prefix}/report/index.html")  # type: ignore[union-attr]  # noqa: SLF001
    assert page.attributes["Content-Type"] == "text/html; charset=utf-8"


def _said(words: tuple[str, ...], place: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what a command says, with RUN for the place."""
    capsys.readouterr()
    call = [place if word == "RUN" else word for word in words]
    root = typer.main.get_command(cli.app)
    assert exit_code_of(lambda: root([*call, "--json"]), Signals()) == 0, call
    found = json.loads(capsys.readouterr().out.replace(place, "RUN"))
    if words[0] != "status":
        return found
    return {name: value for name, value in found.items() if name not in OF_THE_SESSION}


def _planned(place: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return a plan as its JSON has it."""
    print_plan(api.plan(RUN, place), as_json=True)
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found
