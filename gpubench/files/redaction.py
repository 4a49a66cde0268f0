"""Records without what would tell strangers who measured, and where: for files that leave the house.

Hosts, users, paths, addresses, serial numbers and secrets go; UUIDs become others, the same ones everywhere, so that
devices can still be told apart and matched. No measured number changes. What a case is, device models and outcomes stay
as they are; every other text is searched, dictionary keys and version strings among them. `docs/buying.md` says what
this cannot promise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from gpubench.spec.errors import UsageError
from gpubench.spec.secrets import REDACTED, is_secret_name, visible, without_private_keys, without_secrets

MOST_HOSTS = 10_000  # of one record; more than that is a text made to fill the memory
MOST_TEXTS = 20_000  # different ones in a record; a launch has a few hundred
# Words of our own, or a product's: nothing private can stand in them, and what looks like an address is a version.
KEPT = {"case", "started_at", "record_id", "run_id", "kind", "status", "phase", "severity", "source"}
KEPT |= {
    "driver",
    "cuda",
    "nvml",
    "binding",
    "os",
    "cpu",
    "cores",
    "replica_digests",
    "bus_id",
    "pair_id",
    "vendor",
    "name_from",
}
KEPT |= {"cpu_quota_source", "cpuset"}
USER_KEY = re.compile(r"(?:[A-Z0-9]+_)*(?:USER|LOGNAME|USERNAME|USER_NAME)")
HOST_KEY = re.compile(
    r"HOST(?:NAME)?|.*_ADDR|.*_(?:HOST|HOSTS|HOSTNAME|URI)|SLURM.*(?:NODELIST|NODENAME|HOST).*|.*HOSTFILE"
)
# "root" is everywhere and says nothing; the others are settings (PIP_USER=1).
NOBODY = {"root", "true", "false", "yes", "no", "on", "off", "none"}
# A host of such a name is found by its own spelling only: in other letters it is another thing of our own.
COMMON = {
    "cpu",
    "gpu",
    "cuda",
    "torch",
    "tensorflow",
    "mxnet",
    "jax",
    "fake",
    "host",
    "node",
    "localhost",
    "linux",
    "python",
}

_HEX = "[0-9a-fA-F]"
_PLAIN_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_UUID = re.compile(
    rf"(?<![0-9A-Za-z-])(?:(?:GPU|MIG|DLA)-)?{_PLAIN_UUID}(?![0-9A-Za-z])"
    rf"|\bGPU-{_HEX}{{16}}\b"  # AMD's
)
_HOME = re.compile(r"(?:/home/|/Users/|/u/|\\Users\\|\bhome/|\bUsers/)([A-Za-z0-9._-]+)")
# A variable as a shell prints it, and its value.
_VARIABLE = re.compile(r"(?<![A-Za-z0-9_])([A-Z][A-Z0-9_]{2,60})=['\"]?([^\s'\"<>;]+)")
# As `id` and LDAP print whom they mean.
_USER = re.compile(r"(?i)(?<![A-Za-z0-9])uid=(?:[0-9]+\()?([a-z_][\w.-]*)")
_SETTING = r"(?![0-9.]+(?![\w(-])|(?:none|null|true|false|yes|no)\b|<)"
# Before paths, which would take the name and leave the value: /x?user=...
_USERS = (
    (
        re.compile(
            r"(?i)(?<![A-Za-z0-9])((?:[er]?uid=|user=|(?:user[ _-]?(?:name|id)|logname|login)[ \t]?[=:]"
            rf"|--user(?:name)?[ =]|login -u)[ \t]*['\"]?){_SETTING}[^\s,;&'\"<>]+"
        ),
        r"\1<user>",
    ),
    (re.compile(r"\b(gid|groups)=[0-9]+\([^\s;'\"<>]+"), r"\1=<group>"),
    (re.compile(rf"(?i)(?<![A-Za-z0-9])((?:cn|ou|dc)=){_SETTING}[^\s,;'\"<>]+"), r"\1<name>"),  # of LDAP
)
_END = r"[^\s'\":,;()<>|=]"
_PATHS = (
    (re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://(?:[^\s'\"<>]|<redacted>)+", re.IGNORECASE), "<url>"),
    (
        re.compile(r"(?i)(?<![\w%.+-])[\w%.+-]*?(?:%2F|%5C)[^\s'\"<>]*"),
        "<path>",
    ),  # percent-encoded, as in a URL's query
    (re.compile(r"(['\"])(?:~[\w.-]*/|(?:\.\.?)?/|[A-Za-z]:\\|\\\\)[^'\"\n]*\1"), r"\1<path>\1"),  # quoted: spaces
    (re.compile(rf"(?<![\w\\])\\\\[^\s\\'\"]+\\{_END}*"), "<path>"),  # \\server\share
    (re.compile(r"(?<![\w.<])(?:~[\w.-]*|\.\.?)?(?:/[^\s'\":,;()<>|=/]+)+/?"), "<path>"),
    (re.compile(rf"(?<![\w.<])~[\w.-]*/{_END}*"), "<path>"),
    (re.compile(rf"\b[A-Za-z]:\\{_END}+"), "<path>"),
    (re.compile(rf"(?i)(?<![\w.<])(?:home|users|scratch)[/\\]{_END}+"), "<path>"),
)
_NCCL_HOST = re.compile(r"^([A-Za-z0-9][A-Za-z0-9.-]*):\d+:\d+ \[\d+\] NCCL ", re.MULTILINE)
_PATTERNS = (
    (re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]*\b"), "<user>@<host>"),
    (re.compile(rf"(?<![0-9A-Fa-f:])(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}(?![0-9A-Fa-f:])"), "<mac>"),
    (re.compile(rf"(?<![\w.])(?:{_HEX}{{4}}\.){{2}}{_HEX}{{4}}(?![\w.])"), "<mac>"),
    (re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])"), "<ip>"),
    # Three groups at least, or a double colon: a time of day or a PCI address is none.
    (re.compile(rf"(?<![\w:.])(?:{_HEX}{{1,4}}:){{4,7}}{_HEX}{{1,4}}(?![\w:.])"), "<ip>"),
    (re.compile(rf"(?<![\w:.])(?:{_HEX}{{1,4}}:){{0,6}}{_HEX}{{0,4}}::[0-9A-Fa-f:]*{_HEX}+(?![\w:.])"), "<ip>"),
    (re.compile(rf"(?<![\w:])(?:{_HEX}{{4}}:){{3}}{_HEX}{{4}}(?![\w:])"), "<guid>"),  # InfiniBand's
    (
        re.compile(
            r"(?i)\b((?:serial(?:[ _-]?(?:number|no\.?|num|id))?|s/n|sn|(?:asset|service)[ _-]?tag)['\"]?\s*[:=#]\s*)"
            r"['\"]?[A-Za-z0-9][A-Za-z0-9./-]*"
        ),
        r"\1<serial>",
    ),
    (
        re.compile(r"(?i)\b(serial(?:[ _-]?(?:number|no\.?|num|id))?\s+)[A-Za-z0-9-]*[0-9][A-Za-z0-9-]*"),
        r"\1<serial>",
    ),
    # Domains under names that nothing in Python ends in.
    (
        re.compile(
            r"(?i)(?<![\w.-])(?:[a-z0-9-]{1,63}\.){1,10}"
            r"(?:com|net|org|edu|gov|mil|local|lan|internal|intranet|corp|cluster|localdomain|arpa)"
            r"(?:\.[a-z][a-z0-9-]{1,62}){0,4}(?![\w.]*\()\b"
        ),
        "<host>",
    ),
    (re.compile(rf"(?<![0-9A-Za-z]){_HEX}{{32,}}(?![0-9A-Za-z])"), "<id>"),  # keys, machine ids
)


def redact(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records, as decoded from JSON, with everything private replaced; the ones given stay as they are."""
    redactor = Redactor(records)
    return [redactor.record(record) for record in records]


