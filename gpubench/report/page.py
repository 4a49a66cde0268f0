"""What every page of a report is made with: templates that escape, assets that the page's policy knows by hash."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpubench.report.words import clean, gib

FOLDER = Path(__file__).parent


def environment() -> Environment:
    """Everything that a record says is escaped; a name that a template has wrong is an error."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"clean": clean, "gib": gib}
    return made


def asset(*names: str) -> Markup:
    """Files of this package, one after another, as they stand."""
    return Markup("\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names))


def policy(style: str, script: str | None = None) -> str:
    """The page loads nothing and sends nothing, and no style or script but its own counts."""
    scripts = f" script-src {_hash(script)};" if script else ""
    return f"default-src 'none'; img-src data:; style-src {_hash(style)};{scripts} base-uri 'none'; form-action 'none'"


def data_uri(svg: str) -> str:
    """As an image of its own, so that ids of one SVG cannot meet those of another."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def write_atomically(output: Path, text: str) -> None:
    """The file appears whole or not at all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)  # mkstemp makes files that only their owner may read
        os.replace(name, output)
    except BaseException:
        os.unlink(name)
        raise


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
