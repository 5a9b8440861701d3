"""A static site whose text comes from a script."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

SITE = Path(__file__).parent / "site"
NAMES = {page.name for page in SITE.iterdir()}
KINDS = {".html": "text/html", ".js": "text/javascript"}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = urlsplit(self.path).path.strip("/") or "index.html"
        page = SITE / name
        if name in NAMES:
            self.reply(200, page.read_text(), KINDS[page.suffix])
        else:
            self.reply(404, "<h1>Not found</h1>", "text/html")

    def reply(self, status, body, kind="application/json"):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open("site.url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}\n")
print("ready", flush=True)
server.serve_forever()
