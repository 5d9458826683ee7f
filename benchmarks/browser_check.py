"""The report in a real browser: nothing fails, nothing is fetched, nothing stands in a reader's way.

    python benchmarks/browser_check.py RUN... --screenshots DIR

Each page is opened on a desktop and on a phone, light and dark, with Chromium. Every part that can be
opened is opened. What is checked: errors of the console, requests, axe-core's rules of every level, that
nothing is wider than a phone, that the tables of the flow, of drops, languages, rows and costs show what
report.json says and add up, and the seconds to load.
On the desktop the questions that people ask of a run are answered by clicking, and answers are printed.

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
from browser_sums import wrong_sums
from playwright.sync_api import sync_playwright

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
QUESTIONS = (
    ("Can I train on it?", "verdict", ".verdict"),
    ("How many documents were lost, and at which step?", "flow", "table"),
    ("May I trust the validation split: how much is held out?", "flow", "tr:has-text('for validation')"),
    ("Why did documents go?", "dropped", "table"),
    ("How do I learn why one document went?", "dropped", "p:has-text('--document ID')"),
    ("What was taken for a duplicate, and of what?", "duplicates", "details.cluster"),
    ("What are the texts made of?", "texts", "ul.panels"),
    ("Which language pays most for its tokens?", "languages", "h3:has-text('pays most') ~ *"),
    ("Did I get the mix that I asked for?", "mix", "table"),
    ("How long are the documents?", "rows", "p:has-text('Half of the documents')"),
    ("What does a model see?", "rows", "h3:has-text('as a model gets it') ~ *"),
    ("How full are the rows?", "rows", "h3:has-text('How full') ~ *"),
    ("Which gate says so, and why?", "proof", "ul.gates"),
    ("What did it cost?", "cost", "table"),
    ("How do I make it again?", "made", "table"),
)
"""Questions, the section that answers each, and what in it does."""
MOST_CLICKS = 3
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
                if not found[1:]:
                    found[0]["questions"] = answers(context.new_page(), run)
                    found[0]["faults"] += [
                        f"no answer: {one['question']}"
                        for one in found[0]["questions"]
                        if not one["answer"] or one["clicks"] > MOST_CLICKS
                    ]
                context.close()
        chromium.close()
    return found


def answers(page: Any, run: Path) -> list[dict[str, Any]]:
    """Return the answers of a page to the questions that it has a section for, found by clicking."""
    found = []
    place = (run / "report" / "index.html").resolve().as_uri()
    for question, section, what in QUESTIONS:
        page.goto(place, wait_until="load")
        link = page.locator(f'nav a[href="#{section}"]')
        answer = page.locator(f"section[aria-labelledby={section}] {what}").first
        if not link.count() or not answer.count():
            continue
        link.click()
        clicks = 1
        for closed in answer.locator("xpath=ancestor-or-self::details[not(@open)]").all():
            closed.locator("summary").first.click()
            clicks += 1
        said = " ".join(answer.inner_text().split()) if answer.is_visible() else ""
        found.append({"question": question, "clicks": clicks, "answer": said[:200]})
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
    faults += wrong_sums(page, report)
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
