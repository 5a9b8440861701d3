"""Exceptions of languages and errors of compilers."""

from drivetrain.judge.sources.environment.families.rule import Rule, rule

CODE: tuple[Rule, ...] = (
    rule("traceback", "crash", r"^Traceback \(most recent call last\):$", case=True, where="anywhere"),
    rule(
        "exception",
        "crash",
        r"^(?:Uncaught |Unhandled |Caused by: |Exception in thread \S+ )?"
        r"(?:[A-Za-z_][\w.$]*)?(?:Error|Exception|Interrupt)(?: \[\w+\])?(?:: .*|$)",
        case=True,
    ),
    rule(
        "gcc, clang, javac",
        "crash",
        r"^[^\s:][^:\n]*:\d+(?::\d+)?: (?:fatal )?(?:error|错误)[:：] .*$",
        where="anywhere",
    ),
    rule("compiler", "crash", r"^\w+: (?:fatal )?error: .*$"),
    rule("rustc", "crash", r"^error(?:\[E\d{4}\])?: .*$", case=True),
    rule("tsc", "crash", r"^.*\berror TS\d+: .*$", case=True, where="anywhere"),
    rule("go", "crash", r"^\S+\.go:\d+:\d+: .*$"),
    rule("linker", "crash", r"^.*(?:undefined reference to|ld returned \d+ exit status).*$"),
    rule("rust panic", "crash", r"^thread '.*' (?:\(\d+\) )?panicked at .*$"),
    rule("goroutine", "crash", r"^panic: .*$", case=True),
    rule("node", "crash", r"^(?:node:internal/.*:\d+|\s+throw (?:err|new \w+).*)$", case=True),
    rule(
        "php, ruby",
        "crash",
        r"^(?:PHP )?(?:Fatal|Parse) error: .*$|^\S+\.rb:\d+:in .*(?:Error|Exception).*$",
        case=True,
    ),
    rule("sql", "crash", r"^(?:Error|ERROR)(?: \d+)?(?: \(\w+\))?: (?:in prepare, |stepping, |near ).*$", case=True),
    rule("git", "crash", r"^(?:error|错误)[:：].*$"),
    rule("tar", "crash", r"^\w+: (?:Exiting with failure status|error is not recoverable).*$"),
)
