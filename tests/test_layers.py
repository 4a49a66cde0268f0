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
        "gpubench.files",  # of it, what opens files from outside: a plan, a log
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
    imported = {line.split(" import ")[0] for line in found if "gpubench.files" in line}
    assert imported == {"from gpubench.files.toml", "from gpubench.files.untrusted"}


READERS = {"read_text", "read_bytes", "open", "fdopen", "ZipFile", "ParquetFile", "read_table", "load"}
LOADERS = {"json", "tomllib", "pickle", "marshal", "numpy", "np"}  # whose `load` takes a file
WRITING = {"w", "wb", "a", "ab", "x", "xb"}
# Who may open a file for reading, and why it need not go through files/untrusted.py. Workers and frameworks read none
# that a user names.
OPENERS = {
    "files/untrusted.py": "it is the opener",
    "files/store.py": "a journal that is written is opened once for both, and checked by the opener's `check_file`",
    "files/sealed.py": "a zip that is in memory by then",
    "files/series_decoder.py": "what the opener has read, from its standard input; /proc",
    "proof.py": "what its own workers have just written, in a temporary folder of this user's alone",
    "harness/cores.py": "/sys",
    "harness/machine.py": "/proc and /sys",
    "harness/environments.py": "requirements that come with the package",
    "harness/sources.py": "code that is about to run",
    "report/page.py": "templates that come with the package",
    "report/canvas.py": "the folder that it stands in, no file",
    "telemetry/cgroup.py": "/proc and /sys",
    "telemetry/cpu.py": "/proc and /sys",
    "telemetry/rapl.py": "/sys",
    "telemetry/signs.py": "/sys",
    "telemetry/readings.py": "what its own sampler writes, in a temporary folder of this user's alone",
    "telemetry/sampler.py": "what its own sampler says, in the same folder",
    "telemetry/sampling.py": "/dev/null",
    "telemetry/doctor.py": "JSON on its standard input, from the process that started it",
    "cli/streams.py": "/dev/null",
    "harness/outcomes.py": "/proc/vmstat",
    "harness/scratch.py": "the lock in a folder of this user's, of which nothing is read",
    "harness/gang/log.py": "a log of its own, which it only writes",
}


def opens_for_reading(file: Path) -> bool:
    """Whether anything in it reads files by another way than files/untrusted.py; what only writes does not count."""
    for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name):
            name, owner = call.func.id, ""
        elif isinstance(call.func, ast.Attribute):
            name, owner = call.func.attr, getattr(call.func.value, "id", "")
        else:
            continue
        opener = name == "read_bytes" and isinstance(call.func, ast.Name)
        modes = {each.value for each in call.args if isinstance(each, ast.Constant)}
        if name in READERS and not opener and not modes & WRITING and (name != "load" or owner in LOADERS):
            return True
    return False


def test_only_one_place_opens_files_from_elsewhere():
    files = [file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py")]
    ours = [file for file in files if file.parts[0] not in ("worker", "frameworks")]
    assert {str(file) for file in ours if opens_for_reading(PACKAGE / file)} == set(OPENERS)


def loaded_by(*words: str) -> set[str]:
    code = f"""import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = {["gpubench", *words]!r}
from gpubench.cli.commands import main
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


def test_a_comparison_that_draws_nothing_loads_nothing_to_draw_with():
    examples = PACKAGE.parent / "results" / "examples"
    words = ["compare", *(str(examples / name) for name in ("two-cores.jsonl", "two-cores-bf16.jsonl"))]
    program = f"""
import atexit, sys
from gpubench.cli.commands import main
atexit.register(lambda: print("loaded:", *sorted({{"matplotlib", "rich"}} & {{*sys.modules}})))
main({words}, standalone_mode=False)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: rich"