class Redactor:
    """Knows the hosts and users of some records, and replaces them wherever they are named."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        names: dict[str, str] = {}
        self._machines: dict[str, list[str]] = {}  # of each name that is shown instead, the names that count
        for record in records:
            host = record["machine"]["name"]
            for word in (host, host.split(".")[0]):
                names.setdefault(word, self._machine_name(record))
            for user in _users(record):
                names.setdefault(user, "<user>")
            for word in _hosts(record):
                names.setdefault(word, "<host>")
        names.pop("", None)
        exact = {word: other for word, other in names.items() if word.lower() in COMMON}
        others = {word.lower(): other for word, other in names.items() if word not in exact}
        self._searched: dict[str, str] = {}
        self._names = exact | others
        self._words = [_either(exact, 0), _either(others, re.IGNORECASE)]

    def record(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with everything private replaced. UsageError where it holds more texts than can be searched."""
        self._searched.clear()
        made: dict[str, Any] = self.value(record)
        made["machine"]["name"] = self._machine_name(record)  # also where the host is named as a product is
        return made

    def _machine_name(self, record: dict[str, Any]) -> str:
        """With a number from the second machine on that would have the same: what was told apart stays apart."""
        name = _machine_name(record)
        if not _name_counts(record["machine"]):
            return name
        known = self._machines.setdefault(name, [])
        if record["machine"]["name"] not in known:
            known.append(record["machine"]["name"])
        number = 1 + known.index(record["machine"]["name"])
        return name if number == 1 else f"{name}-{number}"

    def value(self, value: Any) -> Any:
        """Any JSON value. A key of the schema stays; one that is free text is searched as any text is."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in _as_one_text(value)]
        if isinstance(value, dict):
            return self._members(value, self.value)
        return value

    def text(self, text: str) -> str:
        """The text without secrets, paths, addresses, names and serial numbers."""
        if text not in self._searched:
            if len(self._searched) >= MOST_TEXTS:
                raise UsageError(
                    f"A record holds over {MOST_TEXTS:,} different texts: it is no launch's, and not packed."
                )
            found = _VARIABLE.sub(_variable, other_device(without_secrets(visible(text))))
            self._searched[text] = self._named(_replaced(found, (*_USERS, *_PATHS, *_PATTERNS)))
        return self._searched[text]

    def version(self, text: str) -> str:
        """A version string, in which four numbers with points are no address, nor is a commit a key."""
        return self._named(_replaced(without_secrets(text), _PATHS))

    def _versions(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.version(item) if isinstance(item, str) else item for key, item in value.items()}
        return self.value(value)

    def _members(self, members: dict[str, Any], walk: Callable[[Any], Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in members.items():
            name = key if re.fullmatch("[a-z][a-z0-9_]*", key) else self.text(key)
            if name in made:  # two paths, say, that look alike now
                name = next(other for n in range(2, len(members) + 2) if (other := f"{name} ({n})") not in made)
            made[name] = self._versions(item) if key == "software" else _member(key, item, walk)
        return made

    def _named(self, text: str) -> str:
        for words in self._words:
            text = words.sub(lambda match: self._names.get(match[0]) or self._names[match[0].lower()], text)
        return text


def other_device(text: str) -> str:
    """The text with each UUID replaced by another, the same one everywhere."""
    return _UUID.sub(lambda match: _other_uuid(match[0]), text)


def _as_one_text(items: list[Any]) -> list[Any]:
    """The items, without the private keys that stand on several of them, as on lines of a log."""
    texts = [visible(item) for item in items if isinstance(item, str)]
    if len(texts) != len(items):
        return items
    lines = iter(without_private_keys("\n".join(texts)).split("\n"))
    return ["\n".join(islice(lines, 1 + text.count("\n"))) for text in texts]


def _variable(match: re.Match[str]) -> str:
    kind = "<user>" if USER_KEY.fullmatch(match[1]) else "<host>" if HOST_KEY.fullmatch(match[1]) else None
    return f"{match[1]}={kind}" if kind else match[0]


def _replaced(text: str, patterns: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, replacement in patterns:
        text = pattern.sub(replacement, text)
    return text


def _either(words: Iterable[str], flags: int) -> re.Pattern[str]:
    known = "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"  # which matches nothing
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{known})(?![A-Za-z0-9_])", flags)


def _member(key: str, item: Any, walk: Callable[[Any], Any]) -> Any:
    if key in KEPT:
        return item
    if "serial" in key.lower() or is_secret_name(key):
        return item if item is None else REDACTED
    if USER_KEY.fullmatch(key) and isinstance(item, str):
        return "<user>"
    if HOST_KEY.fullmatch(key) and isinstance(item, str):
        return "<host>"
    if key == "log" and isinstance(item, str):
        return item.replace("\\", "/").rpartition("/")[2]
    return walk(item)


def _machine_name(record: dict[str, Any]) -> str:
    """The same for all runs of a machine. A host's name has too few letters for its hash to hide it.

    A GPU's UUID has enough, also for a name that was given. Without GPUs it is made of what the machine is, and two of
    a kind get one name.
    """
    machine = record["machine"]
    words = _gpus(machine)
    if words and _name_counts(machine):
        words.append(machine["name"])
    source = " ".join(words or [machine["cpu"], str(machine["cores"]), f"{-(-machine['memory_bytes'] // 2**30)} GiB"])
    return f"machine-{hashlib.sha256(f'gpubench machine {source}'.encode()).hexdigest()[:8]}"


def _name_counts(machine: dict[str, Any]) -> bool:
    """As in `spec.identity`: whether the name tells this machine from another one of the same hardware."""
    return machine.get("name_from") == "given" or (not _gpus(machine) and machine.get("name_from") != "container")


def _gpus(machine: dict[str, Any]) -> list[str]:
    return sorted(device["id"] for device in machine.get("devices", []) if device["kind"] == "gpu")


def _other_uuid(uuid: str) -> str:
    """By the UUID's own digits, so that one named with and without its kind stays one device."""
    kind, dash, rest = uuid.partition("-") if uuid[:4] in ("GPU-", "MIG-", "DLA-") else ("", "", uuid)
    digest = hashlib.sha256(f"gpubench device {rest.lower()}".encode()).hexdigest()
    if "-" not in rest:
        return f"{kind}-{digest[:16]}"
    return kind + dash + "-".join([digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]])


