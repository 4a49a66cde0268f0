"""What `gpubench setup` does: the environments of several frameworks, made at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gpubench.harness import machine, registry
from gpubench.harness.environments import Environment
from gpubench.spec.errors import GpubenchError, NothingToRunError


def setup(names: tuple[str, ...], device_kind: str, say: Callable[[str], None]) -> None:
    """Make what can be made, and say of the rest why it could not be.

    GpubenchError where one of `names` could not be made. Without names, all frameworks that need an environment are
    tried: NothingToRunError where none could be made.
    """
    wanted = [registry.framework(name) for name in dict.fromkeys(names)]
    chosen = wanted or [f for f in registry.frameworks().values() if f.distribution and not f.hidden]
    kind = machine.environment_kind(machine.describe()) if device_kind == "auto" else device_kind

    def make(environment: Environment) -> str | None:
        """Why it could not be made; None where it was."""
        name = environment.framework.name
        if not environment.framework.distribution or environment.matches(kind):
            say(f"{name}: ready")
            return None
        try:
            seconds = environment.make(kind, lambda text: say(f"{name}: {text}"))
        except GpubenchError as error:
            return str(error)
        except OSError as error:
            return f"{name} is not set up: {error}.\n  To do: let GPUBENCH_HOME name a folder that you may write to."
        say(f"{name}: ready in {environment.folder} ({seconds:.0f} s)")
        return None

    with ThreadPoolExecutor() as pool:
        failures = [failure for failure in pool.map(make, map(Environment.of, chosen)) if failure]
    told = "\n".join(failures)
    if failures and wanted:
        raise GpubenchError(told)
    if failures and len(failures) == len(chosen):
        raise NothingToRunError(told)
    if failures:
        say(f"gpubench: {told}\nThe rest is ready; cases that need what is missing are skipped with its reason.")
