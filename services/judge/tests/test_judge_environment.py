"""Tool results as real harnesses send them: what is a failure, and what only contains the word."""

import pytest

from tests.judge_tools import tool, votes


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("<returncode>2</returncode>\n<output>\nls: cannot access 'x': No such file\n</output>",
        "exit code 2: ls: cannot"),
        ("Chunk ID: ab12\nWall time: 0.1 seconds\nProcess exited with code 127\nOutput:\nsh: 1: jqq: not found",
        "127"),
        ('{"output": "boom", "exit_code": 1, "error": null}', "exit code 1: boom"),
        ('{"returncode": -1, "output": "", "exception_info": "Command timed out after 3 seconds"}', "exit code -1"),
        ("Exit code 1\nboom", "exit code 1: boom"),
        ("boom\n\nCommand exited with code 3", "exit code 3: boom"),
        ("Command: ./x\nDirectory: (root)\nOutput: boom\nError: (none)\nExit Code: 4\nSignal: (none)",
        "exit code 4: boom"),
        ("boom\n[Python interpreter: /usr/bin/python]\n[The command completed with exit code 5.]",
        "exit code 5: boom"),
        ("boom\nExit code: 6", "exit code 6: boom"),
        ("命令输出\n退出码：7", "exit code 7: 命令输出"),
    ],
)  # fmt: skip
async def test_exit_codes_in_the_forms_of_each_harness(text: str, evidence: str) -> None:
    ((value, seen),) = await votes(tool(text))
    assert value == -1
    assert evidence in seen


@pytest.mark.parametrize(
    "text",
    [
        "Chunk ID: ab12\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nerror: none, all is well",
        "<returncode>0</returncode>\n<output>Traceback (most recent call last): in an old log</output>",
        '{"output": "2026-01-01 ERROR disk: Error: full", "exit_code": 0, "error": null}',
        "ERROR in a log\n[The command completed with exit code 0.]",
        "Output: fatal: this is a quotation\nExit Code: 0",
    ],
)
async def test_a_command_that_succeeded_may_print_what_it_likes(text: str) -> None:
    assert [value for value, _ in await votes(tool(text))] == [0]


async def test_nothing_but_a_missing_program_is_a_failure_whatever_the_pipe_says() -> None:
    piped = "<returncode>0</returncode>\n<output>\nbash: line 1: factors: command not found\n</output>"
    assert (await votes(tool(piped)))[0] == (-1, "bash: line 1: factors: command not found")


