// What happened to one thing, newest first: each version with what changed, and the way back to it.

import { html, useState } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { Sign } from "./changes.js";
import { Diff, StyleSwitch } from "./diff.js";
import { actorOf, titleOf } from "./graph.js";
import { usePages } from "./listing.js";
import { Button, Chip, Failed, Icon, Moment, Name, Waiting } from "./parts.js";
import * as state from "./state.js";
import { many, number, sizes } from "./text.js";

const ON_PAGE = 50;
const OFFERED = 200;

const idOf = (step) => step.snapshot?.snapshot_id;
const keyOf = (step) => idOf(step) ?? "now";

/** Leads to going back with this one thing ticked. */
export function BringBack({ at, name, words, tone }) {
  const { namespace } = state.route.value;
  return html`<a class=${`button ${tone ?? ""}`} href=${state.to(["n", namespace, "goback", at],
    { only: JSON.stringify(name) })}><${Icon} name="back" /><span>${words}</span></a>`;
}

/** How a history is asked for: names of the store may be empty. */
const asQuery = ({ namespace, key, ...name }) =>
  key === undefined ? name : { ...name, namespace: [namespace], key: [key] };

export function Versions({ name, path, isFolder = false }) {
  const { namespace } = state.route.value;
  const known = state.timeline.value;
  const pages = usePages(
    async (last, stop) => {
      let before = last?.next;
      // A part of a history may be without steps, and yet not the last.
      for (let tries = 0; ; tries += 1) {
        const page = await namespaceOf(namespace).history(
          { ...asQuery(name), limit: ON_PAGE, before },
          stop,
        );
        const next = page.next_before;
        before = next;
        if (page.steps.length || next === null || tries >= 5)
          return {
            items: page.steps.length
              ? page.steps.map((step) => ({ ...step, next, to: page.searched_to }))
              : next === null ? [] : [{ next, to: page.searched_to }],
            hasMore: next !== null,
          };
      }
    },
    {
      deps: [namespace, name],
      turn: `${known?.rows[0]?.snapshot_id} ${known?.size} ${known?.dirty}`,
    },
  );
  const [open, setOpen] = useState(null);
  const steps = pages.items.filter((step) => step.change);
  if (pages.failure && !steps.length)
    return html`<${Failed} failure=${pages.failure} again=${pages.again} />`;
  if (pages.loading && !steps.length)
    return html`<${Waiting} what="Looking what happened to it…" />`;
  const first = steps[0];
  const isConstant = steps.length === 1 && first.change === "added" && !pages.hasMore;
  return html`<div class="versions">
    ${!steps.length && !pages.hasMore && html`<p class="quiet pad">Nothing is known of it.</p>`}
    ${isConstant && first.snapshot && html`<p class="quiet pad">In every snapshot since
      #${first.snapshot.number}, never changed.</p>`}
    <ol class="steps">${steps.map((step, index) => {
      const isOpen = open === keyOf(step);
      return html`<li key=${keyOf(step)} class=${isOpen ? "open" : ""}>
        <button type="button" class="change-line" aria-expanded=${isOpen ? "true" : "false"}
          onClick=${() => setOpen(isOpen ? null : keyOf(step))}><${Sign} word=${step.change} />
          <${Step} step=${step} isNow=${index === 0} isFolder=${isFolder} /></button>
        ${isOpen && html`<${Opened} step=${step} steps=${steps} name=${name} path=${path}
          isFolder=${isFolder} isNow=${index === 0} />`}
      </li>`;
    })}</ol>
    ${pages.failure && html`<${Failed} failure=${pages.failure} again=${pages.again} />`}
    ${pages.hasMore && html`<div class="bar"><span>Looked back to #${pages.items.at(-1).to}.</span>
      <${Button} busy=${pages.loading} onClick=${pages.more}>Look further back<//></div>`}
  </div>`;
}

function Step({ step, isNow, isFolder }) {
  const row = step.snapshot;
  return html`<span class="clip"><span class="title">${row ? html`<span class="dim">#${row.number}
    </span> <${Name} text=${titleOf(row, state.findRow)} most="80" />` : "Not in a snapshot yet"}</span>
    </span>
    ${isNow && step.change !== "removed" && html`<${Chip} tone="live">as it is now<//>`}
    ${step.gone > 0 && html`<${Chip} title="Snapshots between are no longer there: it may be older"
      >${many(step.gone, "snapshot")} gone<//>`}
    <span class="by quiet">${row && html`<${Name} text=${actorOf(row)} most="24" />`}</span><span
    class="size">${isFolder ? many(step.entries, "entry", "entries") : sizes(step)}</span><span
    class="when">${row && html`<${Moment} at=${row.created_at} short />`}</span>`;
}

/** One version: what changed, since the one before or any other, and the way back. */
function Opened({ step, steps, name, path, isFolder, isNow }) {
  const { namespace } = state.route.value;
  const others = steps.filter((each) => each !== step && each.change !== "removed");
  // The first has none before it: what became of it says more.
  const [other, setOther] = useState(step.previous || !others.length ? "" : keyOf(others[0]));
  const id = idOf(step);
  const base = other ? others.find((each) => keyOf(each) === other) : null;
  const from = base ? idOf(base) : step.previous;
  const back = step.change === "removed" || !id ? step.previous : id;
  const change = {
    ...name,
    name: path,
    change: step.change,
    old_bytes: base ? base.new_bytes : step.old_bytes,
    new_bytes: step.new_bytes,
  };
  // The server compares with what is there now in one direction alone.
  const isTurned = Boolean(base) && from === undefined;
  const isBare = !from && !base;
  return html`<div class="opened-step">
    <div class="acts">
      ${back && !(isNow && step.change !== "removed" && id) && html`<${BringBack} at=${back}
        name=${name} tone="primary" words=${back === id ? "Bring back this version…" :
        "Bring back the version before…"} />`}
      ${id && html`<a class="button" href=${state.to(["n", namespace, "timeline"],
        { sel: id })}><span>That moment</span></a>`}
      ${!isFolder && steps.length > 1 && html`<label class="with"><span>Compare with</span><select
        value=${other} onChange=${(event) => setOther(event.currentTarget.value)}>
        ${(step.previous || !other) && html`<option value="">the version before</option>`}
        ${others.slice(0, OFFERED).map((each) => html`<option value=${keyOf(each)}>
          ${each.snapshot ? `#${number(each.snapshot.number)}` : "now"}</option>`)}</select>
        </label>`}
      <span class="gap"></span>${!isFolder && !isBare && html`<${StyleSwitch} />`}
    </div>
    ${isFolder ? html`<p class="quiet">${step.previous ? html`<a href=${state.to(["n", namespace,
      "compare", `${step.previous}...${id ?? "now"}`])}>All that changed then</a>` :
      "It was there from the beginning."}</p>` : isBare ? html`<p class="quiet">
      ${!id ? "It is in no snapshot yet." : step.change === "added" ?
      "It was there from the first snapshot on." : "What was before it is no longer kept."}</p>` : html`<div class="in-place">
      <${Diff} key=${`${from} ${id}`} change=${change} from=${isTurned ? id : from}
      to=${isTurned ? undefined : id} isTurned=${isTurned} isInPlace /></div>`}
  </div>`;
}
