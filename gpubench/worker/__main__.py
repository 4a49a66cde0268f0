"""Start a worker: `python -P gpubench/worker/__main__.py`, by path, in the framework's own Python.

gpubench is not installed there, and putting its site-packages on the path would mix two environments. So this file
loads the one package from where it lies and nothing else.
"""

import importlib.util
import sys
from pathlib import Path


def load_package(name: str, folder: Path) -> None:
    """Make the package in `folder` importable as `name`, without putting its parent folder on the path."""
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package {name} in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    load_package("gpubench", Path(__file__).resolve().parent.parent)
    if sys.argv[1:2] == ["discover"]:
        from gpubench.worker.discover import main
    else:
        from gpubench.worker.loop import main
    main()
