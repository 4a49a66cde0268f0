"""What was sampled against the launch, and against what devices can do."""

from __future__ import annotations

from operator import attrgetter

from gpubench.spec.asked import once_for_a_record
from gpubench.spec.record import METRICS, DeviceTelemetry, RoundTelemetry, RunRecord

# Of a CPU share's busy time: the kernel counts by ticks, of which a short round has few, and may count back a little.
CPU_ROUNDING_PERCENT = 10.0
MEMORY_MARGIN = 1.05  # what a process may hold over the device's memory where the driver pages
POWER_MARGIN = 1.5  # a mean over a round stays near the limit; readings of it are up to a quarter off
CLOCK_MARGIN = 1.25  # an owner may raise a clock over what the driver calls the highest
EXACT = 0.01
# A counter and the power of some parts differ by a quarter (Yang et al. 2023, arXiv 2312.02741). At each edge of a
# round a counter may lack one refresh, where its error is not recorded.
ENERGY_MARGIN = 0.5
REFRESH_SECONDS = 0.25


FEWEST_SAMPLES = 2  # in a round, for a figure of what was polled
OF_SAMPLES = (
    "memory_used_bytes",
    "power_watts",
    "power_average_watts",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_celsius",
    "memory_temperature_celsius",
    "processes",
    "steal_percent",
)
_of_samples = attrgetter(*OF_SAMPLES)
POWER = "power_watts"
OF_ROUND = (*METRICS, "steal_percent", "processes", "ecc_uncorrected")
_of_round = attrgetter(*OF_ROUND)
_in_columns = attrgetter("index", "samples", "throttle_ns", "energy_integrated_joules", *OF_ROUND)


def all_hold(record: RunRecord) -> bool:
    """Whether none of what follows is broken, nor `complete.sampled`, seen at once in most records that are honest.

    Figures are looked at column by column: each metric of a device over the rounds. False says nothing: then each
    invariant is to be asked, which finds the words or finds that it holds after all.
    """
    sampled, indices = record.telemetry.devices, [each.index for each in record.rounds]
    lasted_ns = [each.end_ns - each.start_ns for each in record.rounds]
    system = record.telemetry.system
    facts = {gpu.id: gpu for gpu in system.gpus} if system else {}
    own = {device.id: device for device in record.devices}
    on_cpu = record.case.device_kind == "cpu"
    if len(own) != len(record.devices) or (system and len(facts) != len(system.gpus)):
        return False
    if not sampled or len(sampled) != len(own) or {device.id for device in sampled} != own.keys():
        return False
    if not indices or len(set(indices)) != len(indices):
        return False
    peak, margin = record.observed.peak_memory_bytes, CPU_ROUNDING_PERCENT if on_cpu else 1e-6
    for device in sampled:
        if len(device.rounds) != len(indices):
            return False
        columns = list(zip(*map(_in_columns, device.rounds), strict=True))
        index, samples, throttle_ns, integrated, *figures = columns
        if list(index) != indices or (min(samples) < FEWEST_SAMPLES and any(map(_has_too_few, device.rounds))):
            return False
        for column in figures:
            if None in column and column.count(None) != len(column):
                return False
        busy, memory, watts, joules, mhz, _, steal, _, _ = figures
        for percents in (busy, steal):
            if percents[0] is not None and not -margin <= min(percents) <= max(percents) <= 100 + margin:
                return False
        gpu = facts.get(device.id)
        size = (
            record.machine.memory_bytes if on_cpu else own[device.id].memory_bytes or (gpu.memory_bytes if gpu else 0)
        )
        if not size or (memory[0] is not None and not 0 < min(memory) <= max(memory) <= size):
            return False
        if peak is not None and not 0 < peak <= MEMORY_MARGIN * size:
            return False
        if mhz[0] is not None:
            highest = gpu.sm_clock_max_mhz if gpu else None
            if not 0 < min(mhz) <= max(mhz) <= (CLOCK_MARGIN * highest if highest else max(mhz)):
                return False
        if watts[0] is not None:
            limit = gpu.power_limit_watts if gpu else None
            if joules[0] is None or (limit and max(watts) > POWER_MARGIN * limit):
                return False
            if any(map(_unlike_energy, device.rounds, lasted_ns)):
                return False
        elif joules[0] is not None or integrated.count(None) != len(integrated):
            return False
        if any(throttle_ns):
            causes = throttle_ns[0].keys()
            if any(each.keys() != causes for each in throttle_ns) or any(map(_held_too_long, throttle_ns, lasted_ns)):
                return False
    return worked(record) is None


