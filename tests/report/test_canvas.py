"""Pictures are the project's own, whatever the user's matplotlib is set to."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRAW = """
import sys, hashlib
sys.path.insert(0, {root!r})
{before}
from gpubench.report import plots
from gpubench.analysis.scaling import summarize
from tests.builders import make_run
(members,) = plots.figures_of(summarize(make_run("gpu"))).values()
print(hashlib.sha256(plots.svg(plots.scaling_figure(members)).encode()).hexdigest())
"""


def drawn(folder: Path, before: str = "", **variables: str) -> str:
    """The digest of a picture that a fresh process draws in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", DRAW.format(root=str(ROOT), before=before)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    digest = drawn(tmp_path_factory.mktemp("plain"))
    assert len(digest) == len(hashlib.sha256().hexdigest())
    return digest


USETEX = b"text.usetex: True\naxes.facecolor: red\nfont.size: 30\nlines.linewidth: 9\naxes.grid: False\n"


@pytest.mark.parametrize("where", ["here", "variable", "home"])
@pytest.mark.parametrize("content", [USETEX, b"backend: no_such\nfont.size: ten\n\xff\xfe: x\n"])
def test_a_users_matplotlibrc_changes_and_breaks_nothing(tmp_path, plain, where, content):
    config = tmp_path / "config" / "matplotlib"
    config.mkdir(parents=True)
    (tmp_path / "here").mkdir()
    folder = {"here": tmp_path / "here", "variable": tmp_path, "home": config}[where]
    (folder / "matplotlibrc").write_bytes(content)
    variables = {"MATPLOTLIBRC": str(tmp_path)} if where == "variable" else {}
    assert drawn(tmp_path / "here", XDG_CONFIG_HOME=str(tmp_path / "config"), **variables) == plain


@pytest.mark.parametrize("backend", ["no_such_backend", "module://no.such", "qtagg"])
def test_a_backend_that_is_not_there_breaks_nothing(tmp_path, plain, backend):
    assert drawn(tmp_path, MPLBACKEND=backend) == plain


def test_the_callers_matplotlib_has_no_say_and_is_left_as_it_was(tmp_path, plain):
    before = """
import matplotlib, atexit, os
assert os.environ["MPLBACKEND"] == "svg"
matplotlib.rcParams.update({"text.usetex": True, "font.size": 30, "axes.facecolor": "red"})
kept = dict(matplotlib.rcParams)
atexit.register(lambda: print(dict(matplotlib.rcParams) == kept, os.environ["MPLBACKEND"]))
"""
    assert drawn(tmp_path, before, MPLBACKEND="svg").split() == [plain, "True", "svg"]


def test_the_folder_and_the_variables_are_as_they_were_after_the_import(tmp_path):
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    code = "import os; from os import environ as e; import gpubench.report.canvas; "
    code += "print(os.getcwd(), e['MPLBACKEND'], e['MATPLOTLIBRC'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "qtagg", "MATPLOTLIBRC": "theirs"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == [str(tmp_path), "qtagg", "theirs"]
