"""Many machines of the fake driver in one go: each is looked at in a fork, which is the process that loads the driver.

`python -m tests.telemetry.forked` reads a list of questions from its standard input and prints the list of answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario


def ask(library: Path, what: str, scenarios: Sequence[Scenario]) -> list[Any]:
    """For each scenario the answer to "view", "screen", or "screen and recording"; a text for an exception."""
    environments = [nvml.environment(library, scenario) for scenario in scenarios]
    questions = [[what, environment["FAKE_NVML_SETTINGS"]] for environment in environments]
    done = subprocess.run(
        [sys.executable, "-m", "tests.telemetry.forked"],
        input=json.dumps(questions).encode(),
        env={**os.environ, **environments[0], "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers


def view() -> Any:
    from gpubench.telemetry.nvml import look

    return asdict(look())


def screen() -> str:
    """What doctor shows of the NVIDIA GPUs, but for the version of the binding, which is not the machine's."""
    from gpubench.telemetry import doctor
    from gpubench.telemetry.nvml import look
    from gpubench.telemetry.sampling import make_source

    seen = look()
    if seen.system is not None:
        seen = replace(seen, system=replace(seen.system, binding="VERSION"))
    answers = make_source("nvml", seen.devices).header() if seen.devices else None
    return "\n".join(doctor.screen(seen, answers, doctor.warnings(seen, range(512))))


def screen_and_recording() -> tuple[str, Any]:
    from gpubench.telemetry.recording import record

    return screen(), record()


QUESTIONS: dict[str, Callable[[], Any]] = {"view": view, "screen": screen, "screen and recording": screen_and_recording}


def main() -> None:
    answers = []
    for what, settings in json.load(sys.stdin):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            os.environ["FAKE_NVML_SETTINGS"] = settings
            try:
                answer = QUESTIONS[what]()
            except BaseException as error:
                answer = f"TRACEBACK {type(error).__name__}: {error}"
            with os.fdopen(writer, "w") as pipe:
                json.dump(answer, pipe)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        answers.append(json.loads(text) if text else "TRACEBACK the process ended without an answer")
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
