"""`partwise path`: the commands of `partwise train` with several values of l2, of which the best is kept."""

from __future__ import annotations

import typer

from partwise.cli.options import Running, RunningPath, add_command
from partwise.cli.train import COMMANDS

app = typer.Typer(
    help="Train along a path of l2, from strong to weak, and keep the model that scores best.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _function in COMMANDS.items():
    add_command(
        app,
        _name,
        _function,
        {Running: RunningPath},
        f"As train {_name}, along a path of l2; keeps the best.",
    )
