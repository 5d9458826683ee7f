"""The report in a real browser: nothing fails, nothing is fetched, nothing stands in a reader's way.

    python benchmarks/browser_check.py RUN... --screenshots DIR

Each page is opened on a desktop and on a phone, light and dark, with Chromium. Every part that can be
opened is opened. What is checked: errors of the console, requests, axe-core's rules of every level, that
nothing is wider than a phone, that the first numbers are those of report.json, and the seconds to load.

Needs `pip install '.[browser]'` and a Chromium on the path (`--browser` names another).
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
_NUMBERS = "() => [...document.querySelectorAll('.numbers b')].map(one => one.textContent)"
_OPEN = "() => { const all = [...document.querySelectorAll('details')]; all.forEach(one => { one.open = true }); return all.length }"  # noqa: E501  # one line of another language
_WIDER = "() => document.documentElement.scrollWidth - window.innerWidth"
_LINKS = "() => [...document.querySelectorAll('nav a')].map(one => one.getAttribute('href'))"


def main() -> int:
    """Check pages; print a line for each and exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--browser", default=shutil.which("chromium") or shutil.which("chromium-browser")
    )
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    if arguments.browser is None:
        print("no Chromium on the path: install one, or name it with --browser", file=sys.stderr)
        return 2
    failed = False
    for run in arguments.runs:
        for found in check_run(run, arguments.browser, arguments.screenshots):
            failed |= bool(found["faults"])
            print(json.dumps(found, ensure_ascii=False))
    return int(failed)


def check_run(run: Path, browser: str, screenshots: Path | None) -> list[dict[str, Any]]:
    """Return what was found of a run's page, for each size and scheme."""
    found = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                context = chromium.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                )
                found.append(_check(context.new_page(), run, f"{size}-{scheme}", screenshots))
                context.close()
        chromium.close()
    return found


def _check(page: Any, run: Path, kind: str, screenshots: Path | None) -> dict[str, Any]:
    faults: list[str] = []
    requests: list[str] = []
    page.on(
        "console",
        lambda message: faults.append(f"console: {message.text}") if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: faults.append(f"page: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    place = (run / "report" / "index.html").resolve()
    began = time.monotonic()
    page.goto(place.as_uri(), wait_until="load")
    seconds = time.monotonic() - began
    faults += [f"request: {url}" for url in requests[1:]]
    opened = page.evaluate(_OPEN)
    for link in page.evaluate(_LINKS):
        page.click(f'nav a[href="{link}"]')
        if not page.locator(link).is_visible():
            faults.append(f"{link} is not seen")
    if (wider := page.evaluate(_WIDER)) > 0:
        faults.append(f"the page is {wider} pixels wider than the window")
    violations = Axe().run(page).response["violations"]
    faults += [
        f"axe: {one['id']} ({one['impact']}): {one['nodes'][0]['html'][:120]}" for one in violations
    ]
    report = json.loads((run / "report" / "report.json").read_text(encoding="utf-8"))
    shown = page.evaluate(_NUMBERS)
    expected = [f"{report['documents']['read']:,}"]
    if "kept" in report["documents"]:
        expected.append(f"{report['documents']['kept']:,}")
    if shown[: len(expected)] != expected:
        faults.append(f"shown {shown[:2]}, in report.json {expected}")
    if screenshots is not None:
        screenshots.mkdir(parents=True, exist_ok=True)
        page.evaluate(
            "() => document.querySelectorAll('details').forEach((one, n) => { one.open = n < 1 })"
        )
        page.evaluate("() => window.scrollTo(0, 0)")
        page.screenshot(path=screenshots / f"{run.name}-{kind}.png", full_page=True)
    return {
        "run": str(run),
        "kind": kind,
        "seconds": round(seconds, 2),
        "bytes": place.stat().st_size,
        "opened": opened,
        "requests": len(requests) - 1,
        "faults": faults,
    }


if __name__ == "__main__":
    sys.exit(main())
