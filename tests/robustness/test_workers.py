"""Workers that speak nonsense, and real ones that run out of memory or are killed: the next case is unaffected."""

import contextlib
import resource
import sys
from pathlib import Path

import psutil
import pytest

from gpubench.harness import registry
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.schedule import interleaved
from tests.robustness.conftest import one_now, wait_until

SHARED_MEMORY = Path("/dev/shm")
ADDRESS_SPACE_BYTES = 6 << 30  # torch and its threads take two or three


@pytest.mark.parametrize(
    "says",
    one_now(
        b"hello\n",
        b'{"kind":"surprise"}\n',
        b'{"kind":"built","world_size":1,"more":2}\n',
        b"[]\n",
        b"\xff\xfe\n",
        b"[" * 50_000 + b"\n",
        b"x" * (2 << 20),
    ),
    ids=["text", "unknown", "too much", "list", "bytes", "deep", "endless"],
)
def test_a_worker_that_speaks_nonsense_fails_by_itself(harness, tmp_path, says):
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nsays = {says!r}\n"
        # Asked for its version, it is a Python like any other.
        "if '-c' in sys.argv:\n    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
        "while says:\n    says = says[os.write(int(os.environ['GPUBENCH_MESSAGE_FD']), says):]\ntime.sleep(60)\n"
    )
    python.chmod(0o755)
    done = harness.run(
        *harness.bench("--strategies", "single,replicas", "--devices", "1", "--launches", "1"),
        *("--python", f"fake={python}"),
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    records = harness.records()
    assert [record.outcome.status for record in records] == ["failed", "failed"]
    assert records[0].outcome.message.startswith("Rank 0 of 1 sent what is no message in start")
    assert records[0].outcome.message.isprintable()
    harness.assert_nothing_left()


@pytest.fixture
def torch_python() -> Path:
    found = Interpreters().find(registry.framework("torch"))
    if found is None:
        pytest.skip("there is no Python with torch; make one with `gpubench setup torch`")
    return found


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))


def test_a_real_worker_that_hits_its_memory_limit_is_out_of_memory_and_not_dead(harness, torch_python):
    words = ("--frameworks", "torch", "--workloads", "mlp", "--devices", "1", "--device-kind", "cpu")
    size = ("--strategies", "single", "--launches", "1", "--per-device-batch", "3000000")  # 9.4 GB of input
    done = harness.run(
        *("run", *words, *size, "--results", str(harness.results), "--python", f"torch={torch_python}"),
        preexec_fn=limit_memory,
    )
    assert done.returncode == 1
    (record,) = harness.records()
    assert record.outcome.status == "oom", record.outcome
    assert "per-device-batch" in record.outcome.remedy
    harness.assert_nothing_left()


def test_a_real_gang_that_loses_a_rank_leaves_nothing_and_the_next_cases_run(harness, torch_python, tmp_path):
    gang_first = next(seed for seed in range(100) if next(interleaved(range(3), 1, seed))[0] == 2)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f"""
        workloads = ["mlp"]
        frameworks = ["torch"]
        strategies = ["ddp"]
        devices = [2]
        device_kind = "cpu"
        per_device_batch = 512
        launches = 1
        rounds = 2
        round_seconds = 0.2
        seed = {gang_first}
        """
    )
    before = set(SHARED_MEMORY.iterdir())
    words = ("run", "--plan", str(plan), "--results", str(harness.results), "--python", f"torch={torch_python}")
    process = harness.start(*words)
    wait_until(lambda: len(harness.workers()) == 2 and listening(harness))
    sockets = listening(harness)
    harness.workers()[1].kill()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    gang, *others = harness.records()
    assert gang.outcome.status == "rank_died"
    assert gang.case.n_devices == 2
    assert [record.outcome.status for record in others] == ["ok", "ok"]
    harness.assert_nothing_left()
    assert not sockets & {entry.laddr for entry in psutil.net_connections("inet") if entry.status == "LISTEN"}
    wait_until(lambda: all(in_use(path) for path in set(SHARED_MEMORY.iterdir()) - before), 20)


def listening(harness) -> set:
    """Addresses on which a worker waits for others."""
    pids = {worker.pid for worker in harness.workers()}
    return {e.laddr for e in psutil.net_connections("inet") if e.status == "LISTEN" and e.pid in pids}


def in_use(path: Path) -> bool:
    """Whether a living process maps it, as other programs on the machine may at the same time; ours are all gone."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if str(path) in maps.read_text():
                return True
    return False
