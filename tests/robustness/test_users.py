"""Users, homes and names that are not the usual ones."""

import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from gpubench.files import store
from gpubench.harness import environments, pythons, registry
from tests.robustness.conftest import one_now

ODD = {"HOME": "/proc/nowhere", "TMPDIR": "/nowhere", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FEW = ("run", "--frameworks", "fake", "--strategies", "single", "--devices", "1", "--launches", "1")


@pytest.mark.parametrize("name", one_now(os.fsdecode(b"caf\xe9 au\nlait"), "n" * 200))
def test_a_run_without_home_and_temporary_folder_in_a_folder_of_any_name_ends_well(gpubench, tmp_path, name):
    done = gpubench(*FEW, "--results", str(tmp_path / name), **ODD)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (record,) = store.load(store.find("last", tmp_path / name)).records
    assert record.outcome.status == "ok"


def test_what_is_written_under_a_strict_umask_is_for_its_user_alone(harness):
    done = harness.run(*harness.bench(*FEW[3:]), preexec_fn=lambda: os.umask(0o077))
    assert done.returncode == 0
    files = [path for path in harness.results.rglob("*") if path.is_file()]
    assert files
    assert not any(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) for path in files)


def test_a_user_without_an_entry_and_a_home_has_no_pyenv(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert pythons._with_pyenv({"PATH": "/bin"})["PATH"] == "/bin"


def test_two_setups_at_once_make_an_environment_once(tmp_path, monkeypatch):
    made = []

    def make(self, device_kind, log):
        made.append(device_kind)
        self.python.parent.mkdir(parents=True)
        self.python.touch()
        requirements = environments.read_bytes(self.requirements(device_kind), 1 << 20).decode()
        (self.folder / environments.MARKER).write_text(environments.json.dumps({"requirements": requirements}))

    monkeypatch.setattr(environments.Environment, "_make", make)
    one = replace(environments.Environment.of(registry.framework("torch")), folder=tmp_path / "envs" / "torch")
    both = [threading.Thread(target=one.make, args=("cpu", str)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(30)
    assert made == ["cpu"]


def test_files_in_the_current_folder_are_imported_by_no_process(fake, tmp_path):
    fake(step_seconds=0.01)
    for name in ("gpubench", "json", "numpy", "psutil", "pynvml", "amdsmi", "msgspec", "queue"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n")
    command = [sys.executable, "-P", "-m", "gpubench.cli"]
    done = subprocess.run([*command, *FEW], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (record,) = store.load(store.find("last", tmp_path / "results")).records
    assert record.telemetry.source == "cpu"
    subprocess.run([*command, "doctor"], cwd=tmp_path, check=False, capture_output=True, timeout=120)
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
