"""Traces that were written when they still repeated the beginning of a memory."""

from pathlib import Path

import holdfast
from holdfast.engine.journal.chain import append
from holdfast.engine.journal.occurrences import events_of
from holdfast.engine.journal.withheld import for_operators
from holdfast.model.traces import Trace

WORD = "zebrafish"


def test_what_an_old_trace_repeats_is_withheld_and_the_chain_still_holds(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("alice")
        agent.memory.add(WORD)
        handle = agent._handle
        old = Trace(
            action="memory.created",
            resource_type="memory",
            resource_id="mem_old",
            details={"content_preview": WORD, "type": "fact", "tags": [WORD], "embedded": True},
        )
        with handle.context.catalog.write() as transaction:
            append(transaction, handle.context, handle.lock(transaction), old)
        [found, new] = vault.traces.list(action="memory.created", limit=10)
        assert (found.details["content_preview"], "content_preview" in new.details) == (WORD, False)
        assert for_operators(found).details == {"type": "fact", "embedded": True}
        target = tmp_path / "audit.jsonl"
        vault.export_audit(target, for_operators=True)
        assert WORD not in target.read_text()
        assert "redacted:" in target.read_text()
        assert holdfast.verify_audit_file(target).is_sound
        assert vault.verify_audit().is_sound


def test_a_trace_of_an_agents_own_tells_operators_nothing_but_that_it_is_there(
    tmp_path: Path,
) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        made = vault.namespace("alice").traces.add("tool.called", details={"version": WORD})
        assert for_operators(made).details == {}
        assert for_operators(made).action == "tool.called"


def test_whoever_hears_an_event_is_told_no_more_of_a_trace_than_operators_see() -> None:
    details = {"version": 3, "reasoning": WORD, "something that is new": WORD}
    trace = Trace(action="state.updated", resource_type="session", details=details)
    [told] = events_of(trace, trace_id="trace-1")
    assert told.data == {"version": 3, "trace_id": "trace-1"}
