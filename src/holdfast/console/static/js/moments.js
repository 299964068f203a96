// Which moment is looked at: now, or a snapshot that one chooses by number, words or time.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { titleOf } from "./graph.js";
import { Button, Failed, Icon, Moment, Name, Popover, Waiting, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { plain } from "./text.js";

const LISTED = 50;


/** The snapshot of an id: of those that are listed, or asked for. */
function useMoment(at) {
  const { namespace } = state.route.value;
  const listed = at && state.findRow(at);
  const answer = useAnswer(
    () => (at && !listed ? namespaceOf(namespace).snapshot(at) : null),
    [namespace, at, Boolean(listed)],
  );
  return { row: listed ?? answer.value, failure: answer.failure };
}

const wordsOf = (row) => `#${row.number} ${titleOf(row, state.findRow)}`;

/** Opens the list of moments, and says which one is looked at. */
export function At({ at, choose }) {
  const [isOpen, open] = useState(false);
  const { row } = useMoment(at);
  return html`<${Button} class="at" aria-haspopup="dialog" onClick=${() => open(true)}
    title=${row ? plain(wordsOf(row)) : "Look at another moment"}><span class="quiet">At </span>
    ${at ? (row ? html`#${row.number}` : "…") : "now"}<${Icon} name="chevron" size="12" /><//>
    ${isOpen && html`<${Choose} at=${at} close=${() => open(false)}
      choose=${(id) => (open(false), choose(id))} />`}`;
}

/** What is asked for by what was typed: a number is that of a snapshot. */
const sought = (words) => {
  const number = /^#?(\d{1,15})$/.exec(words)?.[1];
  return number ? { before: Number(number) + 1, limit: 5 } : { q: words, limit: LISTED };
};

function Choose({ at, choose, close }) {
  const { namespace } = state.route.value;
  const [words, setWords] = useState("");
  const typed = useRef(null);
  useEffect(() => () => clearTimeout(typed.current), []);
  const answer = useAnswer(
    (stop) =>
      words
        ? namespaceOf(namespace).timeline(sought(words), stop).then((page) => page.snapshots)
        : (state.timeline.value?.rows ?? []).slice(0, LISTED),
    [namespace, words],
  );
  const item = (id, content, when) => html`<li key=${id ?? "now"}><button type="button" class="item"
    aria-current=${(at ?? null) === id ? "true" : undefined} onClick=${() => choose(id)}>${content}
    ${when}</button></li>`;
  return html`<${Popover} title="Look at another moment" close=${close}>
    <label class="box"><${Icon} name="search" /><span class="hidden">Number or words</span><input
      type="search" placeholder="Number or words" maxlength="200" autocomplete="off"
      onInput=${({ currentTarget: { value } }) => {
        clearTimeout(typed.current);
        typed.current = setTimeout(() => setWords(value.trim()), 250);
      }} /></label>
    ${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.again} />`}
    <ul class="menu-list moments">${!words && item(null, html`<strong>Now</strong>`)}
      ${answer.value?.map((row) => item(row.snapshot_id, html`<span
        class="dim">#${row.number}</span> <span class="clip"><${Name} text=${titleOf(row, state.findRow)} most="60" /></span>`,
        html`<span class="quiet"><${Moment} at=${row.created_at} short /></span>`))}</ul>
    ${!answer.value && !answer.failure && html`<${Waiting} />`}
    ${answer.value?.length === 0 && words && html`<p class="quiet">None was found.</p>`}
  <//>`;
}

/** Says that what is shown is not how it is now. */
export function Then({ at, choose }) {
  const { namespace } = state.route.value;
  const { row, failure } = useMoment(at);
  if (failure)
    return html`<div class="bar bad" role="alert"><span>There is no such moment.</span><${Button}
      onClick=${() => choose(null)}>Show now<//></div>`;
  return html`<div class="bar then-bar" role="status"><span class="clip">As it was at ${row ?
    html`<a href=${state.to(["n", namespace, "timeline"], { sel: at })}>#${row.number} <${Name}
    text=${titleOf(row, state.findRow)} most="60" /></a>, <${Moment} at=${row.created_at} long />` : "…"}
    </span><${Button} onClick=${() => choose(null)}>Show now<//></div>`;
}
