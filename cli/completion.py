"""`evenload completion`: the script by which a shell completes commands, options, and names of the cluster.

click writes the scripts of bash, zsh and fish, and answers them (`cli.common.completing` has the names). kubectl asks a
program of its own for a plugin's words; that one is written here.
"""

from typing import Final

import click
from click import shell_completion

from cli.common import output

VARIABLE: Final = "_EVENLOAD_COMPLETE"
# kubectl hands over the words after `kubectl evenload`, the last one unfinished; `:4` says that no files are meant.
_FOR_KUBECTL: Final = f"""\
#!/bin/sh
words=evenload
for word; do words="$words '$word'"; done
COMP_WORDS="$words" COMP_CWORD=$# {VARIABLE}=bash_complete kubectl-evenload | sed -n 's/^[a-z]*,//p'
echo :4
"""


@click.command("completion", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "kubectl"]))
def main(shell: str) -> None:
    """Write the script that completes commands, options, nodes, pods and namespaces.

    kubectl's belongs on PATH, executable, under the name kubectl_complete-evenload.

    \b
    Examples:
      source <(evenload completion bash)
      evenload completion zsh > "${fpath[1]}/_evenload"
      evenload completion fish > ~/.config/fish/completions/evenload.fish
    """
    if shell == "kubectl":
        output.data(_FOR_KUBECTL.rstrip("\n"))
        return
    written = shell_completion.get_completion_class(shell)
    assert written is not None  # noqa: S101 - click has these three
    command = click.get_current_context().find_root().command
    output.data(written(command, {}, output.NAME, VARIABLE).source().strip("\n"))
