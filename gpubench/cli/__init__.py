"""The `gpubench` command: `commands` and `commands_on_files` have the commands, the others what one of them says."""

from gpubench.cli.commands import main

__all__ = ["main"]
