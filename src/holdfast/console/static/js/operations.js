// What the screens for operators have in common.

import { html, useRef, useState } from "../vendor/preact.js";
import { workspaceOf } from "./api.js";
import { Button, Copied, Failed, Icon, Note, Popover, Waiting, useTitle } from "./parts.js";
import * as state from "./state.js";
import { many, plain } from "./text.js";

/** The workspace that whoever is signed in looks after. */
export const here = () => workspaceOf(state.session.value.workspace);

/** One screen: its name, a sentence, what can be done, and what it shows. */
export function Part({ title, words, acts, children }) {
  const heading = useRef(null);
  useTitle(title, heading);
  return html`<div class="page part">
    <header class="part-head"><div><h2 tabIndex="-1" ref=${heading}>${title}</h2>${words && html`<p
      class="quiet">${words}</p>`}</div>${acts && html`<div class="acts">${acts}</div>`}</header>
    ${children}
  </div>`;
}

/** What was answered: a failure beside what is still there, or that it is not there yet. */
export function Answered({ answer, children }) {
  return html`${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.refresh}
    />`}${answer.value ? children(answer.value) : !answer.failure && html`<${Waiting} />`}`;
}

/** A table whose rows stand below each other where there is no room: `rows` are `[key, ...cells]`. */
export const Table = ({ label, head, rows, empty }) =>
  rows.length === 0
    ? html`<p class="quiet nothing">${empty}</p>`
    : html`<div class="table-scroll" tabIndex="0" role="region" aria-label=${label}><table>
      <thead><tr>${head.map((words) => html`<th scope="col">${words || html`<span
        class="hidden">What can be done</span>`}</th>`)}</tr></thead>
      <tbody>${rows.map(([key, ...cells]) => html`<tr key=${key}>${cells.map((cell,
        index) => html`<${index ? "td" : "th"} scope=${index ? undefined : "row"}
        data-title=${head[index]}>${cell}<//>`)}</tr>`)}</tbody></table></div>`;

/** Spans of time that have a name, in seconds. */
export const SPANS = /** @type {[number, string][]} */ ([
  [86400, "day"],
  [3600, "hour"],
  [60, "minute"],
  [1, "second"],
]);

export const spell = (seconds) => {
  const [size, unit] = SPANS.find(([each]) => seconds % each === 0 && seconds >= each) ?? SPANS.at(-1);
  return many(seconds / size, unit);
};

const MOST_NAMES = 500;

/** Which namespace is meant: it stands in the address, so that it can be shared. */
export function useNamespace() {
  const { part, query } = state.route.value;
  const names = (state.overview.value?.namespaces ?? []).map((each) => each.name);
  const chosen = query.get("in") ?? state.session.value?.only ?? names[0] ?? null;
  const choose = (name) =>
    state.go(state.to(["operations", part], { in: name }), { replace: true });
  return { chosen, names, choose };
}

export function ChooseNamespace({ chosen, names, choose }) {
  const listed = names.slice(0, MOST_NAMES);
  if (chosen !== null && !listed.includes(chosen)) listed.unshift(chosen);
  return html`<label class="choose">Namespace <select value=${chosen ?? ""}
    onChange=${(event) => choose(event.currentTarget.value)}>${listed.map((name) => html`<option
    key=${name} value=${name}>${plain(name).slice(0, 80)}</option>`)}</select></label>`;
}

/** A screen about one namespace, which agents' keys open: `Inside` gets its name, and how to choose another. */
export function OfOne({ title, words, what, Inside }) {
  const { chosen, names, choose } = useNamespace();
  if (!state.canWork.value)
    return html`<${Part} title=${title} words=${words}><div class="empty">
      <h3>${what} an agent’s</h3><p>An operator’s key does not open it. Add a runtime key to this session to see to it.</p><p><a
      href=${state.to([], { key: "add" })}>Add a key</a></p></div><//>`;
  if (chosen === null) return html`<${Part} title=${title} words=${words}><${NoNamespaces} /><//>`;
  return html`<${Inside} key=${chosen} namespace=${chosen} title=${title} words=${words}
    choice=${html`<${ChooseNamespace} chosen=${chosen} names=${names} choose=${choose} />`} />`;
}

export const NoNamespaces = () => html`<div class="empty"><h3>Nothing here yet</h3>
  <p>There is no namespace whose snapshots could be looked after.</p></div>`;

/** A secret that is shown this once: it closes by its button alone, not by a click beside it. */
export function Secret({ title, words, secrets, close }) {
  const [isKept, keep] = useState(false);
  return html`<${Popover} title=${title} wide close=${() => isKept && close()}>
    <${Note} tone="warn" icon="key"><strong>It is shown this once.</strong> ${words}<//>
    ${secrets.map(([name, text]) => html`<div class="secret"><span class="quiet">${name}</span>
      <${Copied} text=${text} /></div>`)}
    <label class="tick"><input type="checkbox" checked=${isKept}
      onChange=${(event) => keep(event.currentTarget.checked)} /> I have put it where it belongs</label>
    <div class="ends"><${Button} tone="primary" why=${isKept ? undefined :
      "Tick that you have kept it: nobody can show it again"} onClick=${close}>Done<//></div>
  <//>`;
}

export const Yes = ({ is, yes, no }) =>
  html`<span class=${is ? "fine" : "bad-word"}><${Icon} name=${is ? "check" : "cross"} size="13"
    /> ${is ? yes : no}</span>`;
