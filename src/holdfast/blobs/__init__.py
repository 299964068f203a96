"""Where packs live: a port, and one module per place.

A blob is bytes under a name, written whole and never changed. `port.BlobStore` says what
every place promises, `tests/contract/test_blob_store.py` holds each of them to it. What the
bytes mean is `holdfast.packs`, which this package does not know.

Only the port is exported: adapters (`memory`, `disk`, `bucket`, and `cached` before the last) are
chosen in `holdfast.wiring`.
"""

from holdfast.blobs.port import BlobStore

__all__ = ["BlobStore"]
