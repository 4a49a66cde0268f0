"""Secrets by their shape: tokens that issuers give a fixed start, private keys on many lines, long runs of mixed
letters and digits, and values that follow a word such as `password=`.

The shapes are those that the issuers publish, as GitHub's secret scanning and gitleaks list them. A secret of no known
shape that stands alone in a sentence cannot be told from another word.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

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
    r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,}|dckr_[op]at_[A-Za-z0-9_-]{20,}",  # registries of packages and images
    r"(?:SK|AC)[0-9a-f]{32}|[0-9]{6,12}:AA[A-Za-z0-9_-]{30,}",  # Twilio, Telegram
    r"AAAA[A-Za-z0-9+/]{28,}={0,3}",  # SSH's public keys, which tell whose they are
    r"dapi[a-f0-9]{32}(?:-\d)?|dop_v1_[a-f0-9]{60,}|hv[sbr]\.[A-Za-z0-9_-]{20,}",  # Databricks, DigitalOcean, Vault
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON Web Tokens
)
_KNOWN = re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_SHAPES)})(?![A-Za-z0-9])")
# Of a block that was cut at one end, all is taken up to the end that is missing.
_BLOCK = r"-{4,5} ?%s [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_BEGIN, _ENDING = (_BLOCK % word for word in ("BEGIN", "END"))
_PRIVATE_KEYS = (
    re.compile(rf"(?:{_BEGIN}|PuTTY-User-Key-File-\d).*?(?:{_ENDING}|Private-MAC:[^\n]*|\Z)", re.DOTALL),
    re.compile(rf"\A.*{_ENDING}", re.DOTALL),
)
_QUOTED = r"(?:\\?\"(?:\\.|[^\"\\\n])*\"?|\\?'(?:\\.|[^'\\\n])*'?)"
_VALUE = rf"(?:{_QUOTED}|[^\s,;&'\"<>]+)"
_REST = rf"(?:{_QUOTED}|[^\s'\"][^\n'\"]*)"  # to the end of the line or of what is quoted: it may hold spaces
_IS = r"(?:\\?['\"])?[ \t]*(?:=>|:=|[=:])[ \t]*"
# Words of which a log speaks in other senses ("token", "auth", "key") need a sign behind them that gives them a value.
_PHRASE = rf"pass(?:word|wd|phrase|code|(?!{_IS}[\d.]+\b))|pwd|secret|credentials?|authorization|cookie"
_WORD = (
    rf"(?:{_PHRASE}|token|api[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|private[_-]?key|account[_-]?key|client[_-]?secret)(?:[_-](?:key|id|file))?"
)
_NO_PASSWORD = r"(?:not|no|too|invalid|incorrect|required|needed|missing|wrong|empty|set|unset|expired|being|used)\b"
_FOLLOWED = (
    # Options of commands that take a password.
    re.compile(
        r"(\b(?:mysql[\w-]{0,20}|mariadb[\w-]{0,20}|sshpass|login)\b[^\n|;]{0,200}?[ \t]-p[ \t]*)"
        r"(?!<redacted>)[^\s-]\S*"
    ),
    re.compile(r"(\bredis-cli\b[^\n|;]{0,200}?[ \t]-a[ \t]*)(?!<redacted>)\S+"),
    re.compile(r"(?i)(\blogin\s+\S{1,64}\s+password\s+)(?!<redacted>)\S+"),  # .netrc
    re.compile(rf"(?i)(\bset[ \t]+[\w.-]{{0,64}}?{_WORD}[ \t]+)(?!<redacted>|to\b)\S+"),
    re.compile(r"((?<!\S)(?:-u|--user)[ =][^\s:]{1,64}:)(?!<redacted>|\d+\b)\S+"),
    re.compile(
        rf"(?i)(?:(?<![A-Za-z0-9])|(?=password|passwd|passphrase|secret))((?:{_PHRASE}){_IS})(?!<redacted>){_REST}"
    ),
    re.compile(rf"(?i)(?<![A-Za-z0-9])({_WORD}{_IS})(?!<redacted>)(?:Token\s+)?{_VALUE}"),
    re.compile(rf"(?i)(?<![A-Za-z0-9])(_auth(?:Token)?{_IS}|['\"](?:auth|identitytoken)\\?['\"]\s*:\s*){_VALUE}"),
    re.compile(r"(?i)(?<![A-Za-z0-9])((?:sig|signature)=)(?!\d{1,3}\b)[^\s,;&'\"<>]+"),  # of a link that opens a store
    re.compile(
        rf"(?i)(?<![A-Za-z0-9])((?:pass(?:word|wd|phrase|code)|secret)[ \t]+(?:is|was)[ \t]+)"
        rf"(?!<redacted>|{_NO_PASSWORD}){_REST}"
    ),
    re.compile(rf"(?i)(?<![\w-])(--?(?:[A-Za-z0-9]{{1,30}}[_.-]){{0,4}}{_WORD}[ \t]+)(?![-<]){_VALUE}"),
)
_VARIABLE = re.compile(rf"(?<![A-Za-z0-9_])([A-Z][A-Z0-9_]{{2,}})(=)(?!<){_VALUE}")
# Base64 of anything, as keys are written; a name of C++ or Python changes its kind of letter less often.
_MIXED = re.compile(r"(?<![\w+/.~-])[A-Za-z0-9+/]{32,}={0,2}(?![\w+/-])")
_SCHEME = re.compile(r"(?<![A-Za-z])((?:Bearer|Basic)\s+)(?!<)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_IN_URL = re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/@'\"]+@")

# A long run of letters and digits mixed, which stands alone: a key of no known shape, or at any rate no setting.
_RANDOM = re.compile(r"(?:^|[\s=,:;])(?=[A-Za-z+]*[0-9])(?=[0-9+]*[A-Za-z])[A-Za-z0-9+]{32,}={0,2}(?:$|[\s,;])")

REDACTED = "<redacted>"


_ESCAPE = re.compile("[\x1b\ufffd]\\[[0-?]{0,40}[ -/]{0,4}[@-~]|\x1b\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def visible(text: str) -> str:
    """The text without what is not seen, and could part a word: colours, controls and characters of no width.

    The sign that stands for such a character in a log that was kept goes too. Wide letters become the usual ones.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPE.sub("", text).translate(_WIDE)
    return "".join(c for c in text if c in "\n\t\r" or not (c == "\ufffd" or unicodedata.category(c) in ("Cc", "Cf")))


