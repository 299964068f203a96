// What keys are called that did something.
//
// The timeline says it of its rows. Sessions, tasks and namespaces name a key by its id alone: what
// that is called is known of keys that took a listed snapshot, of one's own, and to operators of all.

import { computed, html, signal, useEffect } from "../vendor/preact.js";
import { workspaceOf } from "./api.js";
import { Name } from "./parts.js";
import * as state from "./state.js";

/** The keys that an operator was told, and in which session: another one has to ask. */
const listed = signal({ session: null, keys: [] });

const names = computed(() => {
  const session = state.session.value;
  const found = new Map();
  for (const row of state.timeline.value?.rows ?? [])
    if (row.actor_name) found.set(row.actor, row.actor_name);
  for (const key of listed.value.session === session ? listed.value.keys : [])
    found.set(key.key_id, key.name);
  for (const key of [session?.runtime, session?.admin]) if (key) found.set(key.key_id, key.key_name);
  return found;
});

async function learn() {
  const session = state.session.value;
  if (!session?.admin || listed.peek().session === session) return;
  listed.value = { session, keys: [] };
  try {
    const { keys } = await workspaceOf(session.workspace).keys();
    if (state.session.value === session) listed.value = { session, keys };
  } catch {
    // Ids say who it was, too; whoever comes next asks again.
    if (listed.peek().session === session) listed.value = { session: null, keys: [] };
  }
}

/** Who did something, by what their key is called. */
export function Actor({ id, most }) {
  useEffect(() => {
    learn();
  }, [state.session.value]);
  return id ? html`<${Name} text=${names.value.get(id) ?? id} most=${most} />` : null;
}
