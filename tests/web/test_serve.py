"""`partwise serve`: its answers, what it refuses, many requests at once, limits, a clean stop, and its page."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from browser import Watched, chromium
from data_paths import ROOT

import partwise
from partwise.data import parse_conll
from partwise.errors import InputError
from partwise.report.bundle import scripted_page
from partwise.report.summary import summarize
from partwise.tasks import TASKS, task_class, task_of
from partwise.web import request_head
from partwise.web.connections import Connections
from partwise.web.server import ModelServer
from partwise.web.service import Limits, Service
from partwise.web.work import Busy, TooSlow, Workers

CHUNKS = """the D B-NP
man N I-NP
saw V <b>VP</b>
a D B-NP
dog N I-NP

dogs N B-NP
saw V <b>VP</b>
the D B-NP
saw N I-NP
"""
TEXT = "the D\nman N\nsaw V\ndogs N"


@pytest.fixture(scope="module")
def model():
    return partwise.SequenceLabeler(template="chunking", l2=0.1).fit(parse_conll(CHUNKS))


def started(model, **limits):
    """A server in a thread of this process."""
    task = task_of(model)(model)
    summary = summarize(model, {"estimator": type(model).__name__}, 5)
    service = Service(task, summary, Limits(**limits))
    live = {**task.expects(), "most_kbest": service.limits.kbest}
    server = ModelServer("127.0.0.1", 0, service, scripted_page("Model <i>m</i>", {"live": live}, live=True))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def server(model):
    server = started(model, seconds=20.0)
    yield server
    server.stop()


def ask(server, method="GET", path="/health", body=None, **headers):
    """Status and JSON of one request."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=30)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        return response.status, json.loads(data) if "json" in response.getheader("Content-Type", "") else data
    finally:
        connection.close()


def test_answers(server, model):
    status, found = ask(server, "POST", "/predict", {"text": TEXT, "kbest": 2})
    assert (
        status == 200
        and found["labels"] == model.predict([[tuple(row.split()) for row in TEXT.split("\n")]])[0]
    )
    assert len(found["kbest"]) == 2 and found["marginals"] and found["terms"] and found["against"]
    assert ask(server, "POST", "/predict", {"tokens": [["the", "D"], ["man", "N"]]})[1]["labels"] == [
        "B-NP",
        "I-NP",
    ]
    expected = {"labels": ["B-NP", "I-NP"]}
    assert ask(server, "POST", "/best", {"tokens": [["the", "D"], ["man", "N"]]}) == (200, expected)
    assert ask(server) == (200, {"status": "ok"})
    status, about = ask(server, path="/model?x=1")
    assert status == 200 and about["estimator"] == "SequenceLabeler" and "<b>VP</b>" in about["labels"]
    assert about["limits"]["seconds"] == 20.0 and "word, pos" in about["format"]
    status, page = ask(server, path="/")
    assert status == 200 and b"connect-src 'self'" in page and b"Model &lt;i&gt;m" in page


