"""A framework in 100 lines of NumPy that really trains: verification can be tested where no other is installed."""

from pathlib import Path

from gpubench.spec.framework import Framework, Strategy

FRAMEWORK = Framework(
    name="toy",
    summary="NumPy",
    package=__name__,
    folder=Path(__file__).parent,
    distribution="",
    environment=lambda place: {"OPENBLAS_NUM_THREADS": "1"},
    workloads={"mlp": "workloads.mlp"},
    strategies=(
        Strategy(name="single", summary="one device", module="replicas", max_devices=1),
        Strategy(name="replicas", summary="one process, a replica a device", module="replicas"),
    ),
)
