"""The shared libraries that MXNet's wheels do not bring, and what to do where one is missing."""

import ctypes
import sys
from pathlib import Path

# What the CUDA build loads. It looks on the loader's path only, so they are loaded beforehand from NVIDIA's wheels
# (requirements-cuda.txt): each by its file, and after those that it needs itself.
CUDA = (
    "libcudart.so.11.0",
    "libnvrtc.so.11.2",
    "libcublasLt.so.11",
    "libcublas.so.11",
    "libcufft.so.10",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcudnn.so.8",
    "libnccl.so.2",
    "libnvToolsExt.so.1",
)
DRIVER = "libcuda.so.1"
FROM_THE_SYSTEM = ("libgomp.so.1", "libquadmath.so.0")


def load_cuda() -> None:
    """Load the CUDA libraries that NVIDIA's wheels have put beside MXNet; none where they are not there."""
    for library in CUDA:
        files = [file for folder in sys.path for file in Path(folder).glob(f"nvidia/*/lib/{library}")]
        if files:
            ctypes.CDLL(str(files[0]), mode=ctypes.RTLD_GLOBAL)


def missing(error: str) -> str:
    """What to say of the loader's error: the library that it names, whose it is, and what to do."""
    library = error.partition(":")[0].strip()
    if "cannot open shared object file" not in error:
        return f"MXNet's library does not load: {error}"
    said = f"MXNet's library does not load, because {library} is missing. To do: "
    if library == DRIVER:
        return said + (
            "it is part of NVIDIA's driver, without which MXNet's CUDA build cannot even be imported: install the "
            "driver, or give the container its GPUs; or take the CPU build, `gpubench setup mxnet --device-kind cpu`"
        )
    if library in CUDA:
        made = "`gpubench setup mxnet --device-kind gpu` makes an environment that has it"
        return said + f"it is part of CUDA 11 or cuDNN 8; {made}"
    if library in FROM_THE_SYSTEM:
        return said + (
            "MXNet takes libgomp.so.1 and libquadmath.so.0 from the system; on Debian and Ubuntu: apt-get install "
            "libgomp1 libquadmath0"
        )
    return said + f"install the system's package that has {library}"
