"""What was read of the GPUs once: what they have in common apart from what differs, unknown apart from no."""

from dataclasses import replace

from gpubench.report.gpus import Matrix, told
from gpubench.spec.record import GpuFacts, GpuProcess, GpuSystem

FIRST = GpuFacts(
    id="GPU-a",
    name="Test GPU",
    index=0,
    power_limit_watts=600.0,
    power_default_limit_watts=700.0,
    power_most_watts=700.0,
    sm_clock_max_mhz=1980,
    ecc=True,
    mig=False,
    persistence=False,
    pcie_generation_max=4,
    pcie_gpu_generation_max=5,
    pcie_width=8,
    pcie_width_max=16,
    nvlinks=0,
    memory_used_bytes=2**30,
    utilization_percent=0,
    unavailable={"numa_node": "Not Supported"},
)
SECOND = replace(FIRST, id="GPU-b", index=1, processes=[GpuProcess(pid=41, memory_bytes=2**30), GpuProcess(pid=42)])
PAIR = GpuSystem(gpus=[FIRST, SECOND], links=[["X", "NV4"], ["NV4", "X"]], p2p=[["X", "OK"], ["OK", "X"]])


def test_what_all_gpus_have_alike_is_told_once():
    gpus = told(PAIR)
    assert gpus.common["name"] == "Test GPU"
    assert gpus.common["power limit"] == "600 W (by default 700 W, at most 700 W)"
    assert gpus.common["SM clock, at most"] == "1,980 MHz"
    assert gpus.common["ECC"] == "on"
    assert gpus.common["persistence mode"] == "off"
    assert gpus.common["PCIe"] == "generation 4 (the GPU alone 5), x8 of x16"
    assert gpus.common["NVLinks"] == "0"


def test_what_differs_has_a_value_for_each():
    gpus = told(PAIR)
    assert gpus.heads == ["GPU 0", "GPU 1"]
    assert gpus.differing == {
        "UUID": ["GPU-a", "GPU-b"],
        "on it before the run": [
            "1.00 GiB in use, 0 % busy, no process",
            "1.00 GiB in use, 0 % busy, process 41 with 1.00 GiB, process 42",
        ],
    }


def test_what_is_not_known_has_its_reason_and_is_left_out_where_there_is_none():
    gpus = told(PAIR)
    assert gpus.common["NUMA node"] == "\u2013 (Not Supported)"
    assert "compute mode" not in gpus.common


def test_the_links_stand_as_nvidia_smi_shows_them_with_what_they_mean():
    assert told(PAIR).links == Matrix(["0", "1"], [["X", "NV4"], ["NV4", "X"]], "NV#: that many NVLinks")


def test_peer_access_is_a_sentence_where_all_pairs_are_alike_and_else_a_matrix():
    denied = [["X", "chipset"], ["chipset", "X"]]
    assert told(PAIR).p2p == "all reach each other's memory (P2P)"
    assert told(replace(PAIR, p2p=denied)).p2p == "none reaches another's memory (P2P): chipset"
    mixed = told(replace(PAIR, p2p=[["X", "OK"], ["chipset", "X"]])).p2p
    assert isinstance(mixed, Matrix)
    assert mixed.rows == [["X", "OK"], ["chipset", "X"]]


def test_one_gpu_has_no_links_and_none_at_all_is_no_error():
    one = told(GpuSystem(gpus=[FIRST], links=[["X"]], p2p=[["X"]]))
    assert (one.links, one.p2p, one.differing) == (None, "", {})
    assert told(GpuSystem(cuda_visible_devices="")).software == {"CUDA_VISIBLE_DEVICES": "set to nothing"}


def test_the_fabric_and_the_highest_clock_that_is_allowed_stand_beside_what_they_limit():
    joined = replace(FIRST, boost_sm_clock_max_mhz=1755, fabric="completed", fabric_clique=3, fabric_degraded=True)
    gpus = told(GpuSystem(gpus=[joined], links=[["X"]], p2p=[["X"]]))
    assert gpus.common["SM clock, at most"] == "1,980 MHz (allowed 1,755 MHz)"
    assert gpus.common["NVLink fabric"] == "completed, clique 3, bandwidth degraded"
