"""Browsers, phones and desktops: elements that are not there, actions without effect, forms that object."""

from drivetrain.judge.sources.environment.families.rule import Rule, rule

_OBJECTS = (
    r"(?:wrong|incorrect|invalid|failed|failure|error|unable|could not|couldn't|cannot|can't|"
    r"not (?:valid|match|allowed|"
    r"accepted|recogni[sz]ed)|denied|expired|declined|rejected|required|must be|too (?:short|long|weak|many|large)|"
    r"try again|错误|有误|失败|无效|不正确|不能为空|必填|不匹配|不一致|"
    r"已过期|过期|超时|重新输入|请填写|请输入|请选择|格式)"
)

GUI: tuple[Rule, ...] = (
    rule(
        "element",
        "absent",
        r"^.*(?:(?:element|ref|selector|node|locator|index|button|target)\b.{0,60}\b(?:not found|"
        r"does not exist|no longer|"
        r"not (?:visible|attached|clickable|interactable|enabled)|outside of the viewport|is stale|is disabled)|"
        r"no (?:such )?element|no node found|did not find (?:some|any) options|strict mode violation|stale element|"
        r"unable to locate|intercepts pointer events).*$",
    ),
    rule(
        "element",
        "absent",
        r"^.*(?:找不到|未找到|没有找到|不存在|无法定位).{0,20}(?:元素|控件|按钮|节点|编号|窗口|应用).*$",
    ),
    rule(
        "element",
        "absent",
        r"^.*(?:元素|控件|按钮|节点|窗口|应用|编号).{0,30}(?:不存在|找不到|未找到|不可见|不可点击|已失效|无法点击).*$",
    ),
    rule("waiting", "timeout", r"^.*(?:waiting for (?:element|locator|selector).*|等待.{0,20}超时.*)$"),
    rule(
        "no effect",
        "crash",
        r"^.*(?:(?:screen|page|window|view|state) (?:did not|didn't|has not|hasn't) changed?|"
        r"nothing (?:happened|changed)|"
        r"(?:has|had|with) no effect|no (?:visible )?change\b|"
        r"(?:屏幕|页面|界面|画面|窗口)(?:没有|未|无)(?:发生)?(?:任何)?变化|"
        r"没有(?:任何)?(?:反应|响应|效果)|点击无效|未生效).*$",
        where="anywhere",
    ),
    rule(
        "action",
        "crash",
        r"^(?:action (?:result|failed|error)|操作结果|执行结果|动作结果)[:：]? ?.{0,40}"
        r"(?:could not|couldn't|failed|cannot|can't|"
        r"unable|error|takes no|not (?:found|possible)|失败|无法|不能|错误|未找到|找不到).*$",
        where="anywhere",
    ),
    rule(
        "alert",
        "refused",
        r"^\s*(?:- )?(?:alert|dialog|toast|提示|警告|弹窗|弹出提示) ?[^:：\n]{0,20}[:：] ?.*" + _OBJECTS + r".*$",
        where="anywhere",
    ),
    rule(
        "form",
        "refused",
        r"^\s*(?:- )?(?:(?:text|status|paragraph|文本|状态)[^:：\n]{0,12}[:：] ?)?\"?(?:please (?:enter|provide|"
        r"fill|select|choose|"
        r"complete|correct|check)\b|this field is required|"
        r"请填写|请输入有效|请输入正确|请先(?:选择|填写|登录|勾选)).*$",
        where="anywhere",
    ),
)
