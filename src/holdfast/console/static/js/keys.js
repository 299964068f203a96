// Keys: who may do what, and since when nobody has.

import { html, useState } from "../vendor/preact.js";
import { Form } from "./acts.js";
import { Answered, Part, Secret, Table, here } from "./operations.js";
import { Button, Chip, Moment, Name, Note, useAnswer } from "./parts.js";
import { SCOPES, scopeOf } from "./scopes.js";
import * as state from "./state.js";
import { many, number, plain } from "./text.js";

const LOOK_MS = 15000;
const DAY_S = 86400;

export function Keys() {
  const [asks, setAsks] = useState(false);
  const [leaving, setLeaving] = useState(null);
  const [made, setMade] = useState(null);
  const answer = useAnswer((stop) => here().keys(stop), [], { everyMs: LOOK_MS });
  const revoke = async () => {
    await here().revokeKey(leaving.key_id);
    state.toast(`${plain(leaving.name)} opens nothing any more.`);
    answer.refresh();
  };
  return html`<${Part} title="Keys" words="A key for each person and each agent: then history tells them apart."
    acts=${html`<${Button} tone="primary" icon="key" why=${state.away()}
      onClick=${() => setAsks(true)}>New key…<//>`}>
    <${Answered} answer=${answer}>${({ keys }) => html`<${Table} label="Keys"
      head=${["Name", "For", "Namespace", "Last used", "Requests", "Expires", ""]}
      empty="There is no key."
      rows=${keys.map((key) => [key.key_id, html`<strong><${Name} text=${key.name} most="60" />
        </strong>${isOwn(key) && html` <${Chip} tone="live">yours<//>`}<div class="mono dim">
        ${key.prefix}…</div>`, html`<span title=${scopeOf(key.scope).words}>${scopeOf(key.scope).title}
        </span>`, key.namespace === null ? html`<span class="quiet">${key.scope === "admin" ?
        "—" : "all"}</span>` : html`<${Name} text=${key.namespace} most="40" />`,
        key.last_used_at === null ? html`<span class="dim">never</span>` : html`<${Moment}
        at=${key.last_used_at} short />`, number(key.requests), key.expires_at === null ? html`<span
        class="dim">never</span>` : html`<${Moment} at=${key.expires_at} short />`, html`<${Button}
        icon="trash" why=${state.away()} label=${`Revoke ${plain(key.name)}`}
        onClick=${() => setLeaving(key)}>Revoke…<//>`])} />`}<//>
    ${asks && html`<${NewKey} close=${() => setAsks(false)} made=${(key) => (setMade(key),
      answer.refresh())} />`}
    ${leaving && html`<${Form} title=${`Revoke ${plain(leaving.name)}`} button="Revoke" icon="trash"
      tone="danger" doing=${revoke} shut=${() => setLeaving(null)}>
      <p>Whatever uses <span class="mono">${leaving.prefix}…</span> is refused from then on, and every
        session in a browser that stands on it ends.</p>
      <p class="quiet">${leaving.last_used_at === null ? "It was never used." : html`Last used <${Moment}
        at=${leaving.last_used_at} short />, ${many(leaving.requests, "request")} so far.`}</p>
      ${isOwn(leaving) && html`<${Note} tone="warn" icon="warn"><strong>You are signed in with it.</strong>${" "}
        This session loses it.<//>`}<//>`}
    ${made && html`<${Secret} title=${`The key ${plain(made.name)}`}
      words="Nobody can look it up later: if it is lost, revoke it and make another."
      secrets=${[["API key", made.api_key]]} close=${() => setMade(null)} />`}
  <//>`;
}

const isOwn = (key) => {
  const { runtime, admin } = state.session.value ?? {};
  return [runtime?.key_id, admin?.key_id].includes(key.key_id);
};

function NewKey({ close, made }) {
  const [scope, setScope] = useState("workspace");
  const make = async (form) => {
    const days = Number(form.get("days"));
    made(await here().addKey({
      name: form.get("name").trim(),
      admin: scope === "admin",
      add_only: scope === "add-only",
      namespace: (scope !== "admin" && form.get("namespace").trim()) || undefined,
      expires_in_seconds: days > 0 ? Math.round(days * DAY_S) : undefined,
    }));
  };
  return html`<${Form} title="New key" button="Make it" icon="key" doing=${make} shut=${close}>
    <label class="field">Name <input name="name" required maxlength="128" autocomplete="off"
      placeholder="Whose it is" /></label>
    <label class="field">For <select name="scope" value=${scope}
      onChange=${(event) => setScope(event.currentTarget.value)}>${SCOPES.map(([each,
      title]) => html`<option value=${each}>${title}</option>`)}</select></label>
    <p class="quiet">${scopeOf(scope).words}</p>
    ${scope !== "admin" && html`<label class="field">Only this namespace <input name="namespace"
      maxlength="128" placeholder="All" autocomplete="off" spellcheck=${false} /></label>`}
    <label class="field">Days until it expires <input name="days" type="number" min="0" max="3650"
      placeholder="Never" /></label>
  <//>`;
}
