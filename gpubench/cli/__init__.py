"""The `gpubench` command: `commands` and `commands_on_files` have the commands, the others what one of them says."""


def main() -> None:
    """Run the command of this process's arguments, and end the process."""
    from gpubench.cli.__main__ import main as command  # it answers a Ctrl-C from its first line on

    command()
