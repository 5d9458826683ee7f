"""Ask a browser and a library in which charset they read pages, and write their answers for the tests.

    npm install --prefix DIR html-encoding-sniffer
    PYTHONPATH=. python release/page_charsets.py NUMBER DIR [BROWSER]

It serves NUMBER generated pages on this machine, opens each in Chromium without a window, and writes
`tests/laws/page_charsets.json.gz`: the header Content-Type, the page, what the library finds before it
is parsed, and `document.characterSet`. jsdom uses html-encoding-sniffer.
"""

import base64
import gzip
import json
import random
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

from tests.laws.page_heads import NO_LABEL, generated_page

ANSWERS = Path(__file__).parents[1] / "tests" / "laws" / "page_charsets.json.gz"
DRIVER = f"""<!doctype html><meta charset={NO_LABEL}><iframe id=f></iframe><script>
(async () => {{
  const frame = document.getElementById("f"), found = [];
  for (let n = 0; n < NUMBER; n++) {{
    await new Promise((done) => {{ frame.onload = done; frame.src = "/" + n; }});
    found.push(frame.contentDocument.characterSet);
  }}
  await fetch("/answers", {{method: "POST", body: JSON.stringify(found)}});
}})();
</script>"""


def asked(pages: list[tuple[str, bytes]], browser: str) -> list[str]:
    """Return the charset in which a browser reads each page, a header Content-Type and bytes."""
    answers: list[str] = []
    done = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # its name
            name = self.path[1:]
            kind, body = "text/html", DRIVER.replace("NUMBER", str(len(pages))).encode()
            if name.isdecimal():
                kind, body = pages[int(name)]
            self.send_response(200 if name.isdecimal() or not name else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:  # its name
            answers.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            done.set()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        process = subprocess.Popen([browser, *options, "--remote-debugging-port=0", address])  # noqa: S603  # the browser that was named
        try:
            done.wait(1_800)
        finally:
            process.terminate()
            process.wait()
    server.shutdown()
    return answers


def sniffed(pages: list[bytes], folder: Path) -> list[str]:
    """Return what html-encoding-sniffer finds in each page; empty where it fails."""
    code = f"""
        const sniff = require({json.dumps(str(folder / "node_modules" / "html-encoding-sniffer"))});
        const pages = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const of = (page) => {{
          try {{
            return sniff(Buffer.from(page, "base64"), {{ defaultEncoding: "{NO_LABEL}" }});
          }} catch {{
            return "";
          }}
        }};
        process.stdout.write(JSON.stringify(pages.map(of)));"""
    coded = json.dumps([base64.b64encode(page).decode() for page in pages])
    run = subprocess.run(["node", "-e", code], input=coded, capture_output=True, text=True, check=True)  # noqa: S603, S607  # our own code
    found: list[str] = json.loads(run.stdout)
    return found


def main(number: int, folder: Path, browser: str = "chromium") -> None:
    """Write the answers."""
    pages = [generated_page(random.Random(n)) for n in range(number)]  # noqa: S311  # which pages
    before = sniffed([page for _, page in pages], folder)
    rows = [
        [kind, page.decode("latin-1"), early.lower(), charset.lower()]
        for (kind, page), early, charset in zip(pages, before, asked(pages, browser), strict=True)
    ]
    ANSWERS.write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]).resolve(), *sys.argv[3:])
