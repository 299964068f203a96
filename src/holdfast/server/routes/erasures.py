"""What is erased for good, by operators alone: said once more, since there is no way back."""

from typing import Final

from holdfast.engine.erasing.door import Erasures
from holdfast.model.erasures import Certificate
from holdfast.operations.erasures import Erase
from holdfast.server.doors import answers, routes_of
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route


@answers(Erase)
def erase(caller: Caller, wanted: Erase) -> Certificate:
    """Erases what is named, and confirmed."""
    if wanted.confirm != (wanted.user_id or wanted.session_id or wanted.namespace):
        raise Unfit("confirm is the id or the name of what is to be erased", param="confirm")
    erasures = caller.vault.erasures
    if wanted.user_id is not None:
        if wanted.namespace or wanted.session_id or wanted.number is not None:
            raise Unfit("a user is erased from all namespaces: say user_id alone", param="user_id")
        return erasures.user(wanted.user_id)
    if wanted.namespace is None:
        raise Unfit("say in which namespace the session is", param="namespace")
    if wanted.session_id is None:
        return erasures.namespace(wanted.namespace, number=wanted.number)
    if wanted.number is not None:
        raise Unfit("a number is for a whole namespace", param="number")
    return erasures.session(wanted.namespace, wanted.session_id)


ROUTES: Final[list[Route]] = [
    *routes_of(Erasures, lambda caller: caller.vault.erasures),
    erase,
]
