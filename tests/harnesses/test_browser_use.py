"""browser-use opens a page in a real browser: each step is a prompt of its own, and the model reads the page."""

import json
import shutil
from typing import Any

import pytest
from aiohttp import web

from drivetrain.cli.connecting.programs import find
from drivetrain.common.harnesses import load_harnesses
from drivetrain.proxy.prompts.templates import Template
from tests.harnesses.conftest import captured
from tests.harnesses.driving import MODEL, ROOT, drive, whole_prompt
from tests.proxy_engine import Script, StubEngine
from tests.proxy_served import Proxy
from tests.servers import free_port

PAGE = "<html><body><h1>Opening hours</h1><p>The museum opens at nineteen past ten.</p></body></html>"


def says(*actions: dict[str, Any]) -> str:
    told = {"evaluation_previous_goal": "-", "memory": "-", "next_goal": "-", "thinking": "-"}
    return json.dumps({**told, "action": list(actions)})


@pytest.mark.long
async def test_what_a_page_says_reaches_the_model_in_the_next_step(
    proxy: Proxy, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVETRAIN_HOME", str(ROOT / ".harness"))
    browser_use = load_harnesses()["browser-use"]
    if find(browser_use) is None or shutil.which("chromium") is None:
        pytest.skip("`drivetrain harness install browser-use` and `apt install chromium` bring what this needs")
    tokenizer = Template(str(MODEL)).tokenizer

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    app, port = web.Application(), free_port()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()

    def model(request: dict[str, Any]) -> Script:
        prompt = tokenizer.decode(request["token_ids"])
        done = {"done": {"text": "At 10:19.", "success": True, "files_to_display": []}}
        goes = {"navigate": {"url": f"http://127.0.0.1:{port}/", "new_tab": False}}
        words = says(done if "nineteen past ten" in prompt else goes)
        return Script(list(tokenizer.encode(f"{words}<|im_end|>", add_special_tokens=False)))

    try:
        run = await drive(browser_use, None, proxy, engine, model)
    finally:
        await runner.cleanup()
    assert run.trial.status == 0, run.trial.output
    captured(browser_use, "chat", run, len(engine.requests))
    first, second, *_ = run.turns
    assert "nineteen past ten" not in str(first.messages)
    assert "nineteen past ten" in str(second.messages)
    assert [whole_prompt(turn, run.turns) for turn in run.turns] == [sent["token_ids"] for sent in engine.requests]
