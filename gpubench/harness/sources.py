"""Which code a framework's strategies were when they ran: a verification holds for that code only."""

from __future__ import annotations

import hashlib

from gpubench.spec.framework import Framework


def digest(framework: Framework) -> str:
    """The same for the same Python files in the framework's folder."""
    sha = hashlib.sha256()
    for file in sorted(framework.folder.rglob("*.py")):
        sha.update(f"{file.relative_to(framework.folder)}\n".encode())
        sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
