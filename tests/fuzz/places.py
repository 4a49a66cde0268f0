"""Where a command takes a file: for each, the commands that are given one made by a maker."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.bundles import BUNDLES
from tests.fuzz.elsewhere import JOURNALS, ODD, RECORD, TOMLS, Maker
from tests.fuzz.hostile import honest_lines
from tests.fuzz.parquets import SERIES

Command = tuple[str, list[str]]  # the kind of file, and the words


class Places:
    """Makes a folder in `root` for each file."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made = 0
        self._honest = root / "0001_h.jsonl"
        self._honest.write_text("\n".join(honest_lines()[18:26]) + "\n")

    def everywhere(self) -> Iterator[tuple[str, Maker, list[str]]]:
        """The kind of file, its maker, and the names of the places to put it."""
        for kind, make in ODD.items():
            yield kind, make, ["journal", "bundle", "toml", "plan", "verified", "series", "trials"]
        for kind, make in JOURNALS.items():
            yield kind, make, ["journal"]
        for kind, make in TOMLS.items():
            yield kind, make, ["toml", "plan"]
        for kind, make in BUNDLES.items():
            yield kind, make, ["bundle"]
        for kind, content in SERIES.items():
            yield kind, lambda path, content=content: path.write_bytes(content()), ["series"]

    def commands(self, kind: str, make: Maker, place: str) -> list[Command]:
        words: list[list[str]] = getattr(self, f"_{place}")(make)
        return [(kind, each) for each in words]

    def _put(self, make: Maker, name: str) -> Path:
        self._made += 1
        path = self._root / str(self._made) / name
        path.parent.mkdir(parents=True)
        make(path)
        return path

    def _journal(self, make: Maker) -> list[list[str]]:
        path = self._put(make, "0001_x.jsonl")
        os.mkfifo(path.with_name("pipe.parquet"))
        return self._reading(str(path)) + [
            ["run", "--resume", str(path), "--dry-run"],
            ["report", str(path), "-o", f"{path}.html", "--plots", "svg"],
        ]

    def _reading(self, path: str) -> list[list[str]]:
        return [
            ["show", path, "--json"],
            ["compare", str(self._honest), path],
            ["export", "--format", "csv", path, "-o", f"{path}.csv"],
            ["pack", path, "-o", f"{path}.gpubench.zip"],
        ]

    def _bundle(self, make: Maker) -> list[list[str]]:
        path = str(self._put(make, "x.gpubench.zip"))
        return [["unpack", path, "-o", f"{path}.unpacked"], ["compare", str(self._honest), path]]

    def _toml(self, make: Maker) -> list[list[str]]:
        path, honest = str(self._put(make, "x.toml")), str(self._honest)
        compared = [["compare", honest, honest, option, path] for option in ("--prices", "--mix")]
        return [*compared, ["run", "--frameworks", "fake", "--plan", path, "--dry-run"]]

    def _beside(self, make: Maker, name: str) -> str:
        """An honest journal beside the file."""
        path = self._put(make, name)
        journal = path.with_name("0001_h.jsonl")
        shutil.copy(self._honest, journal)
        return str(journal)

    def _plan(self, make: Maker) -> list[list[str]]:
        return [["run", "--resume", self._beside(make, "0001_h.plan.toml"), "--dry-run"]]

    def _trials(self, make: Maker) -> list[list[str]]:
        return [["show", self._beside(make, "0001_h.trials"), "--json"]]

    def _verified(self, make: Maker) -> list[list[str]]:
        path = self._put(lambda path: path.with_name("verified").mkdir(), "unused")
        make(path.with_name("verified") / "x.json")
        shutil.copy(self._honest, path.with_name("0001_h.jsonl"))
        return [["show", str(path.with_name("0001_h.jsonl")), "--json"]]

    def _series(self, make: Maker) -> list[list[str]]:
        path = self._put(make, "x.parquet")
        record = json.loads(json.dumps(RECORD))
        record["telemetry"]["series_file"] = path.name
        for device in record["telemetry"]["devices"]:
            device["id"], device["time_ns"], device["series"] = "GPU-a", [], {}
        journal = path.with_name("0001_x.jsonl")
        journal.write_text("".join(json.dumps({**record, "record_id": f"r{i}", "launch": i}) + "\n" for i in range(4)))
        return [
            ["report", str(journal), "-o", f"{path}.html", "--plots", "svg"],
            ["pack", str(journal), "-o", f"{path}.gpubench.zip"],
        ]
