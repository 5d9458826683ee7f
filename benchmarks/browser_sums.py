"""Sums of a report's page: what its tables show is what report.json says, and adds up."""

import re
from collections.abc import Iterator
from typing import Any

Cells = list[list[str]]
_BEHIND = ("decode", "verify", "draw")
"""Steps that the page's flow does not show."""
_ASIDE = ("gone", "added")
_CELLS = """section => [document.querySelector(`section[aria-labelledby=${section}] table`)]
    .flatMap(table => table === null ? [] : [...table.rows])
    .map(row => [...row.cells].map(cell => cell.textContent.trim()))"""


def wrong_sums(page: Any, report: dict[str, Any]) -> list[str]:
    """Return what the tables of a page show otherwise than the report has it.

    Args:
        page: of playwright, with the report's page opened.
        report: content of report.json.
    """
    first = {key: page.evaluate(_CELLS, key) for key in ("flow", "dropped", "languages", "rows", "cost")}
    found = [
        *_flow(first["flow"], report),
        *_dropped(first["dropped"], report),
        *_languages(first["languages"], report),
        *_rows(first["rows"], report),
        *_cost(first["cost"], report),
    ]
    return [f"{what}: shown {shown}, in report.json {stored}" for what, shown, stored in found]


def _flow(table: Cells, report: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    flows = [one for name, one in report["ledger"].items() if not name.startswith(_BEHIND)]
    yield from _unequal("steps of the flow", len(table[1:]), len(flows) if table else 0)
    for (step, _, came, left, tokens, said), flow in zip(table[1:], flows, strict=False):
        gone, added = (sum(one["documents"] for one in flow.get(key, {}).values()) for key in _ASIDE)
        yield from _unequal(f"{step}: in", _number(came), flow["input"]["documents"])
        yield from _unequal(f"{step}: out", _number(left), flow["output"]["documents"])
        yield from _unequal(f"{step}: tokens", _number(tokens), flow["output"]["tokens"] or 0)
        whole = flow["input"]["documents"] + added
        yield from _unequal(f"{step}: out and gone, of in and added", _number(left) + gone, whole)
        yield from _unequal(
            f"{step}: copies", re.search(rf"(?<![\d,]){added:,} copies", said) is not None, added > 0
        )


def _dropped(table: Cells, report: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    documents = report["documents"]
    stored = {**documents["dropped"], **documents.get("removed", {})}
    for _, reason, shown, _ in table[1:]:
        yield from _unequal(reason or "kept", _number(shown), stored.get(reason, documents.get("kept")))
    if table and "kept" in documents:
        total = sum(_number(row[2]) for row in table[1:])
        yield from _unequal("dropped, removed and kept", total, documents["read"])


def _languages(table: Cells, report: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    stored = {one["language"]: one for one in report["languages"]}
    for key in ("documents", "tokens") if table else ():
        shown = {row[0]: _number(row[table[0].index(key)]) for row in table[1:]}
        for name in shown.keys() & stored.keys():
            yield from _unequal(f"{key} of {name}", shown[name], stored[name][key])
        total = sum(one[key] for one in stored.values())
        yield from _unequal(f"{key} of all languages", sum(shown.values()), total)


def _rows(table: Cells, report: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    stored = {f"{n}/{s}": one for n, splits in report["datasets"].items() for s, one in splits.items()}
    yield from _unequal("splits", [row[0] for row in table[1:]], list(stored))
    for name, *shown, _ in table[1:]:
        totals = [stored[name][key] for key in ("rows", "documents", "tokens", "tokens_cut")]
        yield from _unequal(name, [_number(one) for one in shown], totals)


def _cost(table: Cells, report: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    stored = {one["step"]: one for one in report["steps"]}
    for row in table[1:]:
        if row[0] in stored:
            cpu = float(row[table[0].index("CPU s")].replace(",", ""))
            yield from _unequal(f"CPU s of {row[0]}", cpu, round(stored[row[0]]["cpu_seconds"], 1))


def _unequal(what: str, shown: Any, stored: Any) -> Iterator[tuple[str, Any, Any]]:
    if shown != stored:
        yield what, shown, stored


def _number(shown: str) -> int:
    return int(shown.replace(",", "") or 0)
