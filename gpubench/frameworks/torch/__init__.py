"""PyTorch."""

from pathlib import Path

from gpubench.spec.case import Place
from gpubench.spec.framework import Framework, Pythons, Strategy


def environment(place: Place) -> dict[str, str]:
    variables = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
    if place.device_kind == "cpu":
        threads = str(len(place.cores))
        variables |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "CUDA_VISIBLE_DEVICES": ""}
        variables |= {"HIP_VISIBLE_DEVICES": "-1"}  # CUDA's empty one hides nothing from HIP
        variables |= {"GLOO_SOCKET_IFNAME": "lo"}  # else gloo looks the host name up, which a laptop may not resolve
    return variables


FRAMEWORK = Framework(
    name="torch",
    summary="PyTorch",
    package=__name__,
    folder=Path(__file__).parent,
    distribution="torch",
    environment=environment,
    pythons=Pythons(newest=(3, 14), why="PyTorch 2.13.0 has no build for Python 3.15"),
    precisions={"cpu": ("fp32", "bf16"), "gpu": ("fp32", "tf32", "bf16")},
    on_amd=True,
    workloads={name: f"workloads.{name}" for name in ("mlp", "resnet20", "resnet50")},
    strategies=(
        Strategy(name="single", summary="one device", module="single", max_devices=1),
        Strategy(
            name="data_parallel",
            summary="nn.DataParallel: one process, threads, the model copied to each GPU every step",
            module="data_parallel",
            refused={
                "cpu": "nn.DataParallel knows GPUs only: on a CPU it constructs, runs, and silently uses one device; "
                "use ddp there"
            },
            aliases=("DataParallel", "dp"),
        ),
        Strategy(
            name="ddp",
            summary="DistributedDataParallel: a process a device, gradients all-reduced (NCCL; gloo on CPU shares)",
            module="ddp",
            processes="per_device",
            aliases=("DistributedDataParallel",),
        ),
    ),
)
