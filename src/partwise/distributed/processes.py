"""Workers as processes of this machine: requests and replies go through pipes, common data through files."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple

from partwise.distributed.backend import Lost

_LENGTH = struct.Struct("<q")


class Stored(NamedTuple):
    """An argument that lies in a file."""

    path: str


class LocalProcesses:
    """A `Backend` of processes that this process starts; they end when it ends.

    Small messages go through pipes. Stored values go into a folder that only this user can open.
    """

    def __init__(self) -> None:
        self.folder: str | None = tempfile.mkdtemp(prefix="partwise-shards-")
        self._n_stored = 0
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._replies: queue.Queue[tuple[subprocess.Popen[bytes], Any]] = queue.Queue()
        self._arrived: dict[int, list[Any]] = {}

    def most_workers(self) -> int:
        return os.cpu_count() or 1

    def put(self, value: Any) -> Stored:
        self._n_stored += 1
        path = f"{self.folder}/{self._n_stored}.pickle"
        with open(path, "wb") as handle:
            pickle.dump(value, handle, protocol=5)
        return Stored(path)

    def drop(self, handle: Stored) -> None:
        with contextlib.suppress(OSError):
            os.unlink(handle.path)

    def start(self, worker: int) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "partwise.distributed.worker_process", str(self.folder)]
        with open(self._log(worker), "wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._processes[worker] = process
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Pass on the replies of a worker until it ends."""
        assert process.stdout is not None
        with contextlib.suppress(Exception):
            while True:
                self._replies.put((process, read_message(process.stdout)))
        self._replies.put((process, Lost))

    def send(self, worker: int, method: str, arguments: tuple[Any, ...]) -> None:
        process = self._processes[worker]
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # of a worker that has ended, as `wait` will find
            write_message(process.stdin, (method, arguments))

    def wait(self, workers: set[int], timeout: float) -> list[int]:
        """The workers that have replied or ended, after at most `timeout` seconds."""
        with contextlib.suppress(queue.Empty):
            self._note(*self._replies.get(timeout=timeout))
            while True:
                self._note(*self._replies.get_nowait())
        return [worker for worker in workers if self._arrived.get(worker)]

    def _note(self, process: subprocess.Popen[bytes], reply: Any) -> None:
        for worker, own in self._processes.items():
            if own is process:  # late replies of killed workers are dropped
                self._arrived.setdefault(worker, []).append(reply)

    def collect(self, worker: int, keep: bool = False) -> Any:
        reply = self._arrived[worker].pop(0)
        if reply is Lost:
            raise Lost(self._last_words(worker))
        return reply

    def _last_words(self, worker: int) -> str:
        code = self._processes[worker].wait(10)
        with contextlib.suppress(OSError):
            lines = Path(self._log(worker)).read_text(errors="replace").strip().splitlines()
            return f"ended with code {code}" + (f": {lines[-1][:200]}" if lines else "")
        return f"ended with code {code}"

    def _log(self, worker: int) -> str:
        return f"{self.folder}/worker-{worker}.log"

    def kill(self, worker: int) -> None:
        process = self._processes.pop(worker, None)
        self._arrived.pop(worker, None)
        if process is not None:
            process.kill()
            process.wait(10)

    def close(self) -> None:
        for worker in list(self._processes):
            self.kill(worker)
        shutil.rmtree(str(self.folder), ignore_errors=True)


def write_message(stream: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """The next message; EOFError at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)
