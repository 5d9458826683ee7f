"""What the benchmarks of synthetic signatures and of rewritten documentation promise."""

import json
from pathlib import Path

import dedup_scale
import paraphrases
import pytest
import synthetic_signatures

pytestmark = pytest.mark.slow


def test_synthetic_documents_are_deduplicated_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_signatures, "UNIT", 1 << 12)
    written = tmp_path / "figures.json"
    arguments = [str(tmp_path / "run"), "--documents", "8000", "--json", str(written)]
    assert synthetic_signatures.main([*arguments, "--limit", "2GiB"]) == 0
    figures = json.loads(written.read_text())
    added = 8_000 - synthetic_signatures.UNIT
    assert 0.03 * added < figures["removed"]["exact"] < 0.07 * added
    assert 0.07 * added < figures["removed"]["minhash"] < 0.13 * added
    assert 0 < figures["peak_mib"] < 2048
    assert synthetic_signatures.main([*arguments, "--limit", "1MiB", "--documents", "1000"]) == 1


def test_costs_of_two_sizes_give_those_of_both() -> None:
    def figures(documents: int) -> dict[str, object]:
        files = dedup_scale.opened("sort band keys", dedup_scale.size_of(documents))
        seconds = documents * 2e-6 + files * 3e-4
        return {
            "documents": documents,
            "phases": [{"phase": "sort band keys", "cpu_seconds": seconds, "written_bytes": documents}],
        }

    small, large = figures(10**6), figures(10**7)
    assert dedup_scale.fitted(small, large, 0) == pytest.approx((2e-6, 3e-4))
    table = dedup_scale.markdown(small, large, 10**11, keys=1 << 26)
    assert "2,048 runs of units and 1,491 partitions" in table
    assert "mapped while deciding 4,700 GB" in table


def test_sections_are_told_by_file_and_heading(tmp_path: Path) -> None:
    body = " ".join(f"word{number}" for number in range(40))
    (tmp_path / "a.txt").write_text(
        f"Title\n=====\n\n{body}\n\nPart\n----\n{body} more\n\nShort\n-----\nx\n"
    )
    found = list(paraphrases.sections(tmp_path, 1))
    assert [(one.place, one.text) for one in found] == [
        (("a.txt", "Title"), body),
        (("a.txt", "Part"), f"{body} more"),
    ]
    assert paraphrases.jaccard(body, body) == 1.0
    assert paraphrases.jaccard(body, "other") == 0.0