REFUSED = {
    "no JSON": (400, {"body": b"{", "Content_Type": "application/json"}),
    "not an object": (422, {"body": [1]}),
    "no text": (422, {"body": {}}),
    "an unknown key": (422, {"body": {"text": TEXT, "<b>": 1}}),
    "columns": (422, {"body": {"text": "the\nman"}}),
    "kbest": (422, {"body": {"text": TEXT, "kbest": 10_000}}),
    "kbest of the best": (422, {"path": "/best", "body": {"text": TEXT, "kbest": 2}}),
    "too many words for the best": (422, {"path": "/best", "body": {"tokens": [["a", "D"]] * 2001}}),
    "kbest of yes": (422, {"body": {"text": TEXT, "kbest": True}}),
    "too many words": (422, {"body": {"tokens": [["a", "D"]] * 2001}}),
    "a deep body": (400, {"body": b"[" * 100_000, "Content_Type": "application/json"}),
    "plain text": (415, {"body": b"{}", "Content_Type": "text/plain"}),
    "no type": (415, {"body": b"{}"}),
    "a large body": (413, {"body": b"x" * 1_000_001, "Content_Type": "application/json"}),
    "null": (422, {"body": {"tokens": None}}),
    "an address within a name": (421, {"body": {"text": TEXT}, "Host": "[127.0.0.1].evil.example"}),
    "another host": (421, {"body": {"text": TEXT}, "Host": "evil.example"}),
    "another host with a port": (421, {"body": {"text": TEXT}, "Host": "127.0.0.1.evil.example:80"}),
    "no length": (411, {"body": b"", "Content_Type": "application/json", "Transfer_Encoding": "chunked"}),
    "nothing there": (404, {"path": "/other"}),
    "another method": (405, {"path": "/model", "body": {}}),
    "a preflight": (405, {"method": "OPTIONS", "Origin": "http://evil.example"}),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_refusals_are_one_line_of_json(server, name):
    status, request = REFUSED[name]
    found, body = ask(server, **{"method": "POST", "path": "/predict", **request})
    assert found == status and list(body) == ["error"] and "\n" not in body["error"] and body["error"]
    assert ask(server) == (200, {"status": "ok"})


def test_no_other_site_may_read(server):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=30)
    connection.request("GET", "/model", headers={"Origin": "http://evil.example", "Host": "localhost:1"})
    response = connection.getresponse()
    assert response.status == 200 and response.getheader("Access-Control-Allow-Origin") is None
    assert response.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    response.read()
    connection.request("HEAD", "/health")  # the same connection again
    response = connection.getresponse()
    assert response.status == 200 and response.read() == b""
    connection.close()


def test_a_refused_body_is_not_read_as_the_next_request(server):
    inner = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner)
    with socket.create_connection(server.server_address[:2], timeout=10) as wire:
        wire.sendall(head + inner)
        received = b""
        while part := wire.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 404") and received.count(b"Content-Length:") == 1


