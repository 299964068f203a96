"""Attached directories that people see through the console, each open once for all who ask.

Whoever has a namespace in the console whose directory is attached on this machine has the directory
with it: what is there now is what lies there, and going back moves it. Agents, who come with keys,
have the namespace alone, as ever.
"""

from threading import Lock

from holdfast.engine.attended import Attended
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast


class Directories:
    """The attached directories of a vault, as far as somebody has asked for them."""

    def __init__(self, vault: Holdfast) -> None:
        self._vault, self._guard = vault, Lock()
        self._open = dict[str, Attended]()

    def over(self, tenant_id: str, agent: Namespace) -> Namespace:
        """Returns a namespace with the directory that is attached to it, if one is."""
        if tenant_id != self._vault.tenant_id:
            return agent  # Commands attach directories to namespaces of the vault's own tenant.
        with self._guard:
            kept, found = self._open.get(agent.name), self._vault.attended(agent.name)
            if found is None:
                self._let_go(agent.name)
                return agent
            if kept is None or kept.attachment.state != found.attachment.state:
                self._let_go(agent.name)
                self._open[agent.name] = kept = found
        return kept.through(agent)

    def close(self) -> None:
        """Lets go of all of them."""
        with self._guard:
            for name in [*self._open]:
                self._let_go(name)

    def _let_go(self, name: str) -> None:
        gone = self._open.pop(name, None)
        if gone is not None:
            gone.close()