def devices(record: RunRecord) -> str | None:
    sampled = [device.id for device in record.telemetry.devices]
    own = {device.id for device in record.devices}
    if len(set(sampled)) != len(sampled):
        return "a device was sampled twice"
    strangers = [id for id in sampled if id not in own]
    return f"{', '.join(strangers)} is no device of the launch" if strangers else None


def rounds(record: RunRecord) -> str | None:
    indices = [each.index for each in record.rounds]
    for device in record.telemetry.devices:
        found = [each.index for each in device.rounds]
        if found and found != indices:
            told = [", ".join(map(str, each[:20])) for each in (found, indices)]
            return f"{device.id} was sampled in rounds {told[0]}, and the launch had rounds {told[1]}"
    return None


def busy(record: RunRecord) -> str | None:
    margin = CPU_ROUNDING_PERCENT if record.case.device_kind == "cpu" else 1e-6
    for device, each in _rounds(record):
        for percent in (each.utilization_percent, each.steal_percent):
            if percent is not None and not -margin <= percent <= 100 + margin:
                return f"{device.id} was {percent:.0f} % busy in round {each.index}"
    return None


def worked(record: RunRecord) -> str | None:
    """Of CPU shares; where one process drives all, of them together. A rank that left its cores is another's doubt.

    The kernel may count time that the hypervisor took as the rank's own. The fake framework has a clock of its own.
    """
    if record.case.device_kind != "cpu" or record.case.framework == "fake":
        return None
    sampled = {device.id: device.rounds for device in record.telemetry.devices}
    shares = [(len(device.cores), sampled.get(device.id, ())) for device in record.devices]
    for number, one in enumerate(record.rounds):
        busy = []
        for cores, rounds in shares:
            percent = rounds[number].utilization_percent if number < len(rounds) else None
            if percent is None:
                return None
            busy.append(((percent + (rounds[number].steal_percent or 0.0)) / 100 * cores, cores))
        if len(one.rank_cpu_seconds) == 1:
            busy = [(sum(seen for seen, _ in busy), sum(cores for _, cores in busy))]
        lasted = (one.end_ns - one.start_ns) / 1e9
        for (seen, cores), seconds in zip(busy, one.rank_cpu_seconds, strict=False):
            slack = CPU_ROUNDING_PERCENT / 100 * cores
            if (seen + slack) * lasted < seconds <= (cores + slack) * lasted:
                return f"cores were busy for {seen * lasted:.3g} s in round {one.index}, a rank for {seconds:.3g} s"
    return None


def memory(record: RunRecord) -> str | None:
    if record.case.device_kind == "cpu":
        most = dict.fromkeys((device.id for device in record.devices), record.machine.memory_bytes)
    else:
        system = record.telemetry.system
        named = [*(system.gpus if system else ()), *record.devices]
        most = {device.id: device.memory_bytes for device in named if device.memory_bytes}
    for device, each in _rounds(record):
        used, limit = each.memory_used_bytes, most.get(device.id)
        if used is not None and limit is not None and used > limit:
            return f"{device.id} used {_gib(used)} of {_gib(limit)} in round {each.index}"
        if used == 0:
            return f"{device.id} used no memory in round {each.index}"
    peak, largest = record.observed.peak_memory_bytes, max(most.values(), default=None)
    if peak is not None and largest is not None and peak > MEMORY_MARGIN * largest:
        return f"a process held {_gib(peak)} of {_gib(largest)}"
    return "a process that trained held no memory" if peak == 0 else None


def known(record: RunRecord) -> str | None:
    """Older records have no word of what their devices never had."""
    for device in record.telemetry.devices:
        for metric, figures in zip(OF_ROUND, zip(*map(_of_round, device.rounds), strict=True), strict=False):
            lacking = figures.count(None)
            if not lacking or lacking == len(figures) or metric in device.unavailable:
                continue
            for figure, each in zip(figures, device.rounds, strict=True):
                if figure is None and metric not in each.unavailable:
                    return f"{metric} of {device.id} has neither a figure nor a reason in round {each.index}"
        counted = {cause for each in device.rounds for cause in each.throttle_ns}
        for each in device.rounds if counted else ():
            for cause in counted - each.throttle_ns.keys():
                if f"throttle_{cause}_ns" not in each.unavailable:
                    return f"throttling of {device.id} ({cause}) has neither a time nor a reason in round {each.index}"
    return None


