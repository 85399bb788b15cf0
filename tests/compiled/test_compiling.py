"""Compiling is told from training: the clock, the line that says so, and the command that does it ahead."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from commands import ENVIRONMENT
from problems import small

from partwise.compiled import clock
from partwise.compiled.clock import CompileClock, compiling, is_told, telling, working_time
from partwise.report.compiling import CompilingLine
from partwise.report.progress import TrainingDisplay
from partwise.solvers import ExponentiatedGradient, solve


class Hands:
    """The hands of all clocks, moved by tests only: seconds on the wall, and CPU seconds of a thread and a process."""

    def __init__(self) -> None:
        self.wall = self.cpu = 1000.0

    def move(self, seconds: float) -> None:
        self.wall += seconds
        self.cpu += seconds / 2


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(time, "perf_counter", lambda: hands.wall)
    monkeypatch.setattr(time, "thread_time", lambda: hands.cpu)
    monkeypatch.setattr(time, "process_time", lambda: hands.cpu)
    return hands


def pretend_to_compile(compiler: Callable[[], Any], kernels: int = 1) -> None:
    """Do what compiling does, or loading what is on disk, which is no kernel. Contexts may be nested."""
    with compiling(kernels), compiling():
        compiler()


def test_nested_and_parallel_compilations_count_once(hands: Hands) -> None:
    own, began, may_end = CompileClock(), threading.Barrier(4), threading.Barrier(4)

    def compile_in_thread() -> None:
        own.start()
        own.start()
        began.wait()
        may_end.wait()
        own.stop()
        own.stop()

    threads = [threading.Thread(target=compile_in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    began.wait()
    hands.move(2.0)
    assert own.wall() == 2.0 and own.is_running
    hands.move(3.0)
    may_end.wait()
    for thread in threads:
        thread.join()
    hands.move(10.0)
    assert own.wall() == 5.0 and not own.is_running
    assert own.cpu() == 3 * 2.5


def test_training_clocks_stand_still_while_code_is_compiled(hands: Hands) -> None:
    before, working = clock.seconds_compiling(), working_time()
    pretend_to_compile(lambda: hands.move(4.0))
    assert clock.seconds_compiling() == pytest.approx(before + 4.0)
    assert working_time() == pytest.approx(working)
    hands.move(1.0)
    assert clock.seconds_compiling() == pytest.approx(before + 4.0)
    assert working_time() == pytest.approx((working[0] + 1.0, working[1] + 0.5))


class SlowToCompile(ExponentiatedGradient):
    """Spends minutes of every step as if it were compiling."""

    hands: Hands

    def step(self, *arguments: Any) -> Any:
        pretend_to_compile(lambda: self.hands.move(600.0))
        self.hands.move(1.0)
        return super().step(*arguments)


def test_training_time_and_its_limit_do_not_count_compiling(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowToCompile, "hands", hands, raising=False)
    solution = solve(small("tied").problem, SlowToCompile("cyclic"), tol=1e-12, max_passes=3, time_limit=60.0)
    assert solution.passes == 3  # the limit did not end it
    assert solution.history[-1].seconds == pytest.approx(3.0)
    assert solution.history[-1].cpu_seconds == pytest.approx(1.5)


def test_the_innermost_tells_of_the_innermost_subject(hands: Hands) -> None:
    outer: list[tuple[str, float, bool]] = []
    inner: list[tuple[str, float, bool]] = []
    was_told = threading.Event()

    def tell(*told: Any) -> None:
        inner.append(told)
        was_told.set()

    def compiler() -> None:
        hands.move(8.0)
        assert was_told.wait(60)

    with telling(lambda *told: outer.append(told), "outside"):
        assert is_told()
        with telling(tell), telling(None, "chains"):
            pretend_to_compile(compiler)
        assert outer == []
    assert outer == []  # what has been told within is not told again
    assert [seconds for _, seconds, _ in inner] == pytest.approx([8.0] * len(inner))
    assert {subject for subject, _, _ in inner} == {"chains"}
    assert [is_done for _, _, is_done in inner] == [False] * (len(inner) - 1) + [True]


@pytest.mark.parametrize(("seconds", "kernels"), [(0.9, 1), (8.0, 0)])
def test_short_compilations_and_what_is_loaded_are_not_worth_a_word(
    hands: Hands, seconds: float, kernels: int
) -> None:
    told: list[Any] = []

    def compiler() -> None:
        hands.move(seconds)
        threading.Event().wait(0.7)  # in which a word would be said: the clock is looked at twice a second

    with telling(lambda *each: told.append(each)):
        pretend_to_compile(compiler, kernels)
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
    assert len(lines) == 12 and "not possible" not in done.stderr
