"""TOML that a user wrote, on whatever machine: one opener, and one message for each fault."""

import os
import subprocess
import sys
from decimal import Decimal

import pytest

from gpubench.files.toml import LARGEST_FILE, read_toml
from gpubench.spec.errors import UsageError

GOOD = 'name = "Zürich"\ncount = 3\nshare = 0.50\n'


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    for encoding in ("utf-8", "utf-8-sig"):
        path = tmp_path / f"{encoding}.toml"
        path.write_bytes(GOOD.encode(encoding))
        assert read_toml(path) == {"name": "Zürich", "count": 3, "share": 0.5}


def test_the_locale_does_not_say_how_a_file_is_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(GOOD.encode("utf-8-sig"))
    program = (
        "import sys; from pathlib import Path; from gpubench.files.toml import read_toml\n"
        "print(ascii(read_toml(Path(sys.argv[1]))['name']))"
    )
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], env=plain, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ascii("Zürich")


def test_a_number_can_be_had_as_it_is_written(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("share = 0.50\n")
    assert str(read_toml(path, parse_float=Decimal)["share"]) == "0.50"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD.encode("utf-16"), "is in UTF-16 or UTF-32"),
        (b'a = 1\nname = "Z\xfcrich"\n', "a.toml, line 2 is not in UTF-8"),
        (b"a = 1\nb = \n", "at line 2"),
        (b"a = " + b"[" * 50_000, "nested too deeply"),
        (b"a = " + b"9" * 10_000, "is not TOML"),
        (b"a = 1\na = 2\n", "is not TOML"),
        (b"a = " + b"[" * 20 + b"]" * 20, "a is nested too deeply"),
        (b"a." * 20_000 + b"b = 1", "nested too deeply"),
        (b"a = 9223372036854775808", "a is a whole number beyond TOML's 64 bits"),
        (b"[t]\na = [1, 1e999]", "t.a is not a finite number"),
        (b"a = nan", "a is not a finite number"),
        (b'a = "\\u0000"', "a has control characters"),
        (b'["\\u001b[31m"]', "control characters"),
        (b"#" * (LARGEST_FILE + 1), "is larger than 64 KiB"),
        (b"a = 1\x1b[31m", "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_message_that_names_it(tmp_path, content, message):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    for path, message in ((tmp_path / "pipe.toml", "no regular file"), (tmp_path, "Cannot read")):
        with pytest.raises(UsageError, match=message):
            read_toml(path)
    with pytest.raises(UsageError, match=r"Cannot read .*none\.toml: No such file"):
        read_toml(tmp_path / "none.toml")
