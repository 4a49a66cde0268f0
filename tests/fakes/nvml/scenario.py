"""One machine of the fake driver: its settings, from a TOML or JSON file, and the truth about its load."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubench.spec.case import Device

Setting = str | int | float
SCENARIOS = Path(__file__).with_name("scenarios")
OF_THE_MACHINE = {
    "count",
    "reversed",
    "fail",
    "flaky",
    "phantoms",
    "lost",
    "hang",
    "abort",
    "trigger",
    "slow",
    "slow_all",
    "driver",
    "nvml",
    "cuda",
}
GIB = 2**30


@dataclass(frozen=True)
class Scenario:
    """`settings` has a table `gpu` for all GPUs, and a list `gpus` of what one of them has for itself."""

    settings: Mapping[str, Any]

    @classmethod
    def load(cls, name: str | Path) -> Scenario:
        path = SCENARIOS / f"{name}.toml" if isinstance(name, str) else name
        text = path.read_text()
        return cls(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))

    def but(self, **settings: Setting) -> Scenario:
        """This machine with other settings: those of `OF_THE_MACHINE`, and for all its GPUs any other."""
        of_machine = {name: value for name, value in settings.items() if name in OF_THE_MACHINE}
        of_gpus = {name: value for name, value in settings.items() if name not in OF_THE_MACHINE}
        return Scenario({**self.settings, **of_machine, "gpu": {**self.settings.get("gpu", {}), **of_gpus}})

    def but_each(self, name: str, values: Sequence[Setting]) -> Scenario:
        """This machine with a setting of its own for each GPU."""
        own = self.settings.get("gpus", [{}] * self.count)
        return Scenario({**self.settings, "gpus": [{**gpu, name: v} for gpu, v in zip(own, values, strict=False)]})

    def left_alone(self) -> Scenario:
        """This machine with a load that no launch takes for another's: it is always the same, and small."""
        return self.but(busy_share=0.03, load_period=0.001)

    @property
    def missing(self) -> list[str]:
        """The symbols that this driver lacks."""
        return list(self.settings.get("missing", []))

    @property
    def count(self) -> int:
        return int(self.settings.get("count", len(self.settings.get("gpus", [])) or 1))

    def flat(self) -> str:
        """One `key=value` a line, as the library reads it."""
        return "".join(f"{key}={value}\n" for key, value in _flat("", {**self.settings, "count": self.count}))

    def device(self, number: int) -> Device:
        uuid = f"GPU-{0xA0 + number:08x}-fa4e-4000-8000-{number:012d}"
        name = str(self._own(number, "name", "Fake GPU 80GB"))
        memory_bytes = round(self.value(number, "memory_gib", 80) * GIB)
        return Device(kind="gpu", id=uuid, name=name, memory_bytes=memory_bytes)

    @property
    def devices(self) -> list[Device]:
        return [self.device(number) for number in range(self.count)]

    def instances(self, number: int) -> list[Device]:
        """The MIG instances of a GPU."""
        return [self._instance(number, *str(text).split()) for text in self._own(number, "mig_instances", [])]

    @property
    def usable(self) -> list[tuple[int, Device]]:
        """What a process can be given, with the number of its GPU: GPUs, or instances where one is cut."""
        return [(n, each) for n in range(self.count) for each in self.instances(n) or [self.device(n)]]

    def busy_share(self, number: int, id: str) -> float:
        """Of a GPU, or of one of its instances, over whole periods of the load."""
        shares = {
            self._instance(number, *words[:4]).id: float(words[5])
            for words in (str(text).split() for text in self._own(number, "mig_instances", []))
            if len(words) > 5
        }
        return shares.get(id, self.value(number, "busy_share", 0.1 + 0.09 * (number % 8)))

    def busy_seconds(self, number: int, since: float, until: float) -> float:
        return self._busy(number, until) - self._busy(number, since)

    def energy_joules(self, number: int, since: float, until: float) -> float:
        idle, busy = self.value(number, "idle_watts", 80), self.value(number, "busy_watts", 500)
        return idle * (until - since) + (busy - idle) * self.busy_seconds(number, since, until)

    def _instance(self, number: int, profile: str, gi: str, ci: str, mib: str, *_: str) -> Device:
        uuid = f"MIG-{0xA0 + number:08x}-fa4e-4000-{8000 + 10 * int(gi) + int(ci)}-{number:012d}"
        name = f"{self.device(number).name} MIG {profile}"
        return Device(kind="gpu", id=uuid, name=name, memory_bytes=int(mib) * 2**20)

    def value(self, number: int, name: str, otherwise: float) -> float:
        return float(self._own(number, name, otherwise))

    def _own(self, number: int, name: str, otherwise: Setting) -> Any:
        own = self.settings.get("gpus", [])
        mine = own[number] if number < len(own) else {}
        return mine.get(name, self.settings.get("gpu", {}).get(name, otherwise))

    def _busy(self, number: int, time: float) -> float:
        if schedule := self._own(number, "schedule", ""):
            stamps = [float(stamp) for stamp in str(schedule).split(",")]
            return sum(max(0.0, min(time, end) - start) for start, end in zip(stamps[::2], stamps[1::2], strict=True))
        period = self.value(number, "load_period", 2)
        each = period * self.value(number, "busy_share", 0.1 + 0.09 * (number % 8))
        periods = math.floor(time / period)
        return periods * each + min(time - periods * period, each)


def _flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for key, item in value.items() for pair in _flat(f"{prefix}.{key}" if prefix else key, item)]
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [pair for index, item in enumerate(value) for pair in _flat(f"{prefix}.{index}", item)]
    if isinstance(value, list):
        return [(prefix, ",".join(map(str, value)))]
    return [(prefix, str(int(value) if isinstance(value, bool) else value))]
