"""What operators expect of a server: settings in a file, TLS, a log for programs, metrics.

One server, started as they start it, with all of it at once.
"""

import json
import re
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from holdfast.testing.certificates import make_certificate
from holdfast.testing.receivers import receiver
from holdfast.testing.servers import API_KEY, COMMAND, Server, running_server

pytestmark = pytest.mark.in_memory

SERVING = Path(__file__).parents[2] / "docs" / "reference" / "serving.md"
PATIENCE_S = 30.0


class Place(NamedTuple):
    """A server, and the files that it was given."""

    server: Server
    certificate: Path
    key: Path

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "alice"}
        context = ssl.create_default_context(cafile=str(self.certificate))
        return httpx.Client(
            base_url=self.server.url, headers=headers, verify=context, trust_env=False, timeout=30
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("operating")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    make_certificate(certificate, key)
    (folder / "holdfast.toml").write_text(
        f'tls_certificate = "{certificate}"\ntls_key = "{key}"\n'
        'workers = 2\nlog_format = "json"\nlog_level = "debug"\nproxies = ["10.0.0.0/8"]\n'
    )
    with running_server(folder / "home", "--config", str(folder / "holdfast.toml")) as server:
        place = Place(server, certificate, key)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(httpx.ConnectError), place.client() as http:
                if http.get("/health/live").is_success:
                    break
            time.sleep(0.1)
        yield place


def test_a_client_that_knows_the_certificate_is_answered_over_tls(place: Place) -> None:
    assert place.server.url.startswith("https://")
    with place.client() as http:
        body = b"x" * 300_000
        assert http.put("/files/a.bin", content=body).is_success
        assert http.get("/files/a.bin").content == body
    with pytest.raises(httpx.ConnectError, match="certificate"):
        httpx.get(f"{place.server.url}/health", trust_env=False)
    # Who does not speak TLS is no request, and keeps nobody from being answered.
    with pytest.raises(httpx.HTTPError):
        httpx.get(place.server.url.replace("https", "http") + "/health", trust_env=False)
    with place.client() as http:
        assert http.get("/health/ready").is_success


def test_every_line_of_the_log_is_an_object(place: Place) -> None:
    with place.client() as http:
        assert http.get("/files/none.bin").status_code == 404
    deadline = time.monotonic() + PATIENCE_S
    while '"status":404' not in place.server.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lines = [json.loads(line) for line in place.server.log.read_text().splitlines()]
    assert all({"time", "level", "logger"} <= line.keys() for line in lines)
    (missed,) = (line for line in lines if line.get("status") == 404)
    assert (missed["logger"], missed["method"]) == ("holdfast.access", "GET")


def test_every_metric_that_is_explained_is_shown(place: Place) -> None:
    explained = re.findall(r"^\| `(holdfast_\w+)`", SERVING.read_text(), re.MULTILINE)
    with place.client() as http:
        assert http.put("/files/b.txt", content=b"b").is_success
        deadline = time.monotonic() + PATIENCE_S
        while True:
            text = http.get("/metrics").text
            values = dict(re.findall(r"^(holdfast_\w+)(?:\{[^}]*\})? (\S+)$", text, re.MULTILINE))
            # Of both workers together, and none of them is shown as more than it is.
            if float(values.get("holdfast_catalog_most", 0)) == 2:
                break
            assert time.monotonic() < deadline, text
            time.sleep(0.2)
    families = set(re.findall(r"^# TYPE (holdfast_\w+) ", text, re.MULTILINE))
    assert len(explained) > 10
    # Packs lie beside the rows here, and a server shows that only where they are elsewhere.
    assert families == set(explained) - {"holdfast_packs_answered_timestamp_seconds"}
    assert float(values["holdfast_collected_timestamp_seconds"]) == 0


def test_a_certificate_is_replaced_without_a_word(place: Place) -> None:
    with place.client() as before:
        assert before.get("/health").is_success
        make_certificate(place.certificate, place.key, name="another")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with place.client() as http:
                    assert http.get("/health").is_success
                    break
            except httpx.ConnectError:
                assert time.monotonic() < deadline
                assert before.get("/health").is_success  # In use, or it is closed as idle.
                time.sleep(0.2)
        # Both workers: whoever is next, here or in another test, may meet either.
        while place.server.log.read_text().count("there is a new certificate") < 2:
            assert time.monotonic() < deadline
            assert before.get("/health").is_success
            time.sleep(0.2)
        # What was open stays open.
        assert before.get("/health").is_success


def test_a_server_that_is_about_to_stop_says_so_and_goes_on_for_a_while(tmp_path: Path) -> None:
    with running_server(tmp_path, environ={"HOLDFAST_STOP_PAUSE": "60"}) as server:
        headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "alice"}
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as http:
            assert "connection" not in http.put("/files/a.txt", content=b"a").headers
            assert server.process is not None
            server.process.terminate()
            deadline = time.monotonic() + PATIENCE_S
            while (ready := http.get("/health/ready")).is_success:
                assert time.monotonic() < deadline
            assert (ready.status_code, "retry-after" in ready.headers) == (503, True)
            assert http.get("/health/live").is_success
            kept = http.put("/files/b.txt", content=b"b")
            assert kept.is_success
            assert kept.headers["connection"] == "close"
        assert server.stop() == 0  # Who asks twice does not wait for it.


def test_workers_send_spans_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.instrumentation.auto_instrumentation", reason="no otel")
    instrument = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
    with receiver() as collector:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_SERVICE_NAME": "a-server-of-ours",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        command = (sys.executable, "-c", instrument, *COMMAND)
        monkeypatch.chdir(tmp_path)  # It adds the folder where it was started to all paths.
        with running_server(
            tmp_path / "home", "--workers", "2", environ=environ, command=command
        ) as server:
            headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "alice"}
            with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as http:
                assert http.put("/files/a.txt", content=b"x").is_success
            got = collector.wait_until(
                lambda got: any(b"PUT /files/{path}" in each.body for each in got)
            )
    assert {each.path for each in got} == {"/v1/traces"}
    assert b"a-server-of-ours" in got[0].body
