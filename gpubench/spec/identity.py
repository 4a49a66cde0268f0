"""Which launches come from the same machine, so that they may be pooled. Nothing else decides it.

A host name alone does not: a container gets a new one every night, and two machines may share one. A machine is known
by what it is made of:

- its GPUs, by UUID: no two have the same. Such a machine stays the same under another host name.
- without GPUs, by its host name; in a container whose name was generated, by its hardware alone.
- by the name that the user gave it with `--machine`, wherever there is one.

All else that changes how fast it is must be equal too: CPU, usable cores and the CPU limit, memory, driver, kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain, count

from gpubench.spec.record import Machine

GIB = 1024**3
MOST_COMPARED = 50  # machines of one name, to say what tells one from them; a number tells it from the others


@dataclass(frozen=True, order=True)
class Identity:
    """What two records must share to be of one machine. All fields are text, so that a difference can be printed."""

    name: str  # empty where the hardware alone decides
    gpus: tuple[tuple[str, str, str], ...]  # model, memory and UUID of each
    cpu: str
    cores: str
    cpu_limit: str
    memory: str
    driver: str
    os: str

    @property
    def host(self) -> tuple[object, ...]:
        """Which machine it is, whatever its driver, kernel and limits are at the time."""
        return self.name, self.gpus, self.cpu

    def differences(self, other: Identity) -> dict[str, tuple[str, str]]:
        """What differs, by its name: the value here, and the other's."""
        mine, theirs = self._words(other), other._words(self)
        return {what: (mine[what], theirs[what]) for what in mine if mine[what] != theirs[what]}

    def _words(self, other: Identity) -> dict[str, str]:
        """The fields as they are shown. UUIDs only where models and sizes are the same."""
        same_models = [gpu[:2] for gpu in self.gpus] == [gpu[:2] for gpu in other.gpus]
        words = {each.name.replace("_", " "): getattr(self, each.name) or "none" for each in fields(self)}
        words["name"] = self.name or "not given"
        words["cpu limit"] = self.cpu_limit or "no CPU limit"
        words["driver"] = f"driver {self.driver}" if self.driver else "no driver"
        words["gpus"] = _short_ids(self.gpus) if same_models else _models(self.gpus)
        words["CPU"] = words.pop("cpu")
        return words


def identity(machine: Machine) -> Identity:
    """What the machine is known by."""
    # In their order, as a case on one device takes the first of them.
    gpus = tuple((gpu.name, _gib(gpu.memory_bytes), gpu.id) for gpu in machine.devices if gpu.kind == "gpu")
    named = machine.name_from == "given" or (not gpus and machine.name_from != "container")
    limit = machine.cpu_quota_cores
    return Identity(
        name=machine.name if named else "",
        gpus=gpus,
        cpu=machine.cpu,
        cores=f"{machine.cores} cores",
        cpu_limit="" if limit is None else f"CPU limit of {limit:g}",
        memory=_gib(machine.memory_bytes),
        driver=machine.driver or "",
        os=machine.os,
    )


def labels(machines: Iterable[Machine]) -> dict[Identity, str]:
    """A name for each of these machines that no other of them has.

    Where machines share a name, what differs between them is added: "box (2x NVIDIA H200)". Of several names for one
    machine, as a container has them, the last counts.
    """
    names = {identity(machine): machine.name for machine in machines}
    sharing: dict[str, list[Identity]] = defaultdict(list)
    for each, name in names.items():
        sharing[name].append(each)
    made: dict[Identity, str] = {}
    taken = set[str]()
    for name, several in sharing.items():
        for each in sorted(several):
            wanted = f"{name} ({told})" if (told := _apart(each, several[:MOST_COMPARED])) else name
            numbered = (f"{wanted} #{number}" for number in count(2))
            wishes = chain([wanted], numbered)
            made[each] = next(one for one in wishes if one not in taken and (one == name or one not in sharing))
            taken.add(made[each])
    return made


def label(machine: Machine, known: Mapping[Identity, str]) -> str:
    """The machine's label among those that `labels` has named; its own name where it is none of them."""
    return known.get(identity(machine), machine.name)


def cpu_limit(machine: Machine) -> str:
    """What a control group lets this machine's processes use of its CPUs, in words; empty where all of them."""
    found = []
    if machine.cpu_quota_cores is not None:
        cores = f"{machine.cpu_quota_cores:g} core{'' if machine.cpu_quota_cores == 1 else 's'}"
        found.append(f"a quota of {cores}" + (f" ({machine.cpu_quota_source})" if machine.cpu_quota_source else ""))
    if machine.cpuset is not None:
        found.append(f"a cpuset of {machine.cpuset}")
    return " and ".join(found)


def _apart(one: Identity, others: Iterable[Identity]) -> str:
    """What tells it from the others that have its name."""
    return ", ".join(dict.fromkeys(mine for other in others for mine, _ in one.differences(other).values()))


def _models(gpus: tuple[tuple[str, str, str], ...]) -> str:
    """'2x NVIDIA H200 of 141 GiB'."""
    kinds = [f"{name} of {memory}" if memory else name for name, memory, _ in gpus]
    return ", ".join(f"{kinds.count(kind)}x {kind}" for kind in dict.fromkeys(kinds)) or "no GPU"


def _short_ids(gpus: tuple[tuple[str, str, str], ...]) -> str:
    """Each UUID's first block, or all of it where that is the same."""
    return ", ".join("-".join(identifier.split("-")[:2]) for _, _, identifier in gpus) or "no GPU"


def _gib(size: int | None) -> str:
    """In whole GiB, rounded up: the kernel keeps a little of the memory for itself, and how much varies with it."""
    return "" if size is None else f"{-(-size // GIB)} GiB"
