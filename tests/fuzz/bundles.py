"""Bundles that are sealed well and mean harm inside."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpubench.files import sealed
from tests.fuzz.hostile import honest_lines

LINES = ("\n".join(honest_lines()[18:28]) + "\n").encode()
MIB = 1 << 20


def listed(members: Mapping[str, bytes]) -> dict[str, Any]:
    known = {name: sealed._fingerprint(content) for name, content in members.items()}
    told = {"format": 1, "made_by": "x", "run": "x", "redacted": True, "skipped_lines": 0}
    return {**told, "records": members.get("x.jsonl", b"").count(b"\n"), "members": known}


def bundle(
    members: Mapping[str, bytes],
    method: int = zipfile.ZIP_DEFLATED,
    manifest: bytes | None = None,
    change: Callable[[bytes], bytes] = lambda content: content,
    twice: bool = False,
) -> Callable[[Path], None]:
    """Writes it. `change` gets the zip before it is sealed; `twice` has each member in it two times."""

    def make(path: Path) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are there twice
            archive.writestr("manifest.json", manifest or json.dumps(listed(members)))
            for name, content in [*members.items()] * (2 if twice else 1):
                info = zipfile.ZipInfo(name)
                info.compress_type = method
                info.external_attr = 0o120777 << 16 if name.endswith(".json") else 0o644 << 16  # a link, says the zip
                archive.writestr(info, content)
            archive.comment = sealed._SEAL + b"0" * 64
        whole = change(out.getvalue())[:-64]
        path.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())

    return make


def in_directory(offset: int, value: bytes) -> Callable[[bytes], bytes]:
    """Puts `value` at `offset` of the last entry of the zip's directory."""

    def change(content: bytes) -> bytes:
        at = content.rindex(b"PK\1\2") + offset
        return content[:at] + value + content[at + len(value) :]

    return change


JOURNAL = {"x.jsonl": LINES}
VERIFIED = "verified-0123456789abcdef.json"


def about_another() -> bytes:
    """A verification that is not of the run's records, and differs from them in a version alone."""
    record = json.loads(LINES.splitlines()[0])
    subject = {name: record["case"][name] for name in ("workload", "framework", "strategy", "device_kind", "n_devices")}
    software = {**record["software"], "python": "0"}
    return json.dumps({**subject, "software": software, "verified_at": "2026-01-01T00:00:00+00:00"}).encode()


ABOUT = about_another()
BUNDLES: dict[str, Callable[[Path], None]] = {
    "a bomb of zeros": bundle({"x.jsonl": bytes(159 * MIB)}),
    "a bomb of records": bundle({"x.jsonl": LINES * (155 * MIB // len(LINES))}),
    "a bomb of series": bundle({**JOURNAL, "x.series/a.parquet": bytes(155 * MIB)}),
    "a bomb of another method": bundle({"x.jsonl": bytes(159 * MIB)}, zipfile.ZIP_BZIP2),
    "a bomb of the best method": bundle({"x.jsonl": bytes(159 * MIB)}, zipfile.ZIP_LZMA),
    "more than may be in one": bundle({"x.jsonl": bytes(400 * MIB)}),
    "a member that is smaller than told": bundle(JOURNAL, change=in_directory(24, b"\xff\xff\xff\x7f")),
    "a member that is larger than told": bundle(JOURNAL, change=in_directory(24, b"\1\0\0\0")),
    "a wrong checksum": bundle(JOURNAL, change=in_directory(16, b"\1\2\3\4")),
    "a password": bundle(JOURNAL, change=in_directory(8, b"\1\0")),
    "an unknown method": bundle(JOURNAL, change=in_directory(10, b"\x63\0")),
    "members in one place": bundle({**JOURNAL, VERIFIED: b"{}"}, change=in_directory(42, b"\0\0\0\0")),
    "a member before the file": bundle(JOURNAL, change=in_directory(42, b"\xff\xff\xff\x7f")),
    "members twice": bundle(JOURNAL, twice=True),
    "a link": bundle({**JOURNAL, VERIFIED: b"/etc/passwd"}),
    "very many members": bundle({**JOURNAL, **{f"x.series/{i}.parquet": b"" for i in range(60_000)}}),
    "many members": bundle({**JOURNAL, **{f"x.series/{i}.parquet": b"{}" for i in range(19_000)}}),
    "many verifications": bundle({**JOURNAL, **{f"verified-{i:016x}.json": ABOUT for i in range(19_000)}}),
    "verifications of others": bundle(
        {"x.jsonl": LINES * (150 * MIB // len(LINES)), **{f"verified-{i:016x}.json": ABOUT for i in range(400)}}
    ),
    "a verification of many values": bundle({**JOURNAL, VERIFIED: b"[" + b"[]," * (50 * MIB) + b"0]"}),
    "a deep manifest": bundle(JOURNAL, manifest=b'{"format":' + b"[" * MIB),
    "a manifest of huge numbers": bundle(JOURNAL, manifest=b'{"format": ' + b"9" * 5000 + b"}"),
    "a manifest of large numbers": bundle(
        JOURNAL, manifest=json.dumps({**listed(JOURNAL), "format": 10**4000, "skipped_lines": -1}).encode()
    ),
    "a manifest that is a bomb": bundle(JOURNAL, manifest=b" " * (200 * MIB)),
    "a manifest of odd words": bundle(
        JOURNAL, manifest=json.dumps({**listed(JOURNAL), "run": "\x1b[2J\0../x", "made_by": "\ud800"}).encode()
    ),
    "a manifest with a key twice": bundle(
        JOURNAL, manifest=json.dumps(listed(JOURNAL)).encode()[:-1] + b', "format": 99}'
    ),
    "a name with a NUL": bundle({**JOURNAL, "a\0b.json": b"{}"}),
    "a name that commands a terminal": bundle({**JOURNAL, "\x1b[2J.json": b"{}"}),
}
