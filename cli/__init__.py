"""The `evenload` command: one module per subcommand, loaded only when it is asked for, so that --help stays quick."""

from runtime import interrupts


def main() -> None:
    """The console script: Ctrl-C is answered before anything else is imported."""
    interrupts.exit_on_interrupt()
    from cli.__main__ import main as command

    command(complete_var="_EVENLOAD_COMPLETE")  # also where it is called kubectl-evenload