def without_secrets(text: str) -> str:
    """The text with `<redacted>` in place of everything that has the shape of a secret; as many lines as before."""
    text = without_private_keys(text)
    text = _IN_URL.sub(rf"\1{REDACTED}@", text)
    for shape in _FOLLOWED:
        text = shape.sub(rf"\1{REDACTED}", text)
    text = _VARIABLE.sub(lambda match: f"{match[1]}={REDACTED}" if is_secret_name(match[1]) else match[0], text)
    text = _SCHEME.sub(rf"\1{REDACTED}", text)
    text = _KNOWN.sub(REDACTED, text)
    return _MIXED.sub(lambda match: REDACTED if _random(match[0]) else match[0], text)


def without_private_keys(text: str) -> str:
    """The text with `<redacted>` in place of each line of a private key, of which the text may hold but a part."""
    for block in _PRIVATE_KEYS:
        text = block.sub(lambda match: "\n".join([REDACTED] * (1 + match[0].count("\n"))), text)
    return text


def _random(text: str) -> bool:
    """Whether small letters, capitals and digits alternate as they do by chance, other than in words and in paths."""
    kinds = ["A" if c.isupper() else "a" if c.islower() else "0" for c in text if c.isalnum()]
    changes = sum(one != other for one, other in pairwise(kinds))
    return len(set(kinds)) == 3 and 3 * changes > len(kinds)


def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name holds a secret."""
    return SECRET_NAME.search(name) is not None


def holds_secret(value: str) -> bool:
    """Whether a setting's value has something in it that is, or may be, a secret."""
    value = visible(value)
    return without_secrets(value) != value or _RANDOM.search(value) is not None
