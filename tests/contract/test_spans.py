"""What is waited for inside a request has a name, for whoever draws spans."""

import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from holdfast.blobs.bucket import BucketBlobStore
from holdfast.blobs.buckets import Bucket
from holdfast.catalog.port import Catalog
from holdfast.instruments import SPANS

SERVED = """
import asyncio, json, sys
import httpx
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from holdfast.server.app import make_app, open_vault
from holdfast.server.config import configure
from holdfast.server.credentials import make_credentials
from holdfast.server.textprocesses import TextProcesses

config = configure({}, data=sys.argv[1])
vault = open_vault(config)
key = make_credentials(vault, config).api_key
headers = {"Authorization": f"Bearer {key}", "X-Namespace": "hidden-agent"}
headers["traceparent"] = f"00-{'ab' * 16}-{'cd' * 8}-01"
of_strangers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-00", "tracestate": "a=hidden"}
trusting = configure({"HOLDFAST_TRUST_TRACES": "1"}, data=sys.argv[1])

def sent_to(config, headers):
    app = httpx.ASGITransport(make_app(config, vault, TextProcesses()))
    return httpx.AsyncClient(transport=app, base_url="http://a", headers=headers)

async def main():
    async with sent_to(config, headers) as http:
        assert (await http.put("/files/hidden.txt", content=b"hidden")).status_code == 200
        assert (await http.get("/files/hidden-too.txt")).status_code == 404
    async with sent_to(config, of_strangers | {"X-API-Key": "hidden" * 6}) as http:
        assert (await http.get("/v1/timeline")).status_code == 401
        assert (await http.get("/health/live")).status_code == 200
    async with sent_to(trusting, {"traceparent": headers["traceparent"]}) as http:
        assert (await http.get("/health/ready")).status_code == 200

asyncio.run(main())
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""
"""A server as whoever has a provider runs it, of which a client sends spans of its own."""


@pytest.fixture
def drawn() -> Iterator[list[str]]:
    names = list[str]()

    @contextmanager
    def begin(name: str) -> Generator[None]:
        names.append(name)
        yield

    SPANS.draw(begin)
    yield names
    SPANS.draw(None)


def test_a_transaction_is_a_span(catalog: Catalog, drawn: list[str]) -> None:
    drawn.clear()
    for begin in (catalog.read, catalog.write, catalog.ask):
        with begin() as transaction:
            transaction.find_tenant("none")
    assert drawn == ["catalog.read", "catalog.write", "catalog.ask"]


def test_a_request_to_a_bucket_is_a_span(drawn: list[str]) -> None:
    store, name = BucketBlobStore(Bucket(MemoryStore())), "a" * 32
    store.put(name, b"bytes")
    store.get(name)
    store.get(name, start=1, length=2)
    store.size(name)
    list(store.iter_names())
    store.delete(name)
    kinds = ("put", "get", "get", "head", "list", "delete")
    assert list(dict.fromkeys(drawn)) == list(dict.fromkeys(f"bucket.{kind}" for kind in kinds))


def test_a_provider_sees_a_request_its_operation_and_what_that_waits_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    spans = json.loads(done.stdout.splitlines()[-1])
    by_id = {span["context"]["span_id"]: span for span in spans}

    def way_to(span) -> list[str]:
        above = by_id.get(span["parent_id"])
        return [*(() if above is None else way_to(above)), span["name"]]

    ways = [way_to(span) for span in spans]
    assert ["PUT /files/{path}", "files_upload"] in ways
    assert ["PUT /files/{path}", "files_upload", "catalog.write"] in ways
    (put, get) = (span for span in spans if span["name"].endswith("/files/{path}"))
    # What a key is looked up by comes before it is known who asks, and is drawn as well.
    assert any(
        way[0].startswith("PUT") and way[1].startswith("catalog.") for way in ways if way[1:]
    )
    # Below that of the client which has asked,
    theirs, above = f"0x{'ab' * 16}", f"0x{'cd' * 8}"
    (refused, alive) = (span for span in spans if span["links"])
    begun = {refused["context"]["trace_id"], alive["context"]["trace_id"]}
    assert len(begun - {theirs}) == 2
    assert {span["context"]["trace_id"] for span in spans} == {theirs, *begun}
    assert put["parent_id"] == above
    # but for a stranger, who also cannot say that nothing is drawn; unless it is trusted.
    for span in (refused, alive):
        assert span["parent_id"] is None
        (link,) = span["links"]
        assert (link["context"]["trace_id"], link["context"]["span_id"]) == (theirs, above)
    assert refused["attributes"]["http.response.status_code"] == 401
    (ready,) = (span for span in spans if span["name"] == "GET /health/ready")
    assert (ready["parent_id"], ready["links"]) == (above, [])
    assert put["kind"] == "SpanKind.SERVER"
    assert put["attributes"] == {
        "http.request.method": "PUT",
        "http.route": "/files/{path}",
        "http.response.status_code": 200,
    }
    assert get["attributes"]["http.response.status_code"] == 404
    (missed,) = (span for span in spans if span["name"] == "files_download")
    assert missed["attributes"] == {"error.type": "PathNotFound"}
    # What agents name and write is in no span.
    assert "hidden" not in json.dumps(spans)
