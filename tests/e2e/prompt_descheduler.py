"""`python -m tests.e2e.prompt_descheduler OPTIONS`: the descheduler, looking back after seconds instead of minutes.

The suite's windows are as much shorter (`policies`), so that a node shows within seconds what an eviction did.
"""

from descheduler import __main__ as command
from descheduler.planning import predictions


def main() -> None:
    """Shortens what the ledger is filled after, and runs the command."""
    for column, after_seconds in predictions.LOOK_BACKS.items():
        predictions.LOOK_BACKS[column] = after_seconds / 60
    command.main()


if __name__ == "__main__":
    main()
