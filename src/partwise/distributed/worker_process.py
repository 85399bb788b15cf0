"""The program of a local worker: it reads requests, answers them, and ends when its driver ends."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys

from partwise.distributed.processes import Stored, read_message, write_message
from partwise.distributed.worker import Worker


def main(folder: str) -> None:
    """Answer until the pipe closes, then remove the driver's folder, which a killed driver leaves behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C and asks for a last certificate
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with replies
    worker = Worker()
    try:
        while True:
            method, arguments = read_message(sys.stdin.buffer)
            write_message(replies, worker.answer(method, *map(_loaded, arguments)))
    except (EOFError, BrokenPipeError):
        shutil.rmtree(folder, ignore_errors=True)


def _loaded(argument: object) -> object:
    if not isinstance(argument, Stored):
        return argument
    with open(argument.path, "rb") as handle:
        return pickle.load(handle)


if __name__ == "__main__":
    main(sys.argv[1])
