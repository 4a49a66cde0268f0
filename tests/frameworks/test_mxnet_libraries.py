"""The libraries that MXNet's wheels do not bring: loaded from NVIDIA's, and named truly where they are missing."""

import subprocess
import sys

import pytest

from gpubench.frameworks.mxnet import libraries

NOT_FOUND = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("library", "to_do"),
    [
        ("libcuda.so.1", "it is part of NVIDIA's driver"),
        ("libcudnn.so.8", "`gpubench setup mxnet --device-kind gpu` makes an environment that has it"),
        ("libcublas.so.11", "`gpubench setup mxnet --device-kind gpu` makes an environment that has it"),
        ("libgomp.so.1", "apt-get install libgomp1 libquadmath0"),
        ("libquadmath.so.0", "apt-get install libgomp1 libquadmath0"),
        ("libnuma.so.1", "install the system's package that has libnuma.so.1"),
    ],
)
def test_a_missing_library_is_named_with_what_brings_it(library, to_do):
    said = libraries.missing(f"{library}: {NOT_FOUND}")
    assert f"because {library} is missing. To do: " in said
    assert to_do in said
    assert ("libgomp" in said) == (library in libraries.FROM_THE_SYSTEM)


def test_an_error_of_another_kind_is_told_as_it_is():
    error = "/usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found"
    assert libraries.missing(error) == f"MXNet's library does not load: {error}"


def test_cuda_libraries_in_nvidias_wheels_are_found_without_a_path(tmp_path):
    for library in ("libcublas.so.11", "libcublasLt.so.11"):
        folder = tmp_path / "nvidia" / "cublas" / "lib"
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "one.c").write_text("int one(void) { return 1; }\n")
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", str(folder / library), "one.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
    script = f"""
import ctypes, sys
sys.path.append({str(tmp_path)!r})
from gpubench.frameworks.mxnet import libraries
libraries.load_cuda()
print(ctypes.CDLL("libcublas.so.11").one(), ctypes.CDLL("libcublasLt.so.11").one())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["1", "1"]
