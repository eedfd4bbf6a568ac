"""The exit statuses that the help of a command lists."""

import re

from posenc_export.cli import main


def statuses_of(command: str) -> set[int]:
    """Return the statuses that a command lists; those of the group for what is no command."""
    page = main.commands[command].epilog if command in main.commands else main.epilog
    return {int(number) for number in re.findall(r"^  (\d+) ", page or "", flags=re.MULTILINE)}
