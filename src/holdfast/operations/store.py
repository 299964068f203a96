"""The store: keys of its namespaces. Values come and go several at a time, which is code."""

from dataclasses import KW_ONLY
from typing import Annotated, Final

from holdfast.model.marks import Named
from holdfast.operations.operation import Operation, Paged

PARTS: Final = Paged(cursor="after", last=None, usual=1000, most=10_000)
"""How keys are listed, and values."""


class ListStoreKeys(
    Operation[list[str]],
    get="/v1/store/keys",
    under="keys",
    repeats=("namespace",),
    paged=PARTS,
    of_moments=True,
):
    """Returns the keys of a namespace in order; with a prefix, those that begin with it.

    At most `limit` of them, and only those that come `after` a key.
    """

    namespace: str
    prefix: str | None = None
    _: KW_ONLY
    after: Annotated[str | None, Named("starting_after")] = None
    limit: int | None = None


class FindMaxKey(
    Operation[str | None],
    get="/v1/store/max_key",
    under="key",
    repeats=("namespace",),
    of_moments=True,
):
    """Returns the greatest key of a namespace, or None."""

    namespace: str


class ListStoreNamespaces(
    Operation[list[str]], get="/v1/store/namespaces", under="namespaces", of_moments=True
):
    """Returns the namespaces that hold something, in order."""

    prefix: str | None = None


class DeleteValue(Operation[bool], delete="/v1/store/value", under="deleted"):
    """Deletes a key; says whether it was there."""

    namespace: str
    key: str


class ClearStore(Operation[None], post="/v1/store/clear", done="cleared"):
    """Deletes every key of every namespace; snapshots stay."""
