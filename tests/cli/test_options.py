"""Every option of a kind is read by one rule, whatever the command."""

import pytest
from click.testing import CliRunner

from gpubench.cli.commands import main
from gpubench.cli.options import read_counts, read_percent, read_seconds, read_words
from gpubench.spec.errors import UsageError

PERCENTS = [("run", "--until"), ("compare", "--fail-if-slower")]
TIMES = [("run", "--budget"), ("run", "--wait-quiet")]


def error_of(command: str, option: str, text: str) -> str:
    words = ["a.jsonl", "b.jsonl"] if command == "compare" else []
    result = CliRunner().invoke(main, [command, *words, option, text])
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.parametrize(("command", "option"), PERCENTS)
def test_a_percentage_without_its_sign_is_refused_by_every_command_alike(command, option):
    assert f"{option} 1 lacks its unit: write {option} 1%." in error_of(command, option, "1")
    assert f"{option} 0.01 lacks its unit" in error_of(command, option, "0.01")


@pytest.mark.parametrize(("command", "option"), TIMES)
def test_a_time_without_its_unit_is_refused_by_every_command_alike(command, option):
    assert f"{option} 5 lacks its unit: write {option} 5s, 5m or 5h." in error_of(command, option, "5")


@pytest.mark.parametrize("text", ["", "%", "-1%", "100%", "1e-3%", "nan%", "inf%", "1%%", "٣%", "9" * 400 + "%"])
def test_what_is_no_percentage_is_refused(text):
    with pytest.raises(UsageError, match="takes a percentage from 0% to under 100%"):
        read_percent("--until", text)


@pytest.mark.parametrize("text", ["", "s", "-5s", "5hs", "1e3s", "nans", "infs", "5 d", "9" * 400 + "h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="takes a time such as 90s"):
        read_seconds("--budget", text)


def test_a_quantity_is_read_in_its_unit():
    assert read_percent("--until", "3%") == read_percent("--until", " 3 % ") == 0.03
    assert read_percent("--until", "0.5%") == 0.005
    assert [read_seconds("--budget", text) for text in ("90s", "1.5m", "2h", "0s")] == [90, 90, 7200, 0]


def test_a_list_names_each_thing_once_and_is_never_empty():
    assert read_words("--workloads", "mlp, resnet20,mlp") == ("mlp", "resnet20")
    assert read_counts("--devices", "2,1,2") == (2, 1)
    for text in ("", " , "):
        with pytest.raises(UsageError, match="is empty"):
            read_words("--workloads", text)
        with pytest.raises(UsageError, match="is empty"):
            read_counts("--devices", text)
    for text in ("two", "0", "1.5", "-1", "9" * 30):
        with pytest.raises(UsageError, match="takes counts such as 1,2,4"):
            read_counts("--devices", text)


def test_every_option_that_takes_a_quantity_is_in_these_tests():
    found = {
        (command.name, option.opts[0], option.metavar)
        for command in main.commands.values()
        for option in command.params
        if option.metavar in ("PERCENT", "TIME")
    }
    assert found == {(*each, "PERCENT") for each in PERCENTS} | {(*each, "TIME") for each in TIMES}
