"""The figures of a campaign of kills: its table, and its verdict."""

from typing import Any


def passed(content: dict[str, Any]) -> bool:
    """Say whether a campaign proved what it set out to."""
    sound = not (content["differing"] or content["broken_promises"] or content["left_in_tmp"])
    whole = len(content["kills"]) == content["kills_asked"] and content["completed"]
    return bool(sound and whole and content["files"])


def print_figures(content: dict[str, Any]) -> None:
    """Print the campaign as a table, and its verdict."""
    names = ("lost", "leftover", "recovery", "after_restart")
    print(f"\n{'kill':>4} {'step':<14}{'victim':<8}" + "".join(f"{name:>15}" for name in names))
    for number, kill in enumerate(content["kills"], 1):
        seconds = [kill[f"{name}_seconds"] for name in names]
        cells = "".join(f"{'-' if value is None else f'{value:.1f} s':>15}" for value in seconds)
        print(f"{number:>4} {kill['step'] or '(starting)':<14}{kill['victim']:<8}{cells}")
    print(
        f"{len(content['kills'])} of {content['kills_asked']} kills, {len(content['attempts'])} starts,"
        f" {content['wall_seconds']:.0f} s: {content['overhead_seconds']:+.0f} s on the reference,"
        f" {content['lost_seconds']:.0f} s of tasks done again"
    )
    print(f"{content['files']:,} files, {len(content['differing'])} differ from the reference")
    for line in [*content["differing"][:20], *content["broken_promises"], *content["left_in_tmp"]]:
        print(f"  {line}")
    print("PASS" if passed(content) else "FAIL")
