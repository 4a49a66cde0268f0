"""Secrets by their shape: tokens that issuers give a fixed start, and values that follow a word such as `password=`.

The shapes are those that the issuers publish, as GitHub's secret scanning and gitleaks list them. A secret of no known
shape that stands alone in a sentence cannot be told from another word.
"""

from __future__ import annotations

import re

# The name of a variable, an option or a key whose value is a secret.
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|BEARER|COOKIE|(?:^|_)PWD?$|(?<![A-Z])PASS$"
    r"|(?:^|_)(?:API|ACCESS|ACCOUNT)?_?KEYS?(?:_|$)|(?:^|_)AUTH(?:ORIZATION)?(?:_|$)",
    re.IGNORECASE,
)

_SHAPES = (
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",  # GitHub
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_.-]{20,}",  # GitLab
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}",  # Slack
    r"(?:hf|api_org)_[A-Za-z0-9]{20,}",  # Hugging Face
    r"sk-(?:proj-|ant-|svcacct-|or-v1-)?[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter
    r"nvapi-[A-Za-z0-9_-]{20,}",  # NVIDIA NGC
    r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}",  # Google
    r"(?:sk|rk|pk|whsec)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|dckr_[op]at_[A-Za-z0-9_-]{20,}",  # registries of packages and images
    r"dapi[a-f0-9]{32}(?:-\d)?|dop_v1_[a-f0-9]{60,}|hv[sbr]\.[A-Za-z0-9_-]{20,}",  # Databricks, DigitalOcean, Vault
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON Web Tokens
)
_KNOWN = re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_SHAPES)})(?![A-Za-z0-9])")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_VALUE = r"(?:\"[^\"\n]*\"?|'[^'\n]*'?|[^\s,;&'\"<>]+)"
# Words of which a log speaks in other senses ("token", "auth", "key") need a sign behind them that gives them a value.
_WORD = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|private[_-]?key|account[_-]?key|client[_-]?secret|authorization|cookie)(?:[_-](?:key|id|file))?"
)
_ASSIGNED = re.compile(
    rf"(?i)(?<![A-Za-z0-9])({_WORD}['\"]?\s*(?:=>|:=|[=:])\s*)(?!<)((?:Bearer|Basic|Token)\s+)?{_VALUE}"
)
_OPTION = re.compile(rf"(?i)(?<![\w-])(--?(?:[A-Za-z0-9]{{1,30}}[_.-]){{0,4}}{_WORD}[ \t]+)(?![-<]){_VALUE}")
_SCHEME = re.compile(r"(?<![A-Za-z])((?:Bearer|Basic)\s+)(?!<)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_IN_URL = re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/@'\"]+@")

# A long run of letters and digits mixed, which stands alone: a key of no known shape, or at any rate no setting.
_RANDOM = re.compile(r"(?:^|[\s=,:;])(?=[A-Za-z+]*[0-9])(?=[0-9+]*[A-Za-z])[A-Za-z0-9+]{32,}={0,2}(?:$|[\s,;])")

REDACTED = "<redacted>"


def without_secrets(text: str) -> str:
    """The text with `<redacted>` in place of everything that has the shape of a secret."""
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = _IN_URL.sub(rf"\1{REDACTED}@", text)
    text = _ASSIGNED.sub(rf"\1{REDACTED}", text)
    text = _OPTION.sub(rf"\1{REDACTED}", text)
    text = _SCHEME.sub(rf"\1{REDACTED}", text)
    return _KNOWN.sub(REDACTED, text)


def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name holds a secret."""
    return SECRET_NAME.search(name) is not None


def holds_secret(value: str) -> bool:
    """Whether a setting's value has something in it that is, or may be, a secret."""
    return without_secrets(value) != value or _RANDOM.search(value) is not None
