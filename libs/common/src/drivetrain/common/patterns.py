"""What secrets and personal data look like: regular expressions by name, one list for every service.

They compile with `re` and with `regex`. Each service chooses which of them it masks, and how.
"""

from collections.abc import Mapping

PATTERNS: Mapping[str, str] = {
    # One that does not end is masked to the end: it may have been cut off.
    "private-key": (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    ),
    "api-key": (
        r"\b(?:sk|pk|rk)[-_](?:ant-|proj-|live_|test_|or-)?[A-Za-z0-9_-]{20,}"
        r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
        r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
        r"|\bxox[a-z]-[A-Za-z0-9-]{10,}|\bAIza[0-9A-Za-z_-]{30,}"
        r"|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{20,}|\b(?:pypi-|dop_v1_)[A-Za-z0-9_-]{20,}"
        r"|\bdtk_[a-z2-7]{8}_[A-Za-z0-9_-]{20,}|\bdtr_[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"
    ),
    "bearer": (
        r"(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}"
        r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}"
    ),
    "url-password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:[^\s/@\"']{1,200}@",
    "secret": (
        r"(?<![A-Za-z])(?i:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key)[\w-]{0,20}"
        r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?[^\s\"',;]{6,}"
    ),
    "e-mail": r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}\b",
    "phone": (
        r"(?<![\w.])\+\d(?:[ .()-]{0,2}\d){7,14}(?!\w)"
        r"|(?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?![\w-])"
        r"|(?<!\d)1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?!\d)"
        r"|(?<![\w.-])0\d{2,4}[ /-]\d{3,4}[ -]?\d{3,5}(?![\w-])"
    ),
}
"""`secret` is a value assigned to a telling name; `phone` knows international, North American, German and Chinese
forms."""
