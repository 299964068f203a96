"""What is erased for good, by operators alone, and the certificates of it."""

from typing import Final

import msgspec
from msgspec import structs

from holdfast.model.erasures import Certificate
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, get, post
from holdfast.server.threads import Work
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.erasures import CertificateAnswer, EraseRequest, ErasureList

_ALL: Final = "/v1/workspaces/{workspace_id}/erasures"


@post(_ALL, who=Who.OPERATOR, work=Work.LONG)
def erase(caller: Caller, workspace_id: str, data: EraseRequest) -> CertificateAnswer:
    """Erases for good, with all bytes that nothing else needs; there is no way back.

    A `namespace`, its session `session_id`, or all that is known to be the user's `user_id`. Forks
    keep what they hold, and are named.
    """
    subject = data.user_id or data.session_id or data.namespace
    if data.confirm != subject:
        raise Unfit("confirm is the id or the name of what is to be erased", param="confirm")
    return _answer(_erase(caller, data))


@get(_ALL, who=Who.OPERATOR)
def list_(caller: Caller, workspace_id: str) -> ErasureList:
    """Lists the certificates of what was erased, newest first."""
    return ErasureList(erasures=[_answer(each) for each in caller.vault.erasures.list()])


def _erase(caller: Caller, asked: EraseRequest) -> Certificate:
    erasures = caller.vault.erasures
    if asked.user_id is not None:
        if asked.namespace or asked.session_id or asked.number is not None:
            raise Unfit("a user is erased from all namespaces: say user_id alone", param="user_id")
        return erasures.user(asked.user_id)
    if asked.namespace is None:
        raise Unfit("say in which namespace the session is", param="namespace")
    if asked.session_id is None:
        return erasures.namespace(asked.namespace, number=asked.number)
    if asked.number is not None:
        raise Unfit("a number is for a whole namespace", param="number")
    return erasures.session(asked.namespace, asked.session_id)


def _answer(done: Certificate) -> CertificateAnswer:
    told = structs.asdict(done)
    told["what"] = done.what.value
    told["namespace_created_at"] = shown_or_none(done.namespace_created_at)
    told |= {name: shown(told[name]) for name in ("begun_at", "finished_at")}
    return msgspec.convert(told, CertificateAnswer)


ROUTES: Final[list[Route]] = [erase, list_]
