"""`holdfast completion`: the scripts with which shells complete commands and options."""

from typing import Annotated, Literal

import typer

from holdfast.entry.client.command_line import COMPLETING
from holdfast.entry.client.groups import examples

PROGRAM = "holdfast"


@examples(
    "holdfast completion bash > /etc/bash_completion.d/holdfast",
    "holdfast completion zsh > /usr/local/share/zsh/site-functions/_holdfast",
    "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
)
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")]) -> None:
    """Print the completion script for a shell."""
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETING, shell=shell))


def get_ready() -> None:
    """Register the shells; the program then answers their completion scripts."""
    from typer._completion_classes import completion_init

    completion_init()