def _users(record: dict[str, Any]) -> set[str]:
    """Whoever has a home in a path, or is named in a variable or a text."""
    named = set(_values(record.get("environment", {}), USER_KEY))
    for text in _texts(record):
        named.update(_HOME.findall(text), _USER.findall(text))
        named.update(value for name, value in _VARIABLE.findall(text) if USER_KEY.fullmatch(name))
    return {name for name in named if re.search("[A-Za-z]{2}", name) and name.lower() not in NOBODY}


def _hosts(record: dict[str, Any]) -> set[str]:
    """The other hosts of a gang: as variables name them (lists, Slurm's `gpu[01-04]`) and NCCL logs."""
    found = {host for text in _texts(record) for host in _NCCL_HOST.findall(text)}
    for value in _values(record.get("environment", {}), HOST_KEY):
        for word in re.split(r"[\s,;]+(?![^\[]*\])", re.sub(r"[a-z+.-]+://", "", value)):
            found |= set(islice(_expanded(re.sub(r":\d+$", "", word)), MOST_HOSTS))
            if len(found) > MOST_HOSTS:
                break
    found |= {host.split(".")[0] for host in found}
    return {host for host in found if re.search("[A-Za-z]", host) and host not in ("localhost", "lo")}


def _expanded(word: str) -> Iterator[str]:
    """`gpu[01-03,7]` as `gpu01`, `gpu02`, `gpu03`, `gpu7`; another word as it is."""
    match = re.fullmatch(r"([^\[\]]+)\[([0-9,-]+)\](.*)", word)
    if match is None:
        yield word
        return
    for span in match[2].split(","):
        first, _, last = span.partition("-")
        if first.isdigit() and (last or first).isdigit() and len(first) + len(last) < 20:  # an index, not a bomb
            for number in range(int(first), min(int(last or first), int(first) + 4096) + 1):
                yield f"{match[1]}{number:0{len(first)}}{match[3]}"


def _values(variables: dict[str, str], key: re.Pattern[str]) -> list[str]:
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
