"""`python -m tests.e2e.patient_extender OPTIONS`: the extender, whose `--deadline` may be as long as a test likes.

The command refuses one of more than 5 s, and answers neutrally when it is over: rightly, but on a machine that stands
still for as long a test that asks what was decided by load would read an answer that was not. Deadlines have tests of
their own (test_extender_wire.py).
"""

from extender import __main__ as command


def main() -> None:
    """Allows the deadline and runs the command."""
    command.LONGEST_DEADLINE_SECONDS = 600.0
    command.main()


if __name__ == "__main__":
    main()
