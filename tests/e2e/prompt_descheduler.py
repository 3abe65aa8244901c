"""`python -m tests.e2e.prompt_descheduler OPTIONS`: the descheduler, looking back after seconds instead of minutes.

The suite's windows are shorter, too (`policies`): the last look, after 12 s, is at averages of 5 s, which show by then
what an eviction did.
"""

from descheduler import __main__ as command
from descheduler.planning import departed_load


def main() -> None:
    """Shortens what the ledger is filled after, and runs the command."""
    for column, after_seconds in departed_load.LOOK_BACKS.items():
        departed_load.LOOK_BACKS[column] = after_seconds / 150
    command.main()


if __name__ == "__main__":
    main()
