"""What the later rules of a mix promise to finished runs, and to folders that grow.

A finished run keeps its rows, stays done and can grow. `verify` ends well and says which rule it was
made without, and how many documents that concerns. Of a run that the rules do not change it says
nothing. New generations keep their documents.
"""

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.planning.plan import State
from pipeline.report.report import RunReport
from pipeline.run_file.load import load_run_file
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.session.verifying import verify_session
from tests.unpacked_runs import unpack_run

pytestmark = pytest.mark.slow

WORDS = (
    "river",
    "boat",
    "duck",
    "goose",
    "swan",
    "bridge",
    "mill",
    "wheel",
    "stone",
    "water",
    "field",
    "oats",
)

SHARES = {"web": 0.7, "code": 0.3}


def write(path: Path, begin: str, number: int, **fields: Any) -> None:
    """Write documents of random words."""
    draw = random.Random(begin)  # noqa: S311  # cases of a test
    lines = [
        json.dumps(
            {"id": f"{begin}{n}", "text": " ".join(draw.choices(WORDS, k=24)).capitalize(), **fields}
        )
        for n in range(number)
    ]
    path.write_text("\n".join(lines) + "\n")


def request(folder: Path) -> RunRequest:
    """Return a call of `run` in the folder of an earlier run."""
    return RunRequest(load_run_file(folder / "run.toml"), folder, folder / "out", 0)


def states(folder: Path) -> set[State]:
    """Return how far the steps of all generations are; unpacked inputs are scanned again."""
    return {one.state for one in plan_session(request(folder)) if not one.step.name.endswith("scan")}


def copies(folder: Path) -> Counter[str]:
    """Return how often each document stands in the training rows, by its own id."""
    found: Counter[str] = Counter()
    for shard in sorted(folder.glob("datasets/clm/train/epoch-0000/*/")):
        names = pq.read_table(shard / "documents.parquet").column("own_id").to_pylist()
        doc, offset = (np.load(shard / "segments" / f"{name}.npy") for name in ("doc", "doc_offset"))
        found.update(names[one] for one in doc[offset == 0].tolist())
    return found


