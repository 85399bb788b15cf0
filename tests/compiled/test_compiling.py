"""Compiling is told from training: the clock, the line that says so, and the command that does it ahead."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from commands import ENVIRONMENT
from problems import small

from partwise.compiled import clock
from partwise.compiled.clock import CompileClock, is_told, telling, working_time
from partwise.report.compiling import CompilingLine
from partwise.report.progress import TrainingDisplay
from partwise.solvers import ExponentiatedGradient, solve


def pretend_to_compile(seconds: float, passes: int = 1, until: threading.Event | None = None) -> None:
    """Do what Numba does: hold its lock, twice, and run passes over code; none for what is on disk."""
    from numba.core import event
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock, global_compiler_lock:
        for _ in range(passes):
            with event.trigger_event("numba:run_pass"):
                pass
        (until or threading.Event()).wait(seconds)


def test_nested_and_parallel_compilations_count_once() -> None:
    own, all_began = CompileClock(), threading.Barrier(3)

    def compile_in_thread() -> None:
        own.start()
        own.start()
        all_began.wait()
        time.sleep(0.1)
        own.stop()
        own.stop()

    begin = time.perf_counter()
    threads = [threading.Thread(target=compile_in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.1 <= own.wall() <= time.perf_counter() - begin
    assert own.cpu() < own.wall() and not own.is_running
    total = own.wall()
    time.sleep(0.01)
    assert own.wall() == total


def test_numba_is_listened_to() -> None:
    # The outer span is read first and last, so that a pause between two reads cannot fail the test.
    begin, before, working = time.perf_counter(), clock.seconds_compiling(), working_time()[0]
    pretend_to_compile(0.05)
    assert clock.seconds_compiling() - before >= 0.05
    assert working_time()[0] - working <= time.perf_counter() - begin - 0.05


class SlowToCompile(ExponentiatedGradient):
    """Spends a third of a second of every step as if it were compiling."""

    def step(self, *arguments: Any) -> Any:
        pretend_to_compile(0.3)
        return super().step(*arguments)


def test_training_time_and_its_limit_do_not_count_compiling() -> None:
    problem = small("tied").problem
    solve(problem, ExponentiatedGradient("cyclic"), tol=1e-12, max_passes=3, certificate_every=1)
    begin = time.perf_counter()
    solution = solve(problem, SlowToCompile("cyclic"), tol=1e-12, max_passes=3, time_limit=0.5)
    assert solution.passes == 3  # the limit did not end it
    assert solution.history[-1].seconds <= time.perf_counter() - begin - 3 * 0.3
    assert solution.history[-1].cpu_seconds >= 0


def test_the_innermost_tells_of_the_innermost_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_WORTH_TELLING", 0.02)
    monkeypatch.setattr(clock, "_BETWEEN_WORDS", 0.01)
    outer: list[tuple[str, float, bool]] = []
    inner: list[tuple[str, float, bool]] = []
    was_told = threading.Event()

    def tell(*told: Any) -> None:
        inner.append(told)
        was_told.set()

    with telling(lambda *told: outer.append(told), "outside"):
        assert is_told()
        with telling(tell), telling(None, "chains"):
            pretend_to_compile(60, until=was_told)
        assert outer == []
    assert outer == []  # what has been told within is not told again
    assert inner[-1][2] and not any(is_done for _, _, is_done in inner[:-1])
    assert {subject for subject, _, _ in inner} == {"chains"} and inner[-1][1] >= 0.02


def test_short_compilations_and_what_is_loaded_are_not_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    with telling(lambda *each: told.append(each)):
        pretend_to_compile(0.01)
    monkeypatch.setattr(clock, "_WORTH_TELLING", 0.02)
    monkeypatch.setattr(clock, "_BETWEEN_WORDS", 0.01)
    with telling(lambda *each: told.append(each)):
        pretend_to_compile(0.1, passes=0)
    assert told == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_line_on_a_terminal_and_two_in_a_pipe() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        line = CompilingLine(stream)
        for seconds in (1.0, 2.0, 3.0):
            line("chain problems", seconds, False)
        line("chain problems", 3.5, True)
    assert terminal.getvalue().count("\r") == 4 and terminal.getvalue().count("\n") == 1
    begin, end = pipe.getvalue().splitlines()
    assert "chain problems" in begin and "once per machine" in begin
    assert end == "compiled in 3.5 s (once per machine)"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_training_display_says_it_too(is_terminal: bool) -> None:
    from rich.console import Console

    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=120)
    with TrainingDisplay(1e-3, console) as display:
        display.compiling("chain problems", 1.5, False)
        display.compiling("chain problems", 2.0, False)
        display.compiling("chain problems", 2.5, True)
    assert "compiling for chain problems" in stream.getvalue()
    assert stream.getvalue().count("compiled in 2.5 s (once per machine)") == 1


def test_compile_ahead_runs_all_usual_problems() -> None:
    """Without compilation, which takes minutes: that every problem can be trained, saved, loaded and asked."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "partwise.cli", "compile"],
        env={**ENVIRONMENT, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if re.match(r" *\d+ of \d+ ", line)]
    assert len(lines) == 10 and "not possible" not in done.stderr
