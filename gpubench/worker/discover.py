"""What a framework finds on this machine by its own means: `python -P gpubench/worker/__main__.py discover …`."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path

from gpubench.worker.__main__ import load_package


def main() -> None:
    """Print one JSON line on the real standard output; whatever the framework prints goes to standard error."""
    _, _, package, folder = sys.argv
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    load_package(package, Path(folder))
    device = import_module(f"{package}.device")
    answer.write(json.dumps(device.discover()) + "\n")
    answer.flush()
    os._exit(0)
