"""A framework whose steps take a known time on a clock of its own: the harness's arithmetic can be checked exactly.

It also dies, hangs, runs out of memory and floods its log on request. `GPUBENCH_FAKE` holds its behaviour as JSON:

    step_seconds, sample_seconds (added for each of the per-device batch), largest_batch, per_rank_factor {"1": 1.5},
    first_step_seconds, warm_up_steps and warm_up_factor, jitter [factors, repeated],
    communication_seconds (added where there is more than one device),
    loss [values, the last one repeats], world_size, drift (replicas differ), parameters,
    parameter_type, product_types ["float32"],
    lazy {"after_steps": 20, "step_seconds": 0.001} (steps from there on take that, and update nothing),
    refuse_variables [names that must not reach the worker],
    real_time (steps really take their time, on the node's clock),
    misbehave {"rank": 1, "phase": "step", "after_steps": 3, "how": "die"}, phase being start, build, step or stop
"""

from pathlib import Path

from gpubench.spec.case import Place
from gpubench.spec.framework import Framework, Strategy


def environment(place: Place) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(len(place.cores) or 1)}


FRAMEWORK = Framework(
    name="fake",
    summary="steps of a known time, for testing gpubench itself",
    package=__name__,
    folder=Path(__file__).parent,
    distribution="",
    environment=environment,
    workloads=dict.fromkeys(("mlp", "resnet20", "resnet50"), "workloads.known"),
    on_amd=True,
    hidden=True,
    strategies=(
        Strategy(name="single", summary="one device", module="one_process", max_devices=1),
        Strategy(name="replicas", summary="one process drives all devices", module="one_process"),
        Strategy(name="ranks", summary="a process a device", module="ranks", processes="per_device"),
        Strategy(
            name="gpu_only",
            summary="refused on CPU shares",
            module="one_process",
            refused={"cpu": "needs a GPU by design"},
        ),
    ),
)
