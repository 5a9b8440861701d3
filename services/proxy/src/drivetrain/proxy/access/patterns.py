"""What secrets look like: regular expressions by name."""

BUILT_IN = {
    "api-key": (
        r"\b(?:sk|pk|rk)[-_](?:ant-|proj-|live_|test_|or-)?[A-Za-z0-9_-]{20,}"
        r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
        r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}|\bglpat-[A-Za-z0-9_-]{20,}"
        r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bAIza[0-9A-Za-z_-]{35}|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}"
        r"|\bdtk_[a-z2-7]{8}_[A-Za-z0-9_-]{20,}|\bdtr_[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"
    ),
    # One that does not end is masked to the end: it may have been cut off.
    "private-key": (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    ),
    "bearer": (
        r"(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}"
        r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    ),
    "url-password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{1,100}:[^\s/@\"']{1,200}@",
    "e-mail": r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}\b",
}
