"""What limits on deduplication promise: a run stops before harm, says where to look, and goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.report.clusters import duplicates, print_clusters
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.dedup import clusters
from pipeline.steps.dedup.clusters import LARGEST, LargestRecord
from stages.errors import ConfigError, VerificationError
from tests.campaign import some_of
from tests.conftest import digests
from tests.pipeline.test_exit_codes import code_of

WORDS = [
    "tide",
    "shore",
    "salt",
    "wind",
    "net",
    "boat",
    "harbour",
    "lamp",
    "gull",
    "rope",
    "sand",
    "wave",
]
LETTER = (
    "Dear customer {n}, thank you for your order of last week. We have packed it with care and sent it"
    " today by the usual carrier. You can follow the parcel on our page at any time. If something is"
    " missing, or if you are not content with what you receive, write to us within thirty days, and we"
    " will refund the full price or send you another one at no cost. Please keep this letter together"
    " with the bill for your records. With kind regards, the team of the service office in the harbour"
)
APART = "unlike {n} " + " ".join("{n}" + word for word in WORDS)


def write(folder: Path, **texts: list[str]) -> Path:
    """Write a file of JSON lines for each source."""
    folder.mkdir(exist_ok=True)
    for name, every in texts.items():
        with (folder / f"{name}.jsonl").open("w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in every)
    return folder


def run_file(*names: str, dedup: dict[str, Any] | None = None, **of_source: Any) -> RunFile:
    sources = [{"name": name, "paths": [f"{name}.jsonl"], **of_source.get(name, {})} for name in names]
    content = {"sources": sources, "dedup": dedup or {}, "datasets": [{"name": "clm"}]}
    return RunFile.model_validate(content)


def run(file: RunFile, corpus: Path, output: Path, *, workers: int = 0, until: str = "dedup") -> Any:
    return run_session(RunRequest(file, corpus, output, workers, until=until), stream=None)


def letters(number: int) -> list[str]:
    return [LETTER.format(n=n) for n in range(number)]


def unlike(number: int) -> list[str]:
    return [APART.format(n=n) for n in range(number)]


def test_letters_of_one_template_stop_a_run_by_default(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", letters=letters(1_000), other=unlike(5))
    with pytest.raises(VerificationError) as caught:
        run(run_file("letters", "other"), corpus, tmp_path / "run")
    said = str(caught.value)
    assert said.startswith("dedup.max_removed_fraction = 0.9: 999 of 1,005 documents, 99.40%, would be")
    assert "Most are of source letters: 999 of 1,000 documents, 99.90%" in said
    assert "1,000 documents, of which 1 stays, beginning with letters: letters.jsonl, byte 0" in said
    assert f"shardmill inspect {tmp_path / 'run'} --clusters" in said
    assert "set dedup.max_removed_fraction to 0.9941 or more and run again: nothing is redone" in said
    assert "dedup.minhash.threshold" in said


def test_equal_texts_stop_a_run_by_default(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", same=[LETTER] * 2_000)
    with pytest.raises(VerificationError, match=r"1,999 of 2,000 documents, 99.95%, .*exact: 1,999"):
        run(run_file("same"), corpus, tmp_path / "run")


def test_a_stopped_run_has_made_nothing_of_it_and_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write(tmp_path, same=[LETTER] * 300)
    text = 'datasets = [{ name = "clm" }]\n[[sources]]\nname = "same"\npaths = ["same.jsonl"]\n'
    (corpus / "run.toml").write_text(text)
    words = "run", corpus / "run.toml", "-o", tmp_path / "run", "--workers", "0"
    assert code_of(monkeypatch, *words) == 3
    assert "dedup.max_removed_fraction = 0.9" in capsys.readouterr().err
    assert not (tmp_path / "run" / "tokenizer").exists()
    assert not (tmp_path / "run" / "datasets").exists()
    assert code_of(monkeypatch, "inspect", tmp_path / "run", "--clusters") == 0
    assert capsys.readouterr().out.startswith("1. 300 documents, 1 kept, 299 removed (exact: 299)\n")
    assert code_of(monkeypatch, "inspect", tmp_path / "run") == 2
    assert (
        "has no finished dataset yet; run it to its end, or give --clusters" in capsys.readouterr().err
    )


@pytest.mark.parametrize("workers", some_of([0, 2], 1))
def test_a_higher_limit_goes_on_without_redoing_anything(
    tmp_path: Path, workers: int, request: pytest.FixtureRequest
) -> None:
    if workers:
        request.getfixturevalue("ray_session")
    corpus = write(tmp_path / "corpus", letters=letters(200))
    strict, free = (run_file("letters", dedup={"max_removed_fraction": n}) for n in (0.9, 1.0))
    with pytest.raises(VerificationError):
        run(strict, corpus, tmp_path / "run", workers=workers)
    before = (tmp_path / "run" / "log.jsonl").read_text().count('"commit"')
    assert before
    run(free, corpus, tmp_path / "run", workers=workers)
    assert (tmp_path / "run" / "log.jsonl").read_text().count('"commit"') == before
    run(free, corpus, tmp_path / "at-once")
    assert digests(tmp_path / "run", "dedup") == digests(tmp_path / "at-once", "dedup")


def test_a_source_has_a_limit_of_its_own(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", letters=letters(200), other=unlike(300))
    file = run_file("letters", "other", letters={"max_removed_fraction": 0.5})
    with pytest.raises(VerificationError, match=r"^sources\.letters\.max_removed_fraction = 0\.5: 199"):
        run(file, corpus, tmp_path / "run")
    run(run_file("letters", "other", letters={"max_removed_fraction": 1}), corpus, tmp_path / "run")


def test_a_source_that_loses_nearly_all_is_warned_about(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", letters=letters(200), other=unlike(300))
    report = run(run_file("letters", "other"), corpus, tmp_path / "run")
    warnings = [line for line in report["warnings"] if line.startswith("source letters: 199 of 200")]
    assert len(warnings) == 1
    assert not any(line.startswith("source other") for line in report["warnings"])
    assert report["documents"]["removed_by_source"] == {
        "letters": {"documents": 200, "removed": 199},
        "other": {"documents": 300, "removed": 0},
    }


def test_a_large_cluster_is_warned_about_and_can_stop_a_run(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", letters=letters(150), other=unlike(300))
    report = run(run_file("letters", "other"), corpus, tmp_path / "run")
    assert any(
        line.startswith("dedup: one cluster loses 33.11% of all documents: 150 documents, of")
        for line in report["warnings"]
    )
    file = run_file("letters", "other", dedup={"max_cluster_size": 149})
    with pytest.raises(VerificationError, match=r"^dedup\.max_cluster_size = 149: .* 150 documents"):
        run(file, corpus, tmp_path / "limited")
    run(run_file("letters", "other", dedup={"max_cluster_size": 150}), corpus, tmp_path / "limited")


@pytest.mark.parametrize(("limit", "stops"), [(0.57, False), (0.5699, True)])
def test_a_limit_that_is_exactly_met_stops_nothing(tmp_path: Path, limit: float, *, stops: bool) -> None:
    corpus = write(tmp_path / "corpus", mixed=[*[LETTER] * 115, *unlike(85)])  # 0.57 * 200 < 114
    file = run_file("mixed", dedup={"max_removed_fraction": limit, "near": False})
    if stops:
        with pytest.raises(VerificationError, match=r"114 of 200 .* to 0\.57 or more"):
            run(file, corpus, tmp_path / "run")
    else:
        run(file, corpus, tmp_path / "run")


def test_clusters_of_which_all_stay_hide_no_other(tmp_path: Path) -> None:
    groups = [text for text in unlike(LARGEST) for _ in range(5)]
    corpus = write(tmp_path / "corpus", apart=groups, letters=letters(4))
    file = run_file("apart", "letters", apart={"dedup": False}, dedup={"max_cluster_size": 3})
    with pytest.raises(VerificationError, match=r"^dedup\.max_cluster_size = 3: .* 4 documents"):
        run(file, corpus, tmp_path / "run")
    (found,) = duplicates(tmp_path / "run")
    assert (found["documents"], found["kept"]) == (4, 1)


def test_what_goes_for_its_url_is_shown_as_removed_with_a_way_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = [json.dumps({"text": text, "url": "https://a.org/"}) + "\n" for text in unlike(101)]
    (folder / "pages.jsonl").write_text("".join(lines))
    with pytest.raises(VerificationError, match=r"leave out dedup\.url, and run again with --replace$"):
        run(
            run_file("pages", dedup={"url": "url", "max_removed_fraction": 0.5}),
            folder,
            tmp_path / "run",
        )
    print_clusters(duplicates(tmp_path / "run"), as_json=False)
    said = capsys.readouterr().out
    assert said.count("removed (url): pages: pages.jsonl, byte") == 3
    assert said.count("kept: pages") == 1


@pytest.mark.parametrize(("documents", "stops"), [(100, False), (101, True)])
def test_a_share_is_held_to_its_limit_from_100_removed_documents_on(
    tmp_path: Path, documents: int, *, stops: bool
) -> None:
    corpus = write(tmp_path / "corpus", same=[LETTER] * documents)
    if stops:
        with pytest.raises(VerificationError):
            run(run_file("same"), corpus, tmp_path / "run")
    else:
        assert run(run_file("same"), corpus, tmp_path / "run")["documents"]["kept"] == 1


def test_nothing_is_limited_without_deduplication(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", same=[LETTER] * 300)
    off = {"exact": False, "near": False, "max_removed_fraction": 0.0, "max_cluster_size": 2}
    report = run(run_file("same", dedup=off), corpus, tmp_path / "run")
    assert report["documents"]["kept"] == 300
    assert "clusters" not in report["documents"]


def test_a_share_that_is_none_is_refused() -> None:
    for wrong in (-0.1, 1.5):
        with pytest.raises(ValidationError):
            run_file("a", dedup={"max_removed_fraction": wrong})


def test_clusters_show_the_first_document_and_the_least_alike(tmp_path: Path) -> None:
    texts = [
        LETTER.format(n=0),
        *[LETTER.format(n=0)] * 3,
        LETTER.format(n="7 and his wife"),
        *unlike(3),
    ]
    corpus = write(tmp_path / "corpus", mixed=texts, none=unlike(1))
    run(run_file("mixed", "none"), corpus, tmp_path / "run")
    (*_, cluster) = sorted(duplicates(tmp_path / "run"), key=lambda one: one["documents"])
    assert (cluster["documents"], cluster["kept"]) == (5, 1)
    assert cluster["removed"] == {"exact": 3, "minhash": 1}
    first, least, *others = cluster["shown"]
    assert first["kept"]
    assert first["place"] == "mixed: mixed.jsonl, byte 0"
    assert first["excerpt"] == texts[0][:160]
    assert (least["method"], least["kept_id"]) == ("minhash", first["id"])
    assert least["similarity"] is not None
    assert least["similarity"] < 1
    assert [shown["similarity"] for shown in others] == [1.0, 1.0]


@pytest.mark.parametrize(("unit_size", "held"), [("1KiB", 1 << 24), ("64MiB", 0), ("1KiB", 400)])
def test_clusters_depend_neither_on_units_nor_on_texts_that_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit_size: str, held: int
) -> None:
    corpus = write(tmp_path / "corpus", letters=letters(50), other=[*unlike(20), *unlike(20)])
    file = run_file("letters", "other")
    run(file, corpus, tmp_path / "whole")
    small = file.model_copy(
        update={
            "ingest": file.ingest.model_validate({**file.ingest.model_dump(), "unit_size": unit_size})
        }
    )
    monkeypatch.setattr(clusters, "_BUFFER_CHARACTERS", held)
    run(small, corpus, tmp_path / "cut")
    found = duplicates(tmp_path / "whole")
    assert len(found) == 10
    assert duplicates(tmp_path / "cut") == found
    commits = Commits(LocalStorage(tmp_path / "whole")).survey("dedup").commits
    assert commits["largest"].read(LargestRecord).clusters[0].documents == found[0]["documents"]


def test_a_folder_without_clusters_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no clusters of duplicates"):
        duplicates(tmp_path)
