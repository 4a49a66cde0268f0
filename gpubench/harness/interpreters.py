"""Which Python has a framework: the one named for it, else this one, else the managed environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpubench.harness import pythons
from gpubench.harness.environments import Environment, discovery
from gpubench.harness.gang.surroundings import surroundings
from gpubench.spec.errors import UsageError
from gpubench.spec.framework import OLDEST_PYTHON, Framework

DISCOVERY_SECONDS = 120


@dataclass(frozen=True)
class Interpreters:
    """`named` maps a framework to the Python that the user gave for it."""

    named: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: list[str], known: list[str]) -> Interpreters:
        """From `NAME=PATH` words; UsageError where one names no framework, or no Python that a worker can run in."""
        named = {}
        for word in words:
            name, equals, path = word.partition("=")
            if not equals or name not in known:
                raise UsageError(f"--python takes NAME=PATH with NAME one of {', '.join(known)}; got {word!r}.")
            if not Path(path).is_file():
                raise UsageError(f"--python {name}: there is no program {path}.")
            version = pythons.version_of(Path(path).absolute())
            if version is None:
                raise UsageError(f"--python {name}: {path} does not answer as Python does; name a Python's program.")
            if version < OLDEST_PYTHON:
                raise UsageError(
                    f"--python {name}: {path} is Python {pythons.words(version)}; a worker needs Python "
                    f"{pythons.words(OLDEST_PYTHON)} or newer."
                )
            named[name] = Path(path).absolute()
        return cls(named)

    def find(self, framework: Framework) -> Path | None:
        """The Python to run a framework's workers in; None where there is none, and `lacking` says why."""
        if not framework.distribution:
            return self.named.get(framework.name, Path(sys.executable))  # it needs nothing but Python
        if pythons.file_in_the_way(framework.name):
            return None
        if framework.name in self.named:
            return self.named[framework.name]
        if pythons.own_has(framework.name):
            return Path(sys.executable)
        environment = Environment.of(framework)
        return environment.python if environment.ready else None

    def lacking(self, framework: Framework) -> str:
        """What to say where there is none: why, and what to do."""
        name = framework.name
        if file := pythons.file_in_the_way(name):
            return (
                f"a file {file} in a folder of PYTHONPATH hides {name} from every Python: rename it, or take its "
                "folder out of PYTHONPATH"
            )
        if failure := Environment.of(framework).failure:
            return f"no Python with {name}: its setup failed: {failure.why}. To do: {failure.to_do}"
        return f"no Python with {name}: `gpubench setup {name}`, or --python {name}=PATH"

    def discover(self, framework: Framework) -> dict[str, Any]:
        """What the framework says of itself: `version`, `gpus`, `details`; or `reason` where it could not."""
        python = self.find(framework)
        if python is None:
            return {"reason": self.lacking(framework)}
        try:
            answer = subprocess.run(
                discovery(python, framework),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=DISCOVERY_SECONDS,
                env=surroundings(os.environ),
                check=False,
            )
            if answer.returncode == 0:
                return {"python": str(python), **json.loads(answer.stdout)}
            said = answer.stderr.decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else f"exit code {answer.returncode}"
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            reason = str(error)
        return {"python": str(python), "reason": f"{framework.name} could not be asked: {reason}"}
