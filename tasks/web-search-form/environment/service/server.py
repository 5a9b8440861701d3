"""A search form and what it finds."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

FERRIES = {"skagen": ["06:45", "12:10"], "visby": ["07:20", "19:00"]}
FORM = '<form action="/search"><label>To <input name="to"></label><button>Search</button></form>'


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        if url.path != "/search":
            self.reply(200, f"<!doctype html><title>Ferries</title><h1>Ferries</h1>{FORM}", "text/html")
            return
        wanted = parse_qs(url.query).get("to", [""])[0].strip().lower()
        times = "".join(f"<li>{time}</li>" for time in reversed(FERRIES.get(wanted, [])))
        self.reply(200, f"<!doctype html><title>Found</title><ul>{times}</ul>", "text/html")

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
