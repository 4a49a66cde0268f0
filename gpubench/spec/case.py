"""What is measured: one workload x framework x strategy x size; and a process's place in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["cpu", "gpu"]
Vendor = Literal["amd"]
Scaling = Literal["weak", "strong"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU, known by its UUID, or one CPU share, known by its cores ("cores 0-3")."""

    kind: DeviceKind
    id: str
    name: str
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None
    vendor: Vendor | None = None  # of a GPU that is not NVIDIA's


def share_id(cores: tuple[int, ...]) -> str:
    """The name of a CPU share: 'cores 0-3,8'."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    spans = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return ("core " if len(cores) == 1 else "cores ") + spans


@dataclass(frozen=True, kw_only=True)
class Case:
    """One workload x framework x strategy x size.

    Weak scaling keeps `per_device_batch` as devices are added; strong scaling keeps `global_batch`.
    """

    workload: str
    framework: str
    strategy: str
    device_kind: DeviceKind
    n_devices: int
    per_device_batch: int
    global_batch: int
    cores_per_device: int = 0
    n_nodes: int = 1
    precision: str = "fp32"
    scaling: Scaling = "weak"
    seed: int = 0

    @property
    def id(self) -> str:
        """As it stands in tables, test names and on the command line: `resnet20-torch-ddp-2x128-fp32`."""
        size = f"{self.n_devices}x{self.per_device_batch}"
        words = [self.workload, self.framework, self.strategy, size, self.precision]
        return "-".join(words + (["strong"] if self.scaling == "strong" else []))


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one process stands in its gang, and which devices are its own.

    A strategy with a process for each device has as many processes as devices (`world_size` of them, one device
    each); one with a process for all has a single place that holds every device.
    """

    rank: int
    world_size: int
    devices: tuple[Device, ...]
    all_devices: tuple[Device, ...]
    address: str = ""
    collective_timeout_seconds: float = 60.0

    @property
    def device_kind(self) -> DeviceKind:
        return self.devices[0].kind

    @property
    def cores(self) -> tuple[int, ...]:
        """The cores that this process may use: those of its CPU shares; none named for GPUs."""
        return tuple(sorted(core for device in self.devices for core in device.cores))
