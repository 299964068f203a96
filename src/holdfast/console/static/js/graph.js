// What a row of the timeline is called, where it hangs, and how that is drawn.
//
// A state's origin is what it was made from: the `target` of a whole restore, undo or redo, which
// it then is equal to; what came before an operation that was taken back alone, if it is equal to
// that; else its `parent`. The first lane is the walk from where the head stands along origins: what
// is true now. Everything else was taken back, and hangs beside it.

import { html } from "../vendor/preact.js";
import { Chip, Icon, Moment, Said } from "./parts.js";
import { wentBack } from "./state.js";
import { PLANES, many, number, plain, since, tally, total } from "./text.js";

const LANES = 3;

const isPart = (row) =>
  ["planes", "paths", "names", "except", "keep"].some((name) => row.detail?.[name] !== undefined);

function originOf(row, find) {
  if (!wentBack(row) || isPart(row) || !row.target) return row.parent;
  const aim = find(row.target);
  if (!aim || aim.root === row.root) return row.target;
  const before = row.kind === "undo" && find(aim.parent);
  return before && before.root === row.root ? aim.parent : row.parent;
}

export const failed = (row) =>
  row.kind === "snapshot" &&
  (row.task
    ? row.task.status === "failed" && !isBefore(row)
    : /^the task failed\b/.test(row.reason ?? ""));

/** Whether a snapshot keeps what was there before a task began. */
export const isBefore = (row) => row.reason === "before a task";