def arrays(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the rows of one generation."""
    return {str(path): path.read_bytes() for path in sorted(folder.glob("datasets/clm/**/*.npy"))}


def rule_warnings(report: RunReport) -> list[str]:
    """Return what a report and those of its generations say of rules."""
    every = [report, *report.get("generations", {}).values()]
    return [line for one in every for line in one["warnings"] if "before the rule" in line]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "capped_weight",
            ["a 80 copies of documents where 90 are right", "b 70 copies of documents where 60"],
        ),
        ("shares_month", ["new documents are in no training row: 73 of source web"]),
        ("weight_below_cap", []),
        pytest.param("shares_once", [], marks=pytest.mark.campaign),
    ],
)
def test_finished_runs_stay_done_and_grow(name: str, said: list[str], tmp_path: Path) -> None:
    folder = unpack_run("shares_month" if name == "shares_once" else name, tmp_path)
    if name == "shares_once":
        shutil.rmtree(folder / "out/generations")
        for path in folder.glob("in/*1.jsonl"):
            path.unlink()
    assert states(folder) == {State.DONE}
    folders = [folder / "out", *sorted(folder.glob("out/generations/*"))]
    before = [copies(one) for one in folders]
    if name == "capped_weight":  # once it has grown, each says the same
        report = verify_session(folder / "out", workers=0, address=None, stream=None)
        assert report["passed"]
        (warning,) = rule_warnings(report)
        assert all(part in warning for part in said)
    write(folder / f"in/{'web' if 'shares' in name else 'b'}9.jsonl", "new", 20)
    assert run_session(request(folder), stream=None)["passed"]
    assert [copies(one) for one in folders] == before
    (grown,) = set(folder.glob("out/generations/*")) - set(folders)
    assert copies(grown) == Counter({f"new{n}": 1 for n in range(20)})
    assert states(folder) == {State.DONE}
    again = verify_session(folder / "out", workers=0, address=None, stream=None)
    assert again["passed"]
    warnings = rule_warnings(again)
    assert len(warnings) == bool(said)
    assert all(part in warnings[0] for part in said)


@pytest.mark.parametrize(
    ("later", "interleave"),
    [("keep", "exact"), pytest.param("strict", "shuffle", marks=pytest.mark.campaign)],
)
def test_a_month_of_one_source(later: str, interleave: str, tmp_path: Path) -> None:
    folder = unpack_run("shares_month", tmp_path)
    shutil.rmtree(folder / "out")
    text = (folder / "run.toml").read_text()
    assert "[mix]" in text
    settings = f'[mix]\nlater = "{later}"\ninterleave = "{interleave}"'
    (folder / "run.toml").write_text(text.replace("[mix]", settings))
    month = {path.name: path.read_bytes() for path in folder.glob("in/*1.jsonl")}
    for name in month:
        (folder / "in" / name).unlink()
    run_session(request(folder), stream=None)
    for name, content in month.items():
        (folder / "in" / name).write_bytes(content)
    report = run_session(request(folder), stream=None)
    assert report["passed"]
    own = report["generations"]["0001"]
    whole = own["whole"]["clm"]["sources"]
    found = copies(folder / "out/generations/0001")
    web = {name for name in found if name.startswith("w1")}
    shares = [line for line in own["warnings"] if "of all generations" in line]
    if later == "keep":
        assert len(web) == 80
        assert {found[name] for name in web} == {1}
        assert {found[f"c1{n}"] for n in range(3)} == {4}
        assert len(shares) == 2
        assert "source 'web' is to be 0.7 of the tokens" in shares[0]
    else:
        assert len(web) < 10
        assert not shares
    assert whole["web"]["share_asked"] == 0.7
    assert whole["web"]["left_out"] == 80 - len(web)
    both = copies(folder / "out") + found
    assert sum(both.values()) == own["whole"]["clm"]["documents"]
    assert own["mix"]["clm"]["sources"][0]["share_all"] == pytest.approx(whole["web"]["share"])
    assert all(gate["passed"] for gate in own["mix"]["clm"]["gates"])
    told = [one.plan_line for one in plan_session(request(folder)) if one.plan_line]
    assert f"{80 - len(web)} documents left out" in told[1]
    assert f"{whole['web']['share']:.2%} of all generations" in told[1]
    changed = text.replace("[mix]", settings.replace(later, "strict" if later == "keep" else "keep"))
    (folder / "run.toml").write_text(changed)
    assert states(folder) == {State.DONE, State.STALE}


def test_stages_with_weights_leave_other_sources_as_they_are(tmp_path: Path) -> None:
    """Two stages over a and b; b has the same copies whether a has weights or not."""
    found = []
    for number, weight in enumerate(("score", None)):
        folder = unpack_run("weight_below_cap", tmp_path / str(number))
        shutil.rmtree(folder / "out")
        text = (folder / "run.toml").read_text().replace("epochs = 1.5", "epochs = 1.3")
        text = text.replace('"in/b*.jsonl"]\n', '"in/b*.jsonl"]\nepochs = 0.7\n')
        text += '[[datasets]]\nname = "next"\n[datasets.mix]\nafter = "clm"\ntotal_tokens = 9000\n'
        if weight is None:
            text = text.replace('weight_column = "score"\n', "")
        (folder / "run.toml").write_text(text)
        report = run_session(request(folder), stream=None)
        assert report["passed"]
        mix = report["mix"]["next"]
        assert mix["total_asked"] == 9000
        assert mix["total_bound"] is not None
        assert abs(mix["tokens"] - 9000) <= mix["total_bound"]
        assert report["verify"]["next"]["total_tokens"]["held"] == mix["tokens"]
        assert {gate["name"] for gate in mix["gates"]} >= {
            "tokens off mix.total_tokens",
            "tokens off the asked epochs: a",
            "tokens off the asked epochs: b",
        }
        plans = [
            pq.read_table(folder / f"out/mix/{name}.parquet").to_pylist() for name in ("clm", "next")
        ]
        levels = {row["level"] for row in plans[0] if row["source"] == "a"}
        assert len(levels) == (2 if weight else 1)
        found.append([[row for row in rows if row["source"] == "b"] for rows in plans])
    assert found[0] == found[1]
    assert found[0][1][0]["begin"] == found[0][0][0]["end"] > 0


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(6))
def test_months_of_any_kind_lose_no_document(seed: int, tmp_path: Path) -> None:
    """Sources come and go; a month may be one document, or repeat old ones only."""
    draw = random.Random(seed)  # noqa: S311  # cases of a test
    folder = unpack_run("shares_month", tmp_path)
    shutil.rmtree(folder / "out")
    month = {path.name: path.read_bytes() for path in folder.glob("in/*1.jsonl")}
    for name in month:
        (folder / "in" / name).unlink()
    run_session(request(folder), stream=None)
    written = {
        name: {one for one in copies(folder / "out") if one.startswith(name[0])} for name in SHARES
    }
    for number in range(1, 5):
        before = arrays(folder / "out")
        for name in draw.choice([("web",), ("code",), tuple(SHARES)]):
            count = draw.choice([1, 3, 40])
            path = folder / f"in/{name}{number}x.jsonl"
            if draw.random() < 0.2:
                path.write_bytes((folder / f"in/{name}0.jsonl").read_bytes())  # repeats alone
            else:
                write(path, f"{name[0]}_{seed}_{number}_", count)
                written[name] |= {f"{name[0]}_{seed}_{number}_{n}" for n in range(count)}
        report = run_session(request(folder), stream=None)
        assert report["passed"]
        assert arrays(folder / "out") == before
        own = report["generations"][f"{number:04d}"]
        whole = own["whole"]["clm"]
        folders = [folder / "out", *sorted(folder.glob("out/generations/*"))]
        found = sum((copies(one) for one in folders), Counter[str]())
        assert set(found) == {one for names in written.values() for one in names}
        warned = any("of all generations" in line for line in own["warnings"])
        off = max(abs(whole["sources"][name]["share"] - share) for name, share in SHARES.items())
        assert warned == (off > 0.02)
        assert all(one.get("left_out", 0) == 0 for one in whole["sources"].values())
    assert verify_session(folder / "out", workers=0, address=None, stream=None)["passed"]
