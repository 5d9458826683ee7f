"""The figures of a campaign of kills: its table, and its verdict."""

from collections.abc import Mapping
from typing import Any

MOST_SECONDS = 60.0
"""That a run may hang for after a kill, and that its processes may outlive it."""


def passed(content: dict[str, Any]) -> bool:
    """Say whether a campaign proved what it set out to."""
    sound = not (content["differing"] or content["broken_promises"] or content["left_in_tmp"])
    whole = len(content["kills"]) == content["kills_asked"] and content["completed"]
    return bool(sound and whole and content["files"] and not any(map(_fault, content["kills"])))


def _fault(kill: Mapping[str, Any]) -> str:
    """Say what is wrong with what came after a kill; empty if nothing is."""
    hung = kill.get("exit_seconds")
    if hung is None:
        hung = kill.get("recovery_seconds") or 0.0
    if hung > MOST_SECONDS:
        return f"nothing came of it for {hung:.0f} s"
    if kill.get("leftover_processes"):
        return f"left {', '.join(kill['leftover_processes'])}"
    return ""


def print_figures(content: dict[str, Any]) -> None:
    """Print the campaign as a table, and its verdict."""
    names = ("lost", "exit", "leftover", "recovery", "after_restart")
    print(f"\n{'kill':>4} {'step':<18}{'victim':<12}" + "".join(f"{name:>15}" for name in names))
    for number, kill in enumerate(content["kills"], 1):
        seconds = [kill[f"{name}_seconds"] for name in names]
        cells = "".join(f"{'-' if value is None else f'{value:.1f} s':>15}" for value in seconds)
        print(
            f"{number:>4} {kill['step'] or '(starting)':<18}{kill['victim']:<12}{cells}  {_fault(kill)}"
        )
    print(
        f"{len(content['kills'])} of {content['kills_asked']} kills, {len(content['attempts'])} starts,"
        f" {content['wall_seconds']:.0f} s: {content['overhead_seconds']:+.0f} s on the reference,"
        f" {content['lost_seconds']:.0f} s of tasks done again"
    )
    print(f"{content['files']:,} files, {len(content['differing'])} differ from the reference")
    for line in [*content["differing"][:20], *content["broken_promises"], *content["left_in_tmp"]]:
        print(f"  {line}")
    print("PASS" if passed(content) else "FAIL")
