"""Pictures of the report: there is a bar for each number, as long as the number says."""

import re

import pytest

from pipeline.report.measured import MeasuredPoint
from pipeline.report.parity import draw_parity
from pipeline.report.pictures import length_bars, similarity_bars, step_times
from pipeline.report.report import StepCost
from pipeline.report.similarity import Similarity
from pipeline.report.texts import LengthBin, Lengths
from tests.pipeline.reports import STEP

MARK = re.compile(r'translate\(([\d.]+),(\d+)\)" d="([^"]+)" fill="([^"]+)"[^>]*><title>([^<]*)<')
BAR = re.compile(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)"')


def bars_of(picture: str) -> list[tuple[float, float]]:
    """Return where each bar begins, and how wide it is."""
    return [(float(left), float(width)) for left, width in BAR.findall(picture)]


def test_each_step_has_a_bar_from_its_begin_to_its_end() -> None:
    steps = (
        {"step": "ingest", "began": 0.0, "ended": 6.0, "cpu_seconds": 1_234.5},
        {"step": "dedup", "began": 3.0, "ended": 12.0, "cpu_seconds": 0.25},
    )
    picture = step_times([StepCost.model_validate(STEP | one) for one in steps])
    (first, long), (second, longer) = bars_of(picture)
    assert second - first == pytest.approx(long / 2, abs=0.1)
    assert longer == pytest.approx(long * 1.5, abs=0.1)
    for said in (">ingest<", ">dedup<", ">1,234.5 CPU s<", ">0.2 CPU s<", ">12 s<"):
        assert said in picture


def test_each_length_has_a_bar_of_its_documents_and_one_of_its_tokens() -> None:
    bins = (
        LengthBin(least=1, most=1, documents=1, tokens=1),
        LengthBin(least=2, most=1024, documents=3, tokens=4_999),
    )
    picture = length_bars(Lengths(documents=4, points={}, longest=1024, bins=bins))
    (_, few), (_, least), (_, most), (_, all_) = bars_of(picture)
    assert most == pytest.approx(3 * few, abs=0.2)
    assert all_ > most > few > least
    for said in (">1<", ">2 to 1,024<", ">25.0%<", ">75.0%<", ">under 0.1%<", ">100.0%<"):
        assert said in picture


def test_similarity_has_a_bar_for_each_twentieth_and_a_mark_for_each_measured_point() -> None:
    found = Similarity(
        counts=(*[0] * 19, 7),
        identical=0,
        others=0,
        threshold=0.7,
        bands=4,
        rows=2,
        measured=(MeasuredPoint(similarity=0.75, pairs=12, compared=0.5),),
        clusters=None,
    )
    picture = similarity_bars(found)
    assert "12 pairs: 50% compared" in picture
    alone = similarity_bars(found.model_copy(update={"bands": None}))
    assert len(re.findall("<path|<polygon", picture)) > len(re.findall("<path|<polygon", alone)) > 0
    for said in ("chance of comparison", "threshold"):
        assert said in picture
        assert said not in alone


def test_each_tokenizer_has_its_own_mark_in_the_legend_and_beside_each_language() -> None:
    names = [f"t{number}" for number in range(7)]
    rates = {name: {"parity": 1.0 + number / 4} for number, name in enumerate(names)}
    languages = {"eng": {name: {"parity": 1.0} for name in names}, "kor": rates}
    picture = draw_parity("eng", names, languages)
    marks = MARK.findall(picture)
    looks = {told: (shape, color) for _, _, shape, color, told in marks}
    assert len({looks[name] for name in names}) == len(names)
    assert len({looks[name][0] for name in names[:5]}) == 5, "the shapes tell the first ones apart"
    for name, rate in rates.items():
        assert looks[name] == looks[f"{name}, eng: 1.00"] == looks[f"{name}, kor: {rate['parity']:.2f}"]
    at = {told: (float(x), int(y)) for x, y, _, _, told in marks}
    korean = [at[f"{name}, kor: {rate['parity']:.2f}"] for name, rate in rates.items()]
    assert korean == sorted(korean)
    assert len({y for _, y in korean}) == 1
    assert korean[0][1] > at["t0, eng: 1.00"][1], "who pays most is below"
