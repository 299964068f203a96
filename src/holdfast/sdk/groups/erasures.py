"""Calls about what is erased for good."""

from typing import Final

import msgspec

from holdfast.model.erasures import Certificate
from holdfast.sdk.calls import Call, F, call
from holdfast.sdk.groups.operators import OperatorGroup
from holdfast.sdk.reading import as_it_is, reads
from holdfast.wire.erasures import EraseRequest

_PATH: Final = "/v1/workspaces/{workspace_id}/erasures"

CertificateList = list[Certificate]
"""`list` is the name of a method below."""


class _ErasureList(msgspec.Struct):
    erasures: list[Certificate]


class Erasures(OperatorGroup[F]):
    """What is erased for good, with all bytes that nothing else needs: there is no way back."""

    @call
    def namespace(self, name: str, *, number: int | None = None) -> Call[Certificate]:
        """Erases a namespace.

        Of several with this name the live one, else the last deleted, or that with the `number`
        that `namespaces.deleted` tells. Namespaces that were forked from it keep what they hold.
        """
        return self._erase(EraseRequest(confirm=name, namespace=name, number=number))

    @call
    def session(self, namespace: str, session_id: str) -> Call[Certificate]:
        """Erases a session: state, conversation, history, memories and entities.

        Snapshots that held it get a root without it. Forks of it keep what they hold.
        """
        body = EraseRequest(confirm=session_id, namespace=namespace, session_id=session_id)
        return self._erase(body)

    @call
    def user(self, user_id: str) -> Call[Certificate]:
        """Erases all that is known to be a user's, in all namespaces, deleted ones too."""
        return self._erase(EraseRequest(confirm=user_id, user_id=user_id))

    @call
    def list(self) -> Call[CertificateList]:
        """Returns the certificates of what was erased, newest first."""
        read = reads(_ErasureList, lambda answer: answer.erasures)
        return Call(method="GET", path=_PATH, place=self._workspace, read=read)

    def _erase(self, body: EraseRequest) -> Call[Certificate]:
        return Call(
            method="POST",
            path=_PATH,
            place=self._workspace,
            body=body,
            read=as_it_is(Certificate),
            is_slow=True,
        )
