"""Who may import whom, and how fast the command starts, counted in modules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpubench

PACKAGE = Path(gpubench.__file__).parent
FRAMEWORKS = {"torch", "tensorflow", "mxnet", "jax", "keras"}
SLOW = {"pandas", "matplotlib", "seaborn", "scipy", "numpy", "jinja2", "rich"}
STANDARD = set(sys.stdlib_module_names)
MAY_IMPORT = {
    "spec": {"gpubench.spec"},
    "worker": {"gpubench.spec", "gpubench.worker"},
    "frameworks": {"gpubench.spec", "gpubench.frameworks"},
    "harness": {
        "gpubench",
        "gpubench.spec",
        "gpubench.harness",
        "gpubench.telemetry",
        "gpubench.files",  # of it, files/toml.py alone: a plan comes from outside
        *["pluggy", "psutil", "msgspec", "platformdirs", "python_discovery"],
    },
    "telemetry": {"gpubench.spec", "gpubench.telemetry", "psutil", "msgspec", "pynvml", "amdsmi"},
    "analysis": {"gpubench.spec", "gpubench.analysis", "numpy", "scipy"},
    "report": {"gpubench.spec", "gpubench.analysis", "gpubench.report", "gpubench", *SLOW, "markupsafe"},
}


def imports_of(file: Path) -> set[str]:
    """Top-level names of other packages, and `gpubench.GROUP` of our own, that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            own = node.module == "gpubench"
            names = [f"gpubench.{alias.name}" if own and alias.name[0] != "_" else node.module for alias in node.names]
        for name in names:
            top, _, rest = name.partition(".")
            found.add(f"gpubench.{rest.split('.')[0]}" if top == "gpubench" and rest else top)
    return found - STANDARD


@pytest.mark.parametrize("group", MAY_IMPORT)
def test_a_group_imports_only_what_it_may(group):
    for file in (PACKAGE / group).rglob("*.py"):
        allowed = set(MAY_IMPORT[group])
        if group == "frameworks" and file.parent != PACKAGE / group:
            framework = file.relative_to(PACKAGE / group).parts[0]
            allowed |= {framework, "numpy"} | ({"keras"} if framework == "tensorflow" else set())
        assert imports_of(file) <= allowed, file


def test_the_harness_reads_a_plan_and_touches_no_run():
    found = {line.strip() for file in (PACKAGE / "harness").rglob("*.py") for line in file.read_text().splitlines()}
    assert {line for line in found if "gpubench.files" in line} == {"from gpubench.files.toml import read_toml"}


def loaded_by(*words: str) -> set[str]:
    code = f"""import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = {["gpubench", *words]!r}
from gpubench.cli import main
main()"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("words", [["--help"], ["list"], ["run", "--help"]])
def test_help_and_list_load_neither_a_framework_nor_anything_slow(words):
    assert not loaded_by(*words) & (FRAMEWORKS | SLOW)


def test_a_run_loads_no_framework_into_the_harness(tmp_path):
    words = ["run", "--frameworks", "fake", "--launches", "1", "--quiet", "--results", str(tmp_path)]
    assert not loaded_by(*words) & FRAMEWORKS


def test_the_plugin_loads_nothing_slow_into_other_peoples_pytest():
    code = "import sys, gpubench.pytest_plugin\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & (FRAMEWORKS | SLOW)


def test_the_worker_runs_on_the_standard_library_alone(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    words = ["run", "--frameworks", "fake", "--launches", "1", "--results", str(tmp_path), "--python", f"fake={bare}"]
    done = subprocess.run([sys.executable, "-m", "gpubench.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
