"""A message behind a password."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "t-5f21c9"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            sent = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            sent = None
        if sent == {"user": "ada", "password": "engine-1843"}:
            self.reply(200, {"token": TOKEN})
        else:
            self.reply(401, {"error": "wrong user or password"})

    def do_GET(self):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(401, {"error": "no token: POST /login"})
        else:
            self.reply(200, {"message": "the tide turns at noon"})

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
