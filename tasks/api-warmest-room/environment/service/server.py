"""Rooms and their temperatures."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ROOMS = {"kitchen": 21.5, "attic": 27.0, "cellar": 14.0, "hall": 19.5}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path = urlsplit(self.path).path.strip("/").split("/")
        if path == ["rooms"]:
            self.reply(200, {"rooms": sorted(ROOMS)})
        elif path[0] == "rooms" and len(path) == 2 and path[1] in ROOMS:
            self.reply(200, {"room": path[1], "temperature": ROOMS[path[1]]})
        else:
            self.reply(404, {"error": "try /rooms or /rooms/NAME"})

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
