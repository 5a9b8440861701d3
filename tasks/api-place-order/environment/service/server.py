"""A shop that gives a receipt for each order."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ITEMS = {"desk-lamp": 20.0, "book": 9.9}


def receipt(item, count):
    return hashlib.sha256(f"{item} {count} of this shop".encode()).hexdigest()[:12]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if urlsplit(self.path).path == "/items":
            self.reply(200, {"items": ITEMS})
        else:
            self.reply(404, {"error": "try GET /items or POST /orders"})

    def do_POST(self):
        try:
            order = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            item, count = order["item"], int(order["count"])
        except (ValueError, KeyError, TypeError):
            self.reply(400, {"error": "send a JSON object with item and count"})
            return
        if item not in ITEMS:
            self.reply(422, {"error": f"there is no {item}: see GET /items"})
            return
        self.reply(201, {"item": item, "count": count, "receipt": receipt(item, count)})

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
