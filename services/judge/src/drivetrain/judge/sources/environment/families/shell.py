"""What shells, coreutils and programs started from them print, in English and in Chinese."""

from drivetrain.judge.sources.environment.families.rule import Rule, rule

_PROGRAM = r"^(?:[\w./+-]+: )+(?:[^\n]*[:：] ?)?"
"""`bash: line 1: `, `cat: /etc/x: `: who complains, and of what."""

SHELL: tuple[Rule, ...] = (
    rule(
        "command not found", "absent", r"^.*(?:: (?:command )?not found\b|未找到命令|找不到命令|command not found:).*$"
    ),
    rule(
        "command not recognised",
        "absent",
        r"^.*(?:is not recognized as (?:an internal|the name)|不是内部或外部命令).*$",
    ),
    rule("no such file", "absent", _PROGRAM + r".*(?:no such file or directory|没有那个文件或目录).*$"),
    rule(
        "permission denied",
        "refused",
        r"^.*(?:permission denied|operation not permitted|权限不够|不允许的操作|拒绝访问|access (?:is )?denied).*$",
    ),
    rule("read-only", "refused", r"^.*(?:read-only file system|只读文件系统).*$"),
    rule(
        "wrong kind of file",
        "crash",
        _PROGRAM + r".*(?:is a directory|not a directory|file exists|directory not empty|不是目录|是一个目录"
        r"|文件已存在|目录非空|cannot stat|cannot access|cannot open|cannot create|无法创建|无法读取|无法获取).*$",
    ),
    rule("no space", "crash", r"^.*(?:no space left on device|disk quota exceeded|设备上没有空间).*$"),
    rule("killed", "crash", r"^(?:.*: )?(?:killed|segmentation fault|out of memory|已杀死|段错误).*$"),
    rule("fatal", "crash", r"^(?:fatal|panic|致命错误)(?:[:：]| error).*$"),
    rule("usage", "usage", r"^(?:.*: )?(?:unrecognized (?:option|arguments?)|invalid option|unknown .*flag)\b.*$"),
    rule("bad choice", "usage", r"^.*: error: (?:argument|the following arguments).*$"),
    rule("no rule", "absent", r"^make(?:\[\d+\])?: \*\*\* .*$"),
    rule("script", "absent", r"^(?:npm (?:error|err!)|yarn error|err_pnpm\w*) .*$"),
    rule(
        "timed out",
        "timeout",
        r"^.*(?:\btimed out (?:after|in)\b|\btimeout (?:expired|exceeded|\d+ ?m?s exceeded)|deadline exceeded"
        r"|执行超时|请求超时|连接超时|操作超时).*$",
    ),
    rule("timed out", "timeout", r"^(?:[\w.]*(?:error|exception)[:：] )?(?:the )?.{0,80}\btimed out\.?$"),
)
