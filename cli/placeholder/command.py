"""`evenload placeholder`: the group of the three commands about room held for bursts.

The console script loads this module when `placeholder` is asked for. `render` writes manifests and `status` reads; the
CronJob of deploy/placeholder/components/sizing runs `size`, the only one that writes.
"""

import click

from cli.placeholder import render, size, status


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Hold room for bursts: write the manifests, see what is held, set how much.

    \b
    Examples:
      evenload placeholder render --replicas 20 --requests cpu=1,memory=2Gi | kubectl apply -f -
      evenload placeholder status
    """


main.add_command(render.main, "render")
main.add_command(status.main, "status")
main.add_command(size.main, "size")