def powered(record: RunRecord) -> str | None:
    for device, each in _rounds(record):
        if each.power_watts and each.energy_joules is None:
            return f"{device.id} took {each.power_watts:.3g} W in round {each.index}, and no energy"
        of_power = each.energy_integrated_joules is not None
        told = POWER in each.unavailable or POWER in device.unavailable
        if each.power_watts is None and (of_power or (each.energy_joules is not None and not told)):
            return f"{device.id} took energy in round {each.index}, and has neither a power nor a reason"
    return None


def samples(record: RunRecord) -> str | None:
    for device, each in _rounds(record):
        if _has_too_few(each):
            return f"{device.id} has figures in round {each.index} of {each.samples} sample(s)"
    return None


def _has_too_few(each: RoundTelemetry) -> bool:
    """Samples, for the figures that were polled."""
    if each.samples >= FEWEST_SAMPLES:
        return False
    is_polled = each.utilization_source == "snapshots" and each.utilization_percent is not None
    return is_polled or any(figure is not None for figure in _of_samples(each))


def energy(record: RunRecord) -> str | None:
    lasted_ns = {each.index: each.end_ns - each.start_ns for each in record.rounds}
    for device, each in _rounds(record):
        if each.index in lasted_ns and (problem := _unlike_energy(each, lasted_ns[each.index])):
            return f"{device.id} took {problem}"
    return None


def _unlike_energy(each: RoundTelemetry, lasted_ns: int) -> str | None:
    """An energy of a round that its power over its time is not."""
    watts, lasted = each.power_watts, lasted_ns / 1e9
    if watts is None:
        return None
    expected = watts * lasted
    for joules, is_exact in (
        (each.energy_integrated_joules, True),
        (each.energy_joules, each.energy_source == "integrated power"),
    ):
        if joules is None:
            continue
        slack = EXACT * expected
        if not is_exact:
            error = each.energy_error_joules
            slack = ENERGY_MARGIN * max(joules, expected) + (REFRESH_SECONDS * watts if error is None else error)
        if abs(joules - expected) > slack:
            return f"{joules:.3g} J in round {each.index}, at {watts:.3g} W for {lasted:.3g} s"
    return None


def power(record: RunRecord) -> str | None:
    system = record.telemetry.system
    limits = {gpu.id: gpu.power_limit_watts for gpu in system.gpus if gpu.power_limit_watts} if system else {}
    if not limits:
        return None
    for device, each in _rounds(record):
        limit, watts = limits.get(device.id), each.power_watts
        if limit is not None and watts is not None and watts > POWER_MARGIN * limit:
            return f"{device.id} took {watts:.0f} W in round {each.index}, and its limit is {limit:.0f} W"
    return None


def clock(record: RunRecord) -> str | None:
    system = record.telemetry.system
    highest = {gpu.id: gpu.sm_clock_max_mhz for gpu in system.gpus if gpu.sm_clock_max_mhz} if system else {}
    for device, each in _rounds(record):
        mhz, limit = each.sm_clock_mhz, highest.get(device.id)
        if mhz is not None and (mhz <= 0 or (limit is not None and mhz > CLOCK_MARGIN * limit)):
            return f"{device.id} ran at {mhz:.0f} MHz in round {each.index}" + (f" of {limit}" if limit else "")
    return None


def throttled(record: RunRecord) -> str | None:
    lasted_ns = {each.index: each.end_ns - each.start_ns for each in record.rounds}
    for device, each in _rounds(record):
        if each.index in lasted_ns and _held_too_long(each.throttle_ns, lasted_ns[each.index]):
            longest = max(each.throttle_ns.values())
            return f"the clock of {device.id} was held down for {longest / 1e9:.3g} s in round {each.index}"
    return None


def _held_too_long(throttle_ns: dict[str, int], lasted_ns: int) -> bool:
    return bool(throttle_ns) and max(throttle_ns.values()) > 1.1 * lasted_ns + REFRESH_SECONDS * 1e9


@once_for_a_record
def _rounds(record: RunRecord) -> list[tuple[DeviceTelemetry, RoundTelemetry]]:
    return [(device, each) for device in record.telemetry.devices for each in device.rounds]


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
