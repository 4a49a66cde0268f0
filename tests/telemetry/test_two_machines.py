"""Two machines of one host name, from the driver to the page: their launches are never pooled."""

import json

import pytest

from gpubench.files import store
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario

RUN = ("run", "--frameworks", "fake", "--strategies", "single", "--devices", "1", "--launches", "3", "--quiet")
WORKLOAD = ("--workloads", "resnet20", "--per-device-batch", "128")


@pytest.fixture
def measured(fake_nvml, monkeypatch, gpubench, tmp_path):
    """An H200 and an RTX 4090 three times slower, under one host name."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, step_seconds in (("h200_8x", 0.01), ("rtx4090_2x", 0.03)):
        fake = json.dumps({"step_seconds": step_seconds})
        variables = nvml.environment(fake_nvml, Scenario.load(name).left_alone())
        done = gpubench(*RUN, *WORKLOAD, "--save", name, GPUBENCH_FAKE=fake, **variables)
        assert done.returncode == 0, done.stderr
    return tmp_path / "results"


def test_two_machines_of_one_host_name_are_told_apart_everywhere(measured, gpubench, tmp_path):
    (host,) = {store.load(store.find(name, measured)).records[0].machine.name for name in ("h200_8x", "rtx4090_2x")}
    done = gpubench("report", "h200_8x", "rtx4090_2x", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.count("Does it scale?</h2>") == 2
    assert f"<h2>{host} (8x NVIDIA H200 of 141 GiB" in page
    assert f"<h2>{host} (2x NVIDIA GeForce RTX 4090 of 24 GiB" in page
    pictures = {path.stem for path in (tmp_path / "page.plots").glob("*.svg")}
    assert len(pictures) == 2
    assert {"H200" in name for name in pictures} == {True, False}

    compared = gpubench("compare", "h200_8x", "rtx4090_2x", "--json")
    assert compared.returncode == 0, compared.stderr
    ratios = [row["ratio"] for row in json.loads(compared.stdout)["cases"]]
    assert ratios == [None, pytest.approx(1 / 3, rel=0.02)]  # the reference has none
    together = gpubench("compare", "results", "h200_8x")
    assert together.returncode == 2
    assert "holds runs of 2 machines" in together.stderr

    assert gpubench("export", "--format", "csv", "h200_8x", "rtx4090_2x", "-o", "csv").returncode == 0
    for name in ("raw-launches-gpu", "derived-cases-gpu"):
        rows = (tmp_path / "csv" / f"{name}.csv").read_text().splitlines()[1:]
        assert {("H200 of" in row, "RTX 4090 of" in row) for row in rows} == {(True, False), (False, True)}