@pytest.mark.parametrize(
    "text",
    [
        # shells, in two languages
        "bash: foo: command not found", "zsh: command not found: foo", "sh: 1: foo: not found",
        "bash: 行 1: foo: 未找到命令", "cat: a.txt: No such file or directory", "cat: a.txt: 没有那个文件或目录",
        "rm: cannot remove 'x': Permission denied", "mkdir: 无法创建目录 “/opt/x”: 权限不够",
        "mkdir: cannot create directory 'x': File exists", "cp: write error: No space left on device",
        "'foo' is not recognized as an internal or external command,\noperable program or batch file.",
        "usage: todo [-h] {add,list}\ntodo: error: argument command: invalid choice: 'done'",
        "make: *** No rule to make target 'x'.  Stop.", 'npm ERR! Missing script: "build"',
        "Command timed out after 30 s", "Killed", "Segmentation fault (core dumped)",
        # languages and compilers
        "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'a'",
        "  x = 1\n      ^\nSyntaxError: invalid syntax", "Uncaught TypeError: x is not a function\n    at main.js:1:1",
        'Exception in thread "main" java.lang.NullPointerException\n\tat A.main(A.java:3)',
        "main.c:7:5: error: expected ';' before 'while'\n    7 |     while",
        "error[E0277]: the trait bound is not satisfied",
        "src/a.ts(3,5): error TS2322: Type 'string' is not assignable", "./main.go:4:2: undefined: x",
        "panic: runtime error: index out of range\n\ngoroutine 1 [running]:",
        "Greeter.java:7: error: cannot find symbol",
        "/usr/bin/ld: main.o: undefined reference to `f'\ncollect2: error: ld returned 1 exit status",
        "thread 'main' panicked at src/main.rs:2:5:\nboom", "PHP Fatal error:  Uncaught Error: x",
        "Error: in prepare, no such table: invoices",
        "fatal: not a git repository (or any parent up to mount point /)",
        # patches and edits
        "error: patch does not apply", "Hunk #1 FAILED at 12.\n1 out of 1 hunk FAILED",
        "error: corrupt patch at line 8",
        "<tool_use_error>String to replace not found in file.</tool_use_error>", "No match found for old_str in a.py",
        "Failed to find expected lines in a.py:\n    def f():", "CONFLICT (content): Merge conflict in a.py",
        "File has not been read yet. Read it first before writing to it.",
        # the network
        "curl: (7) Failed to connect to 127.0.0.1 port 1: Connection refused", "HTTP/1.1 503 Service Unavailable",
        "Request failed with status code 404", "404 Not Found", "curl: (22) The requested URL returned error: 404",
        "net::ERR_CONNECTION_REFUSED at http://localhost:1/",
        "ssh: Could not resolve hostname x: Name or service not known",
        '{"status": 404, "body": "no such page"}', '{"statusCode": 500}',
        '{"status_code": 401, "text": "log in first"}',
        # tools
        '{"error": "element not found"}', '{"error": {"code": "missing", "message": "\'city\' is required"}}',
        '{"success": false, "message": "action must be one of play, pause"}', '{"ok": false}',
        '{"code": 400, "msg": "参数错误"}',
        '{"status": "declined", "reason": "insufficient_funds"}', '{"result": "Error: no route"}',
        "Error executing tool query: incomplete input", "unknown tool: set_light", "Tool 'browser_back' not found",
        "Invalid arguments for tool f: day must match ^\\d+$", "Error: 'ana' is not a valid e-mail address",
        "No booking with id B-77. Use find_booking first.", "Missing required parameter: city",
        "[ERROR] quota exceeded",
        "预订失败：场次不存在", "未知的设备：bedroom_ac，可用设备：ac_1", "错误：找不到元素 e40，请重新获取页面快照",
        "参数错误：day 必须是日期",
        "Unable to send the message", "Access denied", "MCP error -32602: Input validation error",
        # browsers, phones and desktops
        "Error: Ref e99 not found in the current page snapshot.",
        "TimeoutError: locator.click: Timeout 5000ms exceeded.",
        "Element with index 12 does not exist", "Error: element is outside of the viewport",
        "Tapped (540, 2010). The screen did not change.", "已点击 (540, 2010)，屏幕没有变化",
        "Page URL: https://a.example/hours\nPage Title: 404 - page not found",
        "Page URL: https://a.example/login\n- alert: The user name or password is wrong.\n- textbox \"User\" [ref=e3]",
        "Page URL: https://a.example/\n- textbox [ref=e6]\n- text: Please enter a valid phone number.",
        "登录\n提示：验证码错误，请重新输入",
        "页面网址：https://a.example/\n- 提示：请填写姓名\n- 按钮“提交” [ref=e1]",
        "StaleElementReferenceException: stale element reference",
    ],
)  # fmt: skip
async def test_failures_vote_against_the_turn(text: str) -> None:
    ((value, seen),) = await votes(tool(text))
    assert value == -1
    assert seen


@pytest.mark.parametrize(
    "text",
    [
        "README.md\nsrc\ntests", "No errors were found.", "The weather in Oslo: 4 degrees", "", "6.5", "ok",
        '{"error": null, "result": 3}', '{"errors": [], "data": {"name": "error log"}}',
        '{"is_error": false, "value": 0}',
        '{"status": 200, "body": "all errors are logged"}', '{"status": "open", "title": "Lift failed"}',
        '{"code": 0}',
        '[{"id": 12, "title": "Error when saving"}, {"id": 15, "title": "Error 500 after login"}]',
        '{"results": [{"title": "Why the bridge failed: an error"}], "error": null}', '{"matches": []}',
        '{"flights": []}',
        '{"城市": "深圳", "天气": "多云"}', '{"total": 2, "items": ["语音识别错误率的下界"]}',
        'Page URL: https://news.example/\n- link "Error in tax software costs town millions" [ref=e3]',
        "窗口：错误报告。3 个项目：一月.docx、二月.docx",
        "Scrolled by 900. Visible: Reviews (127), 'Terrible, failed after a day'",
        "Success: no issues found in 2 source files", "0 errors, 0 warnings", "1 file left unchanged",
        "Done in 1.2 s (0 failed)", "Action result: typed 'Rome' into element 8.", "No results.", "没有安装",
    ],
)  # fmt: skip
async def test_a_normal_result_is_information(text: str) -> None:
    assert [value for value, _ in await votes(tool(text))] == [0]