NO_REQUESTS = {
    "of TLS": (400, b"\x16\x03\x01\x02\x00\r\n\r\n"),
    "without a version": (400, b"GET /\r\n\r\n"),
    "of version 2.0": (505, b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n"),
    "of version 9.9": (505, b"GET / HTTP/9.9\r\n\r\n"),
    "too long": (431, b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\n\r\n"),
    "cut off": (400, b"GET /health HTTP/1.1\r\nHost: local"),
    "with two hosts": (400, b"GET /health HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n"),
    "with two lengths": (
        400,
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n"
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ),
    "with a length and chunks": (
        400,
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    "with a field without a name": (400, b"GET /health HTTP/1.1\r\nHost: localhost\r\n : b\r\n\r\n"),
    "with a folded field": (400, b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n"),
    "with a zero byte": (400, b"GET /health HTTP/1.1\r\nHost: localhost\0\r\n\r\n"),
}


@pytest.mark.parametrize("name", list(NO_REQUESTS))
def test_what_is_no_request_has_one_refusal(server, name):
    status, sent = NO_REQUESTS[name]
    with socket.create_connection(server.server_address[:2], timeout=10) as wire:
        wire.sendall(sent)
        wire.shutdown(socket.SHUT_WR)
        received = b""
        while part := wire.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 %d " % status) and received.count(b"Content-Length:") == 1
    assert b'{"error": "' in received and b"Connection: close" in received


def test_a_head_may_arrive_in_pieces_and_requests_one_after_another(server):
    sent = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(server.server_address[:2], timeout=10) as wire:
        for k in range(0, len(sent), 10):
            wire.sendall(sent[k : k + 10])
            time.sleep(0.01)
        wire.sendall(sent * 2)
        wire.shutdown(socket.SHUT_WR)
        received = b""
        while part := wire.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200") == 3


def test_connections_close_if_the_client_says_so_or_knows_no_better(server):
    for head, is_kept in (
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n", True),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", False),
        (b"GET /health HTTP/1.0\r\nHost: localhost\r\n", False),
        (b"GET /health HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n", True),
    ):
        with socket.create_connection(server.server_address[:2], timeout=10) as wire:
            wire.sendall((head + b"\r\n") * 2)
            wire.shutdown(socket.SHUT_WR)
            received = b""
            while part := wire.recv(65536):
                received += part
        assert received.count(b"HTTP/1.1 200") == 1 + is_kept, head


def test_a_client_that_waits_to_send_its_body_is_asked_for_it(server):
    body = json.dumps({"tokens": [["the", "D"]]}).encode()
    head = b"POST /best HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(server.server_address[:2], timeout=10) as wire:
        wire.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert wire.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(body)
        assert wire.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("name", list(TASKS))
def test_every_task_has_a_best_answer_that_is_part_of_the_whole_answer(name):
    problem = next(iter(task_class(name).small_problems()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = problem.estimator(max_passes=3, **problem.parameters).fit(problem.X, problem.y)
    task = task_class(name)(fitted)
    try:
        x = task.read({"text": task.expects()["example"]})
    except InputError:  # the example of graphs has features of its own
        x = task.pick(*task.examples(problem.X, problem.y), 0)[0]
    best, whole = task.best(x), task.answer(x)
    if "segments" in best:  # whole answers have their probabilities, too
        whole["segments"] = [row[:3] for row in whole["segments"]]
    assert best == {key: whole[key] for key in ("labels", "heads", "segments", "tree") if key in whole}


def test_a_head_has_a_time_limit_however_often_a_byte_arrives(server, monkeypatch):
    monkeypatch.setattr(request_head, "SECONDS", 0.5)
    with socket.create_connection(server.server_address[:2], timeout=10) as wire:
        wire.sendall(b"GET /health HTTP/1.1\r\nX: ")
        wire.settimeout(0.05)
        received = b""
        for _ in range(200):
            with suppress(TimeoutError, BrokenPipeError):
                wire.sendall(b"x")
                received = received or wire.recv(65536)
            if received:
                break
    assert received.startswith(b"HTTP/1.1 408 ")


def test_half_open_connections_lock_nobody_out(server, monkeypatch):
    monkeypatch.setattr(request_head, "SECONDS", 3600.0)  # waiting does not help
    held = []
    try:
        for _ in range(200):
            held.append(socket.create_connection(server.server_address[:2], timeout=10))
            held[-1].sendall(b"GET /health")
        assert ask(server) == (200, {"status": "ok"})
        assert ask(server, "POST", "/predict", {"text": TEXT})[0] == 200
    finally:
        for wire in held:
            wire.close()


def test_connections_that_wait_make_room_and_those_at_work_stay():
    pairs = [socket.socketpair() for _ in range(6)]
    ours = [pair[0] for pair in pairs]
    connections = Connections(4, 3)
    assert all(connections.admit(each, "a") for each in ours[:3])
    with connections.working(ours[0]):
        assert connections.admit(ours[3], "a")  # in place of the second, which has waited longest
        assert pairs[1][1].recv(1) == b""
        assert connections.admit(ours[4], "b")
        assert connections.admit(ours[5], "c")  # full: the client with the most gives one
        assert pairs[2][1].recv(1) == b""
        with connections.working(ours[3]), connections.working(ours[4]), connections.working(ours[5]):
            assert not connections.admit(ours[1], "d")
    connections.leave(ours[5])
    assert connections.admit(ours[1], "d")
    for pair in pairs:
        pair[0].close()
        pair[1].close()


def test_a_list_of_requests_has_a_list_of_answers(server):
    one, two = {"text": "the D"}, {"text": "a D\ncat N"}
    for path in ("/best", "/predict"):
        alone = [ask(server, "POST", path, each)[1] for each in (one, two)]
        assert ask(server, "POST", path, [one, two])[1] == alone
    status, found = ask(server, "POST", "/best", [one, {"tokens": 3}])
    assert status == 422 and "request 1 of the list" in found["error"]
    for wrong in ([], [one] * 101):
        status, found = ask(server, "POST", "/best", wrong)
        assert status == 422 and "1 to 100 requests" in found["error"]


def test_the_service_describes_itself(server):
    status, found = ask(server, "GET", "/openapi.json")
    assert (
        status == 200
        and found["openapi"] == "3.1.0"
        and set(found["paths"]) >= {"/predict", "/best", "/model"}
    )
    example = found["paths"]["/best"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert ask(server, "POST", "/best", example)[0] == 200


def test_many_requests_at_once_get_their_own_answers(server, model):
    words = [("the", "D"), ("man", "N"), ("saw", "V"), ("dogs", "N"), ("a", "D")]
    random = np.random.default_rng(0)
    sentences = [[words[k] for k in random.integers(0, 5, random.integers(1, 12))] for _ in range(60)]
    task = task_of(model)(model)
    expected = [json.loads(json.dumps(task.answer(sentence))) for sentence in sentences]

    def post(sentence):
        return ask(server, "POST", "/predict", {"tokens": [list(pair) for pair in sentence]})

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(post, sentences))
    assert [status for status, _ in found] == [200] * 60
    assert [answer for _, answer in found] == expected


def test_time_limits():
    workers, gate = Workers(1, 0.2), threading.Event()
    with pytest.raises(TooSlow):
        workers.run(gate.wait)
    with pytest.raises(Busy):  # the place is taken as long as the work goes on
        workers.run(lambda: 1)
    gate.set()
    assert any(_runs(workers) for _ in range(50))
    with pytest.raises(ZeroDivisionError):
        workers.run(lambda: 1 // 0)
    assert workers.run(lambda: 2) == 2


def _runs(workers):
    try:
        return workers.run(lambda: True)
    except Busy:
        return False


def test_slow_answers_and_failures_have_their_status(model, monkeypatch, capfd):
    server = started(model, seconds=0.3, at_once=1)
    gate = threading.Event()
    monkeypatch.setattr(server.service.task, "answer", lambda x, kbest: gate.wait(10) or {})
    assert ask(server, "POST", "/predict", {"text": TEXT})[0] == 504
    assert ask(server, "POST", "/predict", {"text": TEXT})[0] == 503
    gate.set()
    monkeypatch.setattr(server.service.task, "answer", lambda x, kbest: 1 // 0)
    for _ in range(100):
        found = ask(server, "POST", "/predict", {"text": TEXT})
        if found[0] != 503:
            break
        time.sleep(0.1)
    assert found == (500, {"error": "internal error (ZeroDivisionError)"})
    assert "ZeroDivisionError" in capfd.readouterr().err
    server.stop()
    with pytest.raises(OSError):
        ask(server)


def test_the_page_answers_while_one_types(server):
    with chromium() as browser:
        from playwright.sync_api import expect

        watched = Watched(browser, width=400)
        page = watched.open(server.address)
        page.wait_for_selector(".token")
        assert not watched.is_too_wide()
        page.locator("#text").fill("dogs N\nsaw V\nthe D\n<script>alert(1)</script> N")
        expect(page.locator(".token")).to_have_count(4)
        assert page.locator(".token .word").all_inner_texts() == [
            "dogs",
            "saw",
            "the",
            "<script>alert(1)</script>",
        ]
        assert page.locator(".token .name").nth(1).inner_text() == "<b>VP</b>"
        assert page.locator(".kbest button").count() == 3 and page.locator(".details td").count() > 3
        page.locator("#text").fill("dogs")
        expect(page.locator("[role=alert]")).to_contain_text("columns")
        assert page.locator(".token").count() == 4
        page.locator("#text").fill("dogs N")
        page.locator("#text").press("Control+Enter")
        expect(page.locator(".token")).to_have_count(1)
        assert all(url.startswith(server.address) for url in watched.requests)
        # The browser itself tells of the one answer that was a refusal.
        assert [each for each in watched.complaints if "422" not in each] == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stops_cleanly(model, tmp_path, number):
    model.save(tmp_path / "m.pw")
    source = str(ROOT / "src")
    command = [sys.executable, "-m", "partwise.cli", "serve", "m.pw", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": source}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        line = process.stdout.readline()
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(
            "POST", "/predict", json.dumps({"text": TEXT}), {"Content-Type": "application/json"}
        )
        assert connection.getresponse().status == 200
        if number == signal.SIGTERM:
            other = subprocess.run([*command[:-1], str(port)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": source},
                                   capture_output=True, text=True, check=False)  # fmt: skip
            assert other.returncode == 2 and "cannot listen at 127.0.0.1" in other.stderr
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0 and out == "stopped\n" and err == ""


def test_models_without_text_are_refused():
    with pytest.raises(InputError, match=r"m\.pw: .*use it from Python"):
        task_of(partwise.KernelSequenceLabeler(), "m.pw")
