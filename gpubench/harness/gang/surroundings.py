"""What of the user's shell reaches a worker: everything but what would make it part of another job.

A launcher's variables tell a process its place in that launcher's job. A gang has places of its own, and a framework
that believes the launcher waits for peers that never come: with `DMLC_ROLE=server`, `import mxnet` serves for ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# Names that launchers set, each with who reads them.
LAUNCHERS_NAMES = frozenset(
    {
        # torchrun's, read by torch.distributed's `env://` (docs: "Environment variable initialization")
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"),
        *("GROUP_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"),
        "TF_CONFIG",  # tf.distribute's TFConfigClusterResolver
    }
)
LAUNCHERS_PREFIXES = (
    *("TORCHELASTIC_", "PET_"),  # torchrun's agent and its options
    "DMLC_",  # ps-lite's, read at `import mxnet` and by its library
    *("SLURM_", "SLURMD_"),  # read by the cluster resolvers of TensorFlow and JAX
    *("OMPI_", "PMI_", "PMIX_", "PRTE_", "HYDRA_", "MPI_LOCAL", "MV2_COMM_", "PALS_"),  # of MPI launchers, read alike
    *("JAX_COORDINATOR_", "JAX_PROCESS_", "JAX_NUM_PROCESSES", "JAX_LOCAL_DEVICE_IDS"),  # jax.distributed
    "KERAS_MAX_",  # ends a `fit` after so many steps (keras/src/backend/config.py)
)

# Files of the user's that frameworks read, kept away by naming another: one that never holds anything.
NO_FILES = {
    "KERAS_HOME": os.devnull,  # keras.json there sets the floating-point type, the layout and an epsilon
    # Else ~/.nccl.conf (NCCL user guide, "Environment Variables"). What a machine needs of it can be set as variables.
    "NCCL_CONF_FILE": os.devnull,
}


def surroundings(shell: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to import a framework, made of the user's."""
    away = set(kept_away(shell))
    return {name: value for name, value in shell.items() if name not in away} | NO_FILES


def kept_away(shell: Mapping[str, str]) -> list[str]:
    """The names of the variables that no worker sees, in order."""
    return sorted(name for name in shell if name in LAUNCHERS_NAMES or name.startswith(LAUNCHERS_PREFIXES))
