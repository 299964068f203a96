"""Calls about what is erased for good."""

from holdfast.model.erasures import Certificate
from holdfast.operations.erasures import Erase, ListErasures
from holdfast.sdk.calls import Call, F, asking, call, method
from holdfast.sdk.groups.operators import OperatorGroup


class Erasures(OperatorGroup[F]):
    """What is erased for good, with all bytes that nothing else needs: there is no way back."""

    list = method(ListErasures)

    @call
    def namespace(self, name: str, *, number: int | None = None) -> Call[Certificate]:
        """Erases a namespace.

        Of several with this name the live one, else the last deleted, or that with the `number`
        that `namespaces.deleted` tells. Namespaces that were forked from it keep what they hold.
        """
        return asking(Erase(confirm=name, namespace=name, number=number), self.above)

    @call
    def session(self, namespace: str, session_id: str) -> Call[Certificate]:
        """Erases a session: state, conversation, history, memories and entities.

        Snapshots that held it get a root without it. Forks of it keep what they hold.
        """
        wanted = Erase(confirm=session_id, namespace=namespace, session_id=session_id)
        return asking(wanted, self.above)

    @call
    def user(self, user_id: str) -> Call[Certificate]:
        """Erases all that is known to be a user's, in all namespaces, deleted ones too."""
        return asking(Erase(confirm=user_id, user_id=user_id), self.above)
