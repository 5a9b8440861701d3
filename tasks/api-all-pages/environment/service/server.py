"""Payments in pages."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

AMOUNTS = [12, 7, 30, 4, 18, 9, 25, 11, 6, 40, 3]
SIZE = 4


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        page = parse_qs(url.query).get("page", ["1"])[0]
        if url.path != "/payments" or not page.isdecimal() or int(page) < 1:
            self.reply(404, {"error": "try /payments?page=1"})
            return
        first = (int(page) - 1) * SIZE
        payments = [{"amount": amount} for amount in AMOUNTS[first : first + SIZE]]
        following = int(page) + 1 if first + SIZE < len(AMOUNTS) else None
        self.reply(200, {"payments": payments, "next": following})

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
with open("api.url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}\n")
print("ready", flush=True)
server.serve_forever()
