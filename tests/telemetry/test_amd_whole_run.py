"""`gpubench run` on a machine with AMD GPUs, as far as that goes without one."""

import json

import pytest

from gpubench.files import store
from tests.fakes import amdsmi as fake
from tests.fakes.amdsmi import energy_joules, gpu

FAKE = {"step_seconds": 0.05, "real_time": True}


@pytest.fixture
def box(fake_amdsmi, monkeypatch):
    """The shell of a machine with 2 AMD GPUs."""
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPUBENCH_FAKE", json.dumps(FAKE))
    with fake.loading(fake_amdsmi, count=2):
        yield


@pytest.mark.usefixtures("box")
def test_a_run_on_amd_gpus_samples_the_gpus_that_it_uses(gpubench, tmp_path):
    words = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2", "--launches", "1")
    done = gpubench(*words, "--no-paired")
    # The fake's load comes and goes on its own, so that these GPUs were busy before any launch used them.
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("has no number: device shared") == 3
    assert "Fake Instinct 192GB" in done.stdout
    records = store.load(store.find("last", tmp_path / "results")).records
    record = next(record for record in records if record.case.n_devices == 2)
    assert record.devices == [gpu(1), gpu(0)]
    assert record.telemetry.source == "amdsmi"
    for device, number in zip(record.telemetry.devices, (1, 0), strict=True):
        start, end = (ns / 1e9 for ns in (record.rounds[0].start_ns, record.rounds[0].end_ns))
        assert device.rounds[0].energy_joules == pytest.approx(energy_joules(number, start, end), rel=0.25)
    assert gpubench("report", "last", "-o", "page.html").returncode == 0
    assert "Fake Instinct 192GB" in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("box")
def test_no_environment_is_made_for_amd_gpus(gpubench):
    refused = gpubench("setup", "torch")
    assert refused.returncode == 2
    assert "--python torch=PATH" in refused.stderr
