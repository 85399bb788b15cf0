"""`partwise serve`: a model as a page and as an HTTP service on a local port."""

from __future__ import annotations

import os
import signal
import threading
from typing import Annotated, Any

import typer

from partwise.cli.options import ModelFile, OpenPage


def serve(
    model: ModelFile,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")
    ] = 8765,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen at. The default, 127.0.0.1, cannot be reached from other machines."
        ),
    ] = "127.0.0.1",
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds that one request may take, waiting included.")
    ] = 30.0,
    jobs: Annotated[int, typer.Option(min=1, help="Requests that are answered at the same time.")] = 4,
    open: OpenPage = False,
) -> None:
    """Serve a page to type examples into, and an HTTP service for programs, until Ctrl-C.

    The address of the page is printed. Programs use POST /predict, POST /best, GET /model and
    GET /health.
    """
    from partwise.cli.common import load_with_header
    from partwise.report.bundle import scripted_page
    from partwise.report.output import open_in_browser, output_console
    from partwise.report.summary import summarize
    from partwise.tasks.task import opened_task
    from partwise.web.sections import model_section
    from partwise.web.service import Limits, Service

    estimator, header = load_with_header(model)
    task, summary = opened_task(estimator, header, model), summarize(estimator, header, 30)
    service = Service(task, summary, Limits(seconds=time_limit, at_once=jobs))
    live: dict[str, Any] = {**task.expects(), "most_kbest": service.limits.kbest}
    page = scripted_page(
        f"Model {os.path.basename(model)}", {"live": live, "model": model_section(model, summary)}, live=True
    )
    server = _listen(host, port, service, page)
    stop = threading.Event()
    with _heeding(stop):
        service.warm_up()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        console = output_console()
        console.print(f"serving {model} at {server.address} (Ctrl-C stops it)", soft_wrap=True, markup=False)
        if open:
            open_in_browser(server.address)
        while not stop.wait(1.0):  # a wait without end would not be interrupted everywhere
            pass
        server.stop()
    console.print("stopped")


def _listen(host: str, port: int, service: Any, page: str) -> Any:
    from partwise.errors import InputError
    from partwise.web.server import ModelServer

    try:
        return ModelServer(host, port, service, page)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot listen at {host}:{port}: {reason}; name another --port or --host") from None


class _heeding:
    """Within it, Ctrl-C and SIGTERM set an event, where the main thread runs."""

    def __init__(self, stop: threading.Event):
        self.stop = stop
        self.previous: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, lambda *_: self.stop.set())

    def __exit__(self, *error: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
