"""`partwise path NAME`: `partwise train NAME` with several values of l2; the best model is kept."""

from __future__ import annotations

from collections.abc import Callable

from partwise.cli.options import Running, RunningPath, task_app
from partwise.cli.train import train_command


def path_command(name: str) -> Callable[..., None]:
    """The command that trains along a path of l2."""
    from partwise.tasks import task_class

    command = train_command(name)
    paragraphs = (command.__doc__ or "").split("\n\n")
    paragraphs[0] = f"As train {task_class(name).command}, along a path of l2; keeps the best."
    command.__doc__ = "\n\n".join(paragraphs)
    return command


app = task_app(
    "Train along a path of l2, from strong to weak, and keep the model that scores best.",
    path_command,
    {Running: RunningPath},
)
