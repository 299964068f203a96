// What can be done with a session: roll it back, with what that changes shown first, and fork it.
//
// Neither loses anything. The state before a rollback is a version, and its undo goes back to that.
// Turns that no version shows would be gone with the conversation, so a moment is kept before, and
// the undo brings this one session back from it.

import { html, useState } from "../vendor/preact.js";
import { Form } from "./acts.js";
import { namespaceOf } from "./api.js";
import { Patch } from "./jsontree.js";
import { Failed, Note, Said, Waiting, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { cut, many, plain } from "./text.js";

const LONGEST_REASON = 1000;
const FIRST = 6;

const WENT_ON = new Set(["state_moved", "conversation_moved"]);

/** Refuses to go over what came since: the one who looks has not seen it. */
function checkUnchanged(info, now) {
  if (now.version === info.version && now.turn_count === info.turn_count) return;
  throw Object.assign(new Error("The session went on since you looked"), {
    code: "state_moved",
  });
}

export function RollBack({ info: now, version: chosen, done, again, close }) {
  const { namespace } = state.route.value;
  // What was looked at: if the session goes on meanwhile, it is refused, and looked at again.
  const [{ info, version, wentOn }, look] = useState({ info: now, version: chosen });
  const asked = namespaceOf(namespace);
  const [withTurns, setWithTurns] = useState(false);
  const answer = useAnswer(
    (stop) =>
      Promise.all([
        asked.stateDiff(info.id, { from: info.version, to: version }, stop),
        asked.versions(info.id, { since_version: version - 1, limit: 1 }, stop),
      ]),
    [namespace, info.id, version, info.version],
  );
  const [diff, then] = answer.value ?? [];
  const turns = then?.data[0]?.turn_count;
  const undo = async (kept, made) => {
    try {
      if (!kept) {
        await asked.rollBack(info.id, { version: info.version, expected_version: made.version,
          reason: "undo" });
      } else {
        checkUnchanged(
          { version: made.version, turn_count: turns },
          await asked.session(info.id),
        );
        const back = await asked.restore(kept.snapshot_id, {
          names: [{ plane: "sessions", name: info.id }],
          reason: `undo of a rollback of ${cut(plain(info.id), 60)}`,
        });
        if (!back.verified)
          return state.go(state.to(["n", namespace, "snapshot", back.snapshot.snapshot_id],
            { unverified: 1 }));
      }
      state.toast(`Undone: ${cut(plain(info.id), 40)} is as it was.`);
      return again();
    } catch (failure) {
      return state.tell(failure, "Not undone");
    }
  };
  const roll = async (form) => {
    let kept = null;
    let made;
    try {
      if (withTurns) {
        checkUnchanged(info, await asked.session(info.id));
        kept = await asked.keep({ label: `before a rollback of ${cut(plain(info.id), 60)}` });
      }
      made = await asked.rollBack(info.id, {
        version,
        conversation: withTurns,
        reason: form.get("reason").trim() || undefined,
        expected_version: info.version,
        // Of a state that goes back alone, what was said meanwhile stays.
        expected_turns: withTurns ? info.turn_count : undefined,
      });
    } catch (failure) {
      if (!WENT_ON.has(failure.code)) throw failure;
      const newer = await asked.session(info.id).catch(() => null);
      if (!newer) throw failure;
      look({ info: newer, version, wentOn: failure });
      again();
      return false;
    }
    done();
    state.toast(`Back at version ${version}, as version ${made.version}.`, {
      act: () => undo(kept, made),
      act_label: "Undo",
      seconds: 20,
    });
    return true;
  };
  return html`<${Form} title=${`Roll back to version ${version}`} button="Roll back" icon="back"
    doing=${roll} shut=${close} why=${answer.value ? undefined : "It is not known yet what would change"}>
    ${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.again} />`}
    ${!answer.value && !answer.failure && html`<${Waiting} what="Looking what would change…" />`}
    ${diff && html`<div class="preview" tabIndex="0" role="region" aria-label="What will change in the state">
      ${diff.patch.length ? html`<${Patch} diff=${diff} first=${FIRST} />` : html`<p
      class="quiet">The state is the same: nothing in it would change.</p>`}</div>`}
    ${turns !== undefined && html`<label class="tick"><input type="checkbox" checked=${withTurns}
      onChange=${(event) => setWithTurns(event.currentTarget.checked)} /> <span>Take the conversation
      back, too: ${info.turn_count === turns ? "to as many turns" :
      `from ${many(info.turn_count, "turn")} to ${turns}`}</span></label>`}
    ${wentOn && html`<${Note} tone="warn" icon="warn" role="alert"><strong>The session went on since
      you looked.</strong> ${wentOn.status && html`<${Said} text=${wentOn.message} />. `}This is what
      would change now.<//>`}
    <label class="field">Why? It is kept in the history <input name="reason"
      maxlength=${LONGEST_REASON} autocomplete="off" /></label>
    <${Note} tone="safe" icon="shield"><strong>Nothing is lost.</strong> ${withTurns ?
      "What is there now becomes a snapshot first, and Undo brings this session back from it." :
      "Every version stays, and Undo goes back to the one of now."}<//>
  <//>`;
}

export function ForkFrom({ info, version: chosen, close }) {
  const { namespace } = state.route.value;
  const [version] = useState(chosen);
  const fork = async (form) => {
    const made = await namespaceOf(namespace).forkSession(info.id, {
      version,
      new_agent_id: form.get("agent").trim() || undefined,
      include_turns: form.get("turns") === "on",
    });
    state.toast(`Forked as ${plain(made.id)}.`, {
      act: () => state.go(state.to(["n", namespace, "sessions", made.id])),
      act_label: "Open",
      seconds: 20,
    });
  };
  return html`<${Form} title=${`Fork from version ${version}`} button="Fork" icon="fork"
    doing=${fork} shut=${close}>
    <label class="field">Agent that goes on <input name="agent" maxlength="128"
      placeholder=${cut(plain(info.agent_id), 60)} autocomplete="off" spellcheck=${false} /></label>
    <label class="tick"><input type="checkbox" name="turns" /> With what was said up to there</label>
    <p class="quiet">Constant time, nothing is copied. This session stays as it is.</p>
  <//>`;
}