/** Why a task failed, in its own words. */
export function whyFailed(row) {
  const said = (row.reason ?? "").replace(/^the task failed:?\s*/, "");
  const call = /^(\w+)\((['"])([\s\S]*)\2\)$/.exec(said);
  return call ? `${call[1]}: ${call[3]}` : said;
}

/** What a row is called: its label, or what was done. */
export function titleOf(row, find) {
  const aim = row.target && find(row.target);
  const where = aim ? `#${aim.number}` : "an earlier moment";
  if (row.label) return row.label;
  if (row.kind === "restore" && row.detail?.task) {
    const name = row.task?.name ?? find(row.parent)?.label;
    return `Went back to ${where}${name ? ` · “${name}” failed` : ""}`;
  }
  if (row.kind === "restore")
    return isPart(row) ? `Brought back part of ${where}` : `Went back to ${where}`;
  if (row.kind === "undo" && row.detail?.task)
    return `Undid ${row.task?.name ? `“${row.task.name}”` : "a task"}`;
  if (row.kind === "undo")
    return aim && aim.root !== row.root
      ? `Undid #${aim.number}${aim.kind === "undo" ? "" : ` · ${titleOf(aim, find)}`}`
      : "Undid the last change";
  if (row.kind === "redo") return "Redid what was undone";
  if (row.kind === "merge") return `Merged ${row.detail?.merged ?? "a fork"}`;
  if (row.kind === "fork") return `Forked from ${row.detail?.forked_from ?? "another namespace"}`;
  if (row.kind === "import") return "Imported";
  if (row.kind === "safety") return `Kept ${row.reason ?? "before going back"}`;
  return row.reason || "A moment without a name";
}

/** Which shape stands in a row's lane. */
export function shapeOf(row) {
  if (failed(row)) return "cross";
  if (wentBack(row)) return "arrow";
  if (row.kind === "safety") return "square";
  if (row.kind === "fork" || row.kind === "merge" || row.kind === "import") return "diamond";
  return row.task_id ? "filled" : "ring";
}

const SHAPES = {
  cross: "failed task",
  arrow: "went back",
  square: "kept",
  diamond: "branch",
  filled: "task",
  ring: "by hand",
};

/** What a row is, in words for a reader. */
const kindOf = (row) => SHAPES[shapeOf(row)];

/**
 * Lays rows out, newest first: what to draw of each.
 *
 * A safety snapshot is folded into the row that made it, unless `all` shall be there. Lanes that
 * end in a row are its `joins`, those that go by it are `past`, and those below it are `open`.
 */
export function layOut(rows, { position, all = false, isWhole = false }) {
  const byId = new Map(rows.map((row) => [row.snapshot_id, row]));
  const find = (id) => byId.get(id);
  const kept = new Map();
  const folded = new Set();
  for (const row of rows) {
    const before = wentBack(row) && find(row.parent);
    if (before && before.kind === "safety") {
      kept.set(row.snapshot_id, before);
      folded.add(before.snapshot_id);
    }
  }
  const truth = new Set();
  let from = position ?? rows[0]?.snapshot_id;
  while (from && !truth.has(from)) {
    truth.add(from);
    const row = find(from);
    if (!row) break;
    from = originOf(row, find);
  }
  const shown = rows.filter((row) => all || !folded.has(row.snapshot_id));
  const isThere = new Set(shown.map((row) => row.snapshot_id));
  // Where something hangs that was folded away, what hangs there hangs on what that was made from.
  const hangsOn = (row) => {
    let id = originOf(row, find);
    for (let steps = 0; id && !isThere.has(id) && find(id) && steps < rows.length; steps += 1) {
      id = originOf(find(id), find);
    }
    return id;
  };
  const order = new Map(shown.map((row, index) => [row.snapshot_id, index]));
  const last = shown.findLastIndex((row) => truth.has(row.snapshot_id));
  const first = shown.findIndex((row) => truth.has(row.snapshot_id));
  const lanes = new Array(LANES).fill(null); // What each lane beside the first waits for.
  return shown.map((row, index) => {
    const isTrue = truth.has(row.snapshot_id);
    const ending = [];
    for (let at = 1; at < LANES; at += 1) {
      if (lanes[at] !== row.snapshot_id) continue;
      ending.push(at);
      lanes[at] = null;
    }
    let lane = 0;
    if (!isTrue)
      lane = ending[0] ?? (lanes.indexOf(null, 1) > 0 ? lanes.indexOf(null, 1) : LANES - 1);
    const past = [1, 2].filter((at) => lanes[at] !== null && at !== lane);
    const below = hangsOn(row);
    const hangs = !isTrue && order.get(below) > index;
    if (!isTrue) lanes[lane] = hangs ? below : null;
    const goesOn = index < last || (index === last && !isWhole);
    return {
      row,
      lane,
      isTrue,
      shape: shapeOf(row),
      kept: kept.get(row.snapshot_id) ?? null,
      joins: ending,
      past,
      hangs,
      open: [1, 2].filter((at) => lanes[at] !== null),
      // The first lane: dashed from now to where the head stands, and then to the end.
      above: index <= first ? "dashed" : index <= last ? "solid" : null,
      below: index < first ? "dashed" : goesOn && first >= 0 ? "solid" : null,
    };
  });
}

// Drawing

const X = (lane) => 16 + lane * 16;

function Node({ shape, lane, y, tone }) {
  const x = X(lane);
  if (shape === "filled") return html`<circle class=${tone} cx=${x} cy=${y} r="5.500" />`;
  if (shape === "ring") return html`<circle class=${`${tone} hollow`} cx=${x} cy=${y} r="4.500" />`;
  if (shape === "square")
    return html`<rect class=${`${tone} hollow`} x=${x - 4.5} y=${y - 4.5} width="9" height="9" />`;
  if (shape === "diamond")
    return html`<g class=${`${tone} hollow`}><path
      d=${`M${x} ${y - 6.5}l6.500 6.500-6.500 6.500-6.500-6.500z`} /><circle class="dot" cx=${x}
      cy=${y} r="1.300" /></g>`;
  if (shape === "cross")
    return html`<g class="failed hollow"><circle cx=${x} cy=${y} r="6.500" /><path
      d=${`M${x - 2.2} ${y - 2.2}l4.400 4.400m0-4.400l-4.400 4.400`} /></g>`;
  return html`<g class="went hollow"><circle cx=${x} cy=${y} r="6.500" /><path
    d=${`M${x - 0.6} ${y - 3}l-2.400 2.400 2.400 2.400M${x - 3} ${y - 0.6}h3.800a1.900 1.900 0 0 1 0 3.800h-1.200`}
    /></g>`;
}

/** One row's part of the graph. */
export function Lanes({ entry, height }) {
  const middle = height / 2;
  const beside = (at, from, until) =>
    html`<path class="beside" d=${`M${X(at)} ${from}V${until}`} />`;
  return html`<svg class="lanes" width="56" height=${height} viewBox=${`0 0 56 ${height}`}
    aria-hidden="true">
    ${entry.above && html`<path class=${`spine ${entry.above}`} d=${`M${X(0)} 0V${middle}`} />`}
    ${entry.below && html`<path class=${`spine ${entry.below}`} d=${`M${X(0)} ${middle}V${height}`}
      />`}
    ${entry.past?.map((at) => beside(at, 0, height))}
    ${entry.joins?.map((at) => (at === entry.lane ? beside(at, 0, middle) : html`<path
      class="beside"
      d=${`M${X(at)} 0C${X(at)} ${middle * 0.7} ${X(entry.lane)} ${middle * 0.4} ${X(entry.lane)} ${middle}`}
      />`))}
    ${entry.hangs && beside(entry.lane, middle, height)}
    ${entry.shape && html`<${Node} shape=${entry.shape} lane=${entry.lane} y=${middle}
      tone=${entry.isTrue ? "true" : "beside"} />`}
  </svg>`;
}

export const Chips = ({ entry, row }) => html`
  ${failed(row) && html`<${Chip} tone="failed">failed<//>`}
  ${row.task?.status === "running" && !isBefore(row) && html`<${Chip} tone="live"
    icon="play">running<//>`}
  ${entry && isTakenBack(entry) && html`<${Chip}>taken back<//>`}
  ${entry?.kept && html`<${Chip}
    title="What was there before is kept as this snapshot">kept #${entry.kept.number}<//>`}
  ${row.partial && html`<${Chip} tone="warn" icon="warn"
    title="Something could not be captured">partial<//>`}
  ${row.forks?.length > 0 && html`<${Chip} icon="fork" title=${row.forks.map(plain).join(", ")}>
    ${many(row.forks.length, "fork")}<//>`}
  ${row.pinned && html`<span class="pinned" title="Pinned: kept until it is unpinned"><${Icon}
    name="pin" size="14" /><span class="hidden">pinned</span></span>`}`;

const isTakenBack = (entry) => !entry.isTrue && entry.shape !== "arrow" && entry.shape !== "square";

const Counts = ({ changes }) =>
  html`<span class="counts">${PLANES.map(([plane, title, icon]) => {
    const count = total(changes?.[plane]);
    return (
      count > 0 &&
      html`<span title=${`${title}: ${tally(changes[plane])}`}><${Icon} name=${icon} size="13" />
        <span class="hidden">${title} </span>${number(count)}</span>`
    );
  })}</span>`;

export const actorOf = (row) => row.actor_name ?? row.actor ?? "";

export function Row({ entry, find, height, isChosen, isNew, place, choose, open }) {
  const { row } = entry;
  const isDim =
    !entry.isTrue || entry.shape === "arrow" || entry.shape === "diamond" || isBefore(row);
  return html`<div id=${`row-${row.snapshot_id}`} role="option" aria-selected=${isChosen ? "true" :
    "false"}
    aria-posinset=${place} aria-setsize="-1"
    class=${`row ${isDim ? "dimmed" : ""} ${isChosen ? "chosen" : ""} ${isNew ? "fresh" : ""}`}
    onClick=${choose} onDblClick=${open}>
    <${Lanes} entry=${entry} height=${height} />
    <span class="hidden">${kindOf(row)}, #${row.number}: </span>
    <span class="what"><span class="title"><bdi><${Said} text=${titleOf(row, find)} /></bdi></span>
      <span class="chips"><${Chips} entry=${entry} row=${row} /></span></span>
    <span class="actor" title=${plain(actorOf(row))}><bdi><${Said} text=${actorOf(row)} /></bdi>
      </span>
    <${Counts} changes=${row.changes} />
    <span class="when"><span class="hidden">${entry.day} </span><${Moment} at=${row.created_at} />
      </span>
  </div>`;
}

export const pendingWords = ({ pending, dirty, exists, loading }) =>
  exists === false
    ? "nothing was written here yet"
    : loading && exists === undefined
      ? ""
      : pending
        ? `${number(pending.count)}${pending.more ? "+" : ""} ${pending.count === 1 &&
          !pending.more ? "change" : "changes"} not in a snapshot yet`
        : dirty
          ? "changes not in a snapshot yet"
          : "all of it is kept";

export function NowRow({ known, height, isChosen, choose }) {
  const task = known.running[0];
  const more = known.running.length - 1;
  return html`<div id="row-now" role="option" aria-selected=${isChosen ? "true" : "false"}
    aria-posinset="1" aria-setsize="-1"
    class=${`row now ${isChosen ? "chosen" : ""}`} onClick=${choose}>
    <svg class="lanes" width="56" height=${height} viewBox=${`0 0 56 ${height}`} aria-hidden="true">
      ${known.rows.length > 0 && html`<path class="spine dashed"
        d=${`M${X(0)} ${height / 2 + 6}V${height}`} />`}
      <circle class="true hollow dashed" cx=${X(0)} cy=${height / 2} r="5.500" />
    </svg>
    <span class="what"><span class="title">Now</span>
      ${task && html`<${Chip} tone="live" icon="play"
        title=${`Running for ${since(task.started_at)}`}><bdi><${Said} text=${task.name} /></bdi>
        ${more > 0 ? ` and ${more} more` : ""}<//>`}
      <span class="quiet">${pendingWords(known)}</span></span>
    ${known.pending && html`<span class="counts"><span><${Icon} name="file" size="13" />
      ${number(known.pending.count)}${known.pending.more ? "+" : ""}</span></span>`}
  </div>`;
}
