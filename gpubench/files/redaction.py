"""Records without what would tell strangers who measured, and where: for files that leave the house.

Hosts, users, paths, addresses, serial numbers and secrets go; GPU UUIDs become others, the same ones everywhere, so
that devices can still be told apart and matched. No measured number changes. What a case is, software versions, device
models and outcomes stay as they are; every other text is searched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Words of our own, or a product's: nothing private can stand in them, and what looks like an address is a version.
KEPT = {"case", "software", "started_at", "record_id", "run_id", "kind", "status", "phase", "severity", "source"}
KEPT |= {"driver", "cuda", "nvml", "binding", "os", "cpu", "cores", "replica_digests", "bus_id", "pair_id", "vendor"}
SECRET_KEY = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY", re.IGNORECASE)
USER_KEY = re.compile(r"(?:SUDO_|SLURM_(?:JOB_)?)?(?:USER|LOGNAME|USERNAME)")
HOST_KEY = re.compile(r"HOST(?:NAME)?|MASTER_ADDR|SLURM.*(?:NODELIST|NODENAME|HOST).*")

_UUID = re.compile(
    r"\b(?:GPU|MIG|DLA)-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    r"|\bGPU-[0-9a-fA-F]{16}\b"  # AMD's
)
_HOME = re.compile(r"(?:/home/|/Users/|/u/|\\Users\\)([A-Za-z0-9._-]+)")
_PATTERNS = (
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9][A-Za-z0-9.-]*\b"), "<user>@<host>"),
    (re.compile(r"(['\"])(?:~?/|[A-Za-z]:\\)[^'\"\n]*\1"), r"\1<path>\1"),  # in quotes a path may hold spaces
    (re.compile(r"(?<![\w.<])(?:~?/[^\s'\":,;()<>|=/]+)+/?"), "<path>"),
    (re.compile(r"\b[A-Za-z]:\\[^\s'\":,;()<>|]+"), "<path>"),
    (re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])"), "<mac>"),
    (re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])"), "<ip>"),
    # Three groups at least, or a double colon: a time of day or a PCI address is none.
    (re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:){4,7}[0-9A-Fa-f]{1,4}(?![\w:.])"), "<ip>"),
    (re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{0,4}::[0-9A-Fa-f:]*[0-9A-Fa-f]+(?![\w:.])"), "<ip>"),
    (
        re.compile(r"\b(serial(?: number| no\.?)?\s*[:=#]?\s*)[A-Za-z0-9-]*[0-9][A-Za-z0-9-]*", re.IGNORECASE),
        r"\1<serial>",
    ),
)


def redact(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records, as decoded from JSON, with everything private replaced; the ones given stay as they are."""
    redactor = Redactor(records)
    return [redactor.record(record) for record in records]


class Redactor:
    """Knows the hosts and users of some records, and replaces them wherever they are named."""

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        names: dict[str, str] = {}
        for record in records:
            host = record["machine"]["name"]
            for word in (host, host.split(".")[0]):
                names.setdefault(word, _machine_name(record))
            for user in _users(record):
                names.setdefault(user, "<user>")
            for word in _named(record.get("environment", {}), HOST_KEY):
                names.setdefault(word, "<host>")
        self._names = {word: names[word] for word in sorted(names, key=len, reverse=True) if word}
        known = "|".join(map(re.escape, self._names)) or "(?!)"  # which matches nothing
        self._words = re.compile(rf"(?<![A-Za-z0-9_])(?:{known})(?![A-Za-z0-9_])")

    def record(self, record: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = self.value(record)
        made["machine"]["name"] = _machine_name(record)  # also where the host is named as a product is
        return made

    def value(self, value: Any) -> Any:
        """Any JSON value; dicts keep their keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {key: _member(key, item, self.value) for key, item in value.items()}
        return value

    def text(self, text: str) -> str:
        text = other_device(text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return self._words.sub(lambda match: self._names[match[0]], text)


def other_device(text: str) -> str:
    """The text with each GPU's UUID replaced by another, the same one everywhere."""
    return _UUID.sub(lambda match: _other_uuid(match[0]), text)


def _member(key: str, item: Any, walk: Callable[[Any], Any]) -> Any:
    if key in KEPT:
        return item
    if "serial" in key.lower() or SECRET_KEY.search(key):
        return item if item is None else "<redacted>"
    if USER_KEY.fullmatch(key) and isinstance(item, str):
        return "<user>"
    if key == "log" and isinstance(item, str):
        return item.replace("\\", "/").rpartition("/")[2]
    return walk(item)


def _machine_name(record: dict[str, Any]) -> str:
    """The same for all runs of a machine. A host's name has too few letters for its hash to hide it.

    A GPU's UUID has enough; without GPUs it is made of what the machine is, and two of a kind get one name.
    """
    machine = record["machine"]
    gpus = sorted(device["id"] for device in machine.get("devices", []) if device["kind"] == "gpu")
    source = " ".join(gpus) or " ".join(str(machine[name]) for name in ("cpu", "cores", "memory_bytes", "os"))
    return f"machine-{hashlib.sha256(f'gpubench machine {source}'.encode()).hexdigest()[:8]}"


def _other_uuid(uuid: str) -> str:
    kind, _, rest = uuid.partition("-")
    digest = hashlib.sha256(f"gpubench device {rest.lower()}".encode()).hexdigest()
    if "-" not in rest:
        return f"{kind}-{digest[:16]}"
    return "-".join([kind, digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]])


def _users(record: dict[str, Any]) -> set[str]:
    """Whoever has a home in a path, or is named in a variable. "root" is everywhere and says nothing."""
    homes = {name for value in _texts(record) for name in _HOME.findall(value)}
    return (homes | set(_named(record.get("environment", {}), USER_KEY))) - {"root"}


def _named(variables: dict[str, str], key: re.Pattern[str]) -> list[str]:
    return [value for name, value in variables.items() if key.fullmatch(name) and isinstance(value, str)]


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
