// Two moments beside each other: what changed at the left, how at the right.

import { html, useRef, useState } from "../vendor/preact.js";
import { NOTHING, namespaceOf } from "./api.js";
import { LineText, countsOf, keyOf, linesOf, more, running } from "./changes.js";
import { Runs } from "./details.js";
import { Diff, StyleSwitch, calledIn } from "./diff.js";
import {
  Button,
  Failed,
  Icon,
  Moment,
  Name,
  Path,
  Rows,
  Waiting,
  reveal,
  useAnswer,
  useKeys,
  useTitle,
} from "./parts.js";
import * as state from "./state.js";
import { titleOf } from "./graph.js";
import { number, sizes, tally } from "./text.js";

const LISTED = 5000;

/** Lines of changes to choose from, however many there are. */
export function List({ lines, chosen, choose, fold, tick, height, label }) {
  const at = lines.findIndex((line) => line.key === chosen);
  const box = useRef(null);
  const show = (index) => reveal(box.current, index * height, height);
  const step = (by) => {
    for (
      let next = (at < 0 ? -1 : at) + by;
      next >= 0 && next < lines.length;
      next += Math.sign(by)
    ) {
      if (!lines[next].change) continue;
      choose(lines[next]);
      show(next);
      return true;
    }
    return true;
  };
  useKeys((key) =>
    key === "]" || key === "j" ? step(1) : key === "[" || key === "k" ? step(-1) : false,
  );
  return html`<${Rows} class="scroll changes-list" role="group" aria-label=${label}
    count=${lines.length} height=${height} scroller=${box} keep=${at}
    draw=${(index) => {
      const line = lines[index];
      const depth = line.plane ? "group" : line.isInside ? "inside" : "single";
      const text = html`<${LineText} line=${line} />${line.plane && html`<span class="quiet">
        ${tick ? "" : tally(line.count)} ${more(line)}</span>${tick && html`<span class="size">
        ${number(line.items.length + Math.max(0, line.more))}</span>`}`}`;
      return html`<div class=${`pick ${depth} ${chosen === line.key ? "chosen" : ""}`}>
        ${tick?.(line)}
        ${
          line.plane
            ? html`<span class="change-line">${text}</span>`
            : html`<button type="button" class="change-line" aria-current=${chosen === line.key ?
              "true" : undefined}
          aria-expanded=${line.items ? (line.isOpen ? "true" : "false") : undefined}
            onClick=${() => (line.items ? fold(line.key) : choose(line))}>${text}</button>`
        }
      </div>`;
    }} />`;
}

/** What is shown before anything is chosen: a text that changed says most. */
export const firstOf = (lines) =>
  lines.find((line) => line.change?.plane === "files" && line.change.change === "changed") ??
  lines.find((line) => line.change);

export const lineHeight = () => (state.isPhone.value ? 40 : 30);

/** @returns {[Set<string>, (key: string) => void]} */
export function useFolds() {
  const [folds, setFolds] = useState(() => new Set());
  const fold = (key) => {
    const next = new Set(folds);
    if (!next.delete(key)) next.add(key);
    setFolds(next);
  };
  return [folds, fold];
}

/** The change that is chosen, with its diff. */
export function Beside({ change, from, to, isTurned, close }) {
  if (!change) return html`<p class="quiet pad">Choose a change to see it.</p>`;
  return html`<section class="beside" aria-label="The change">
    <header><span class="mono clip"><${Path} text=${change.name} /></span><span class="quiet">
      ${isTurned ? "" : sizes(change)}</span><span class="gap"></span><${StyleSwitch} />${close &&
      html`<${Button} icon="cross" tone="bare" label="Close" onClick=${close} />`}</header>
    <div class="beside-scroll"><${Diff} key=${`${change.plane} ${change.name}`} change=${change}
      from=${from} to=${to} isTurned=${isTurned} /></div>
  </section>`;
}

export function Compare() {
  const { namespace, id, query } = state.route.value;
  const [old, now] = id.split("...");
  const to = now === "now" ? undefined : now;
  const heading = useRef(null);
  const asked = namespaceOf(namespace);
  useTitle("Compare", heading);
  const ends = useAnswer(
    () =>
      Promise.all([
        old === NOTHING ? NOTHING : asked.snapshot(old),
        to ? asked.snapshot(to) : null,
      ]),
    [namespace, id],
  );
  const answer = useAnswer(
    (stop) => asked.diff({ from: old, to, limit: LISTED, counts: true }, stop),
    [namespace, id],
  );
  const [folds, fold] = useFolds();
  const [picked, choose] = useState(undefined); // Until then, what the address says.
  const named = answer.value?.changes.find((change) => calledIn(change) === query.get("sel"));
  const chosen = picked === undefined ? named && keyOf(named) : picked;
  const back = () => state.go(state.to(["n", namespace, "timeline"], { sel: to ?? "now" }));
  useKeys(
    (key) => key === "Escape" && (state.isPhone.value && chosen ? choose(null) : back(), true),
  );
  const failure = ends.failure ?? answer.failure;
  if (failure)
    return html`<div class="empty"><h2>These cannot be compared</h2><${Failed} failure=${failure}
      again=${() => (ends.again(), answer.again())} /></div>`;
  if (!answer.value || !ends.value) return html`<${Waiting} what="Comparing…" />`;
  const page = answer.value;
  const counts = countsOf(page.changes, page.counts);
  const lines = linesOf(page.changes, counts, folds);
  const line =
    lines.find((each) => each.key === chosen) ??
    // It may be folded away.
    (chosen && picked === undefined
      ? { key: chosen, change: named }
      : state.isPhone.value
        ? null
        : firstOf(lines));
  const runs = running(page.changes);
  return html`<div class="compare">
    <header class="head"><h2 tabIndex="-1" ref=${heading}>What changed</h2><${Ends}
      old=${ends.value[0]} now=${ends.value[1]} />
      ${runs.length > 0 && html`<${Runs} changes=${runs} />`}</header>
    ${
      page.changes.length === 0
        ? html`<div class="empty"><h3>Nothing differs between these two.</h3></div>`
        : html`<div class=${`halves ${chosen ? "opened" : ""}`}>
      <${List} lines=${lines} chosen=${line?.key} choose=${(each) => choose(each.key)} fold=${fold}
        height=${lineHeight()} label="What changed" />
      <${Beside} change=${line?.change} from=${old} to=${to} close=${state.isPhone.value ?
        () => choose(null) : null} />
    </div>`
    }
  </div>`;
}

/** Both ends of a comparison, or of a way back. */
export function Ends({ old, now, words }) {
  const end = (row) =>
    row === NOTHING
      ? html`<span class="end"><strong>Nothing</strong> before the first</span>`
      : row
      ? html`<span class="end"><strong>#${row.number} <${Name} text=${titleOf(row, state.findRow)} most="60"
        /></strong> <${Moment} at=${row.created_at} long /></span>`
      : html`<span class="end"><strong>Now</strong> ${words ?? ""}</span>`;
  return html`<p class="way">${end(old)}<span class="then-end"><span class="arrow"><${Icon}
    name="arrow" /><span class="hidden">to</span></span>${end(now)}</span></p>`;
}
