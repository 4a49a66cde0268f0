"""Why a setup failed, from what pip and Python printed: one sentence for a table, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpubench.harness.outcomes import printable

LONGEST = 300

# What is printed, and what to do about it; the first that fits counts.
REMEDIES = (
    (
        r"No space left on device|Errno 28|Disk quota exceeded|Errno 122",
        "free some disk space, or let GPUBENCH_HOME name a folder on a larger disk, and run the setup again",
    ),
    (
        r"Failed to establish a new connection|name resolution|Max retries exceeded|Network is unreachable|"
        r"ProxyError|SSLError|ReadTimeout|ConnectTimeout|Connection (?:refused|reset|aborted)",
        "pip could not reach its package index: see to the network, the proxy (HTTPS_PROXY) or pip's index-url, and "
        "run the setup again",
    ),
    (
        r"No matching distribution found",
        "pip's index has no such build for this Python and this kind of machine: see to pip's settings, or install "
        "the framework yourself and name its Python with --python",
    ),
    (
        r"Permission denied|Errno 13|Read-only file system",
        "let GPUBENCH_HOME name a folder that you may write to, and run the setup again",
    ),
)


@dataclass(frozen=True)
class Failure:
    """Both are parts of a sentence, without a full stop at the end."""

    why: str
    to_do: str


def failure_of(what: str, exit_code: int, printed: str) -> Failure:
    """The failure of a step of a setup.

    An error message that itself ends in "To do: …", as those of the frameworks' folders do, has the last word.
    """
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?:ERROR|error|\w*Error): ", line)]
    last = (errors or lines or [f"exit code {exit_code}"])[-1]
    message, _, to_do = re.sub(r"^(?:ERROR|error|ImportError): ", "", last).partition(" To do: ")
    if not to_do:
        to_do = next((remedy for pattern, remedy in REMEDIES if re.search(pattern, printed)), "see what was printed")
    return Failure(why=_short(f"{what} failed: {message}"), to_do=_short(to_do))


def _short(text: str) -> str:
    text = printable(text.strip()).rstrip(".")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
