"""What would have spared a failure, by how the failure reads: the first line that matches counts."""

import re
from typing import NamedTuple


class Advice(NamedTuple):
    """How a failure reads in lower case, and what to do about it, in English and in Chinese."""

    reads: re.Pattern[str]
    english: str
    chinese: str

    @classmethod
    def of(cls, reads: str, english: str, chinese: str) -> "Advice":
        return cls(re.compile(reads), english, chinese)


ADVICE: tuple[Advice, ...] = (
    Advice.of(
        r"must occur exactly once|string to replace|old_?str|search (?:block|text)|no match(?:es)? found for|要替换的",
        "Read the file first and copy the text to replace exactly, with enough around it to be unique.",
        "先读一遍文件，把要替换的原文连同上下文一字不差地抄下来。",
    ),
    Advice.of(
        r"corrupt patch|malformed patch|hunk #?\d* ?failed|patch (?:does not apply|failed)|invalid context|garbage in",
        "Read the file as it is now before writing a patch against it.",
        "写补丁之前先读一遍文件现在的内容。",
    ),
    Advice.of(
        r"\bref \w+ not found|stale|new snapshot|element (?:not found|does not exist)"
        r"|(?:元素|编号).*(?:快照|失效|不存在)|(?:找不到|未找到)元素",
        "Take a fresh snapshot of the page and use only references that are in it.",
        "先看一眼最新的快照，只用里面有的编号。",
    ),
    Advice.of(
        r"not (?:visible|attached|clickable|interactable|enabled)\b|outside of the viewport|to be visible"
        r"|不可点击|不可见",
        "Scroll to the element or wait for it, and make sure that it can be used before acting on it.",
        "先滚动到该元素或等它出现，确认可用后再操作。",
    ),
    Advice.of(
        r"takes no input|screen did not change|nothing (?:happened|changed)|no effect|没有(?:反应|响应|变化)",
        "Look at the screen again and choose an element that takes this action.",
        "重新看一下界面，选一个能接受该操作的元素。",
    ),
    Advice.of(
        r"did not find (?:some|any) options|must be one of|not (?:a )?valid (?:choice|option)|invalid choice"
        r"|(?:unknown|no such) (?:tool|function|device)|未知的(?:设备|工具)|does not exist, .* are:|\bavailable:",
        "Look up which names and values exist here, and use one of them as it is written.",
        "先查清这里有哪些名称和取值，照原样选用其中一个。",
    ),
    Advice.of(
        r"page not found|no such page|\b404\b|页面不存在",
        "Start from a page that is known to exist and follow its links instead of guessing an address.",
        "从确定存在的页面开始，顺着链接走，不要猜网址。",
    ),
    Advice.of(
        r"user name or password|password is wrong|log ?in failed|验证码错误|密码错误",
        "Check what is typed into the form against what was given before sending it.",
        "提交前核对填入的内容和给定的是否一致。",
    ),
    Advice.of(
        r"please (?:enter|provide|fill|select|choose)|field is required|请(?:填写|输入|选择)|不能为空|必填",
        "Fill in every required field, in the form that the page asks for, before sending it.",
        "提交前按要求填好每一个必填项。",
    ),
    Advice.of(
        r"no such (?:column|table)|unknown column|column .* does not exist|relation .* does not exist",
        "Look at the tables and their columns before writing the query.",
        "写查询之前先看一下有哪些表和列。",
    ),
    Advice.of(
        r"constraint failed|violates .*constraint|duplicate (?:key|entry)",
        "Look at the rules of the table and keep to them in what is written to it.",
        "先看表的约束，写入的数据要满足它。",
    ),
    Advice.of(
        r"database is locked|too many requests|\b429\b|\b50[023]\b|temporar|try again later|服务繁忙",
        "Wait a little before the same request is sent again, and do not give it up at the first refusal.",
        "稍等一会儿再发同样的请求，不要一次不成就放弃。",
    ),
    Advice.of(
        r"no time zone|zoneinfo",
        "Name a time zone as Region/City, by a city that the time zone database knows.",
        "时区写成洲名加城市名，选数据库里有的城市。",
    ),
    Advice.of(
        r"isoformat|must (?:be|match) .*(?:\^|yyyy|iso|format|格式)|date .*format|日期.*格式|必须是.*格式"
        r"|out of range for month",
        "Write dates, codes and other values in the format that the tool documents.",
        "日期、代码等参数按工具要求的格式填写。",
    ),
    Advice.of(
        r"(?:is|are) required\b|missing .*(?:parameter|argument|field)|missing_parameter|缺少.*参数|参数.*必填",
        "Give every required argument under the name that the tool documents.",
        "按工具说明的名称给出每一个必需的参数。",
    ),
    Advice.of(
        r"no booking|(?:no|unknown|not a valid) .{0,30}\bid\b|\bid\b.{0,30}(?:not found|does not exist)"
        r"|use find_\w+ first|场次不存在|订单不存在",
        "Look the entry up first and act on the identifier that the search returns.",
        "先查询，再用查到的编号操作。",
    ),
    Advice.of(
        r"invalid (?:arguments?|parameters?|params)|参数(?:错误|有误|无效)|not a valid|host bits set|incorrect padding"
        r"|invalid literal|not allowed in an expression",
        "Check each argument against what the tool documents, its form included, before calling it.",
        "调用前逐个核对参数是否符合工具的说明，包括写法。",
    ),
    Advice.of(
        r"command not found|not recognized as|未找到命令|找不到命令|: not found$",
        "Check that a program is installed before calling it, and fall back on one that is.",
        "调用命令前先确认已安装，没有就换一个有的。",
    ),
    Advice.of(
        r"permission denied|operation not permitted|权限不够|拒绝访问|access denied",
        "Stay where you have the rights for it, or ask for them, instead of trying what needs others.",
        "在有权限的地方操作，需要更高权限时先征得同意。",
    ),
    Advice.of(
        r"timed out|timeout|超时",
        "Bound what may wait for ever: give it a time limit, or run it in the background and look at it later.",
        "可能一直等待的操作要设时限，或放到后台再查看结果。",
    ),
    Advice.of(
        r"failed to connect|couldn't connect|connection refused|econnrefused|连接被拒绝",
        "Make sure that the server runs and answers before sending it a request.",
        "先确认服务已启动并能应答，再发请求。",
    ),
    Advice.of(
        r"name_not_resolved|could not resolve|name or service not known|无法解析",
        "Check the address for its exact spelling before opening it.",
        "打开之前核对地址的拼写。",
    ),
    Advice.of(
        r"did not match any|not appear to be a git|ambiguous argument|unknown revision|未知的版本",
        "List the branches, tags and remotes that there are before naming one.",
        "先列出现有的分支、标签和远程仓库，再指定其中一个。",
    ),
    Advice.of(
        r"no rule to make|missing script|没有规则",
        "List the targets or scripts that the project defines before running one.",
        "先看项目定义了哪些目标或脚本，再运行。",
    ),
    Advice.of(
        r"module_?not_?found|no module named|cannot find module|classnotfound|could not find or load"
        r"|could not be found in registry",
        "Check that the module is there under exactly that name, and make it available before it is used.",
        "先确认模块确实存在且名称无误，需要时先安装或编译。",
    ),
    Advice.of(
        r"has no attribute|cannot find symbol|undefined (?:method|function|reference)|nameerror|is not defined",
        "Check what type a value has and which names it offers before using one.",
        "先确认值的类型和它有哪些方法、属性，再使用。",
    ),
    Advice.of(
        r"no such file|cannot (?:stat|open|find or open|create)|filenotfound|没有那个文件|无法(?:创建|读取)|不是目录",
        "List the folder first: check that each path exists, under exactly that name, and create what is missing.",
        "先列一下目录：确认每个路径都存在、名称无误，缺的先建好。",
    ),
    Advice.of(
        r"invalid option|unrecognized|unknown .*flag|invalid choice|usage:",
        "Read the program's help before giving it commands or options.",
        "先看程序的帮助，再使用它的子命令和选项。",
    ),
    Advice.of(
        r"indentationerror|unindent|unexpected indent",
        "Indent what is added exactly like the lines around it.",
        "新加的代码要和前后各行缩进一致。",
    ),
    Advice.of(
        r"syntaxerror|invalid syntax|parse error|incomplete input|expected .{0,12}[;,)}]|语法错误",
        "Before running it, read what was written once more for its syntax: commas, brackets, semicolons.",
        "运行前检查语法，比如漏掉的逗号、括号或分号。",
    ),
    Advice.of(
        r"typeerror|mismatched types|incompatible type|e0277|trait bound",
        "Convert a value to the type that is expected before passing it on.",
        "传值之前先转换成需要的类型。",
    ),
    Advice.of(
        r"zerodivision|keyerror|indexerror|out of range|index out of",
        "Check that the value is there, and fit for it, before calculating with it.",
        "计算前先确认值存在且合适。",
    ),
    Advice.of(
        r"line too long|\blint\b",
        "Keep to the style that the project's linter checks.",
        "遵守项目的代码风格检查。",
    ),
)
TESTS = Advice.of(
    r"",
    "Read what the failing test checks and follow it through the code before changing anything.",
    "改代码之前，先看失败的测试检查什么，再顺着代码找原因。",
)
"""For tests that ran and failed."""
