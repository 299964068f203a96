// The tasks of a namespace, newest first: how each ended, what changed meanwhile, and its undo.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Actor } from "./actors.js";
import { namespaceOf } from "./api.js";
import { Changes } from "./details.js";
import { Tree } from "./jsontree.js";
import { Links, usePages } from "./listing.js";
import {
  Button,
  Chip,
  Copied,
  Failed,
  Moment,
  Name,
  Note,
  Said,
  Waiting,
  useAnswer,
  useKeys,
  useTitle,
} from "./parts.js";
import * as state from "./state.js";
import { plain, since } from "./text.js";

const ON_PAGE = 100;
const TICK_MS = 5000;

const STATES = [
  ["", "All"],
  ["running", "Running"],
  ["completed", "Finished"],
  ["failed", "Failed"],
];
const TONES = {
  running: ["live", "play"],
  completed: ["plain", "check"],
  failed: ["failed", "cross"],
};
const WORDS = { running: "running", completed: "finished", failed: "failed" };

const State = ({ status }) => html`<${Chip} tone=${TONES[status]?.[0]} icon=${TONES[status]?.[1]}>
  ${WORDS[status] ?? status}<//>`;

/** How long it took, or has taken so far. */
const lasted = (task) =>
  since(task.started_at, task.ended_at ? new Date(task.ended_at).getTime() : Date.now());

/** What changes whenever a task begins or ends. */
function taskTurn() {
  const known = state.timeline.value;
  const running = (known?.running ?? []).map((task) => task.task_id).join(" ");
  return `${known?.rows[0]?.snapshot_id} ${running}`;
}

const tasksAt = (namespace, query) => state.to(["n", namespace, "tasks"], query);

export function Tasks() {
  const { namespace, query } = state.route.value;
  const heading = useRef(null);
  const status = STATES.some(([each]) => each === query.get("status")) ? query.get("status") : "";
  const sel = query.get("sel");
  const [, tick] = useState(0);
  useTitle(`${namespace} tasks`, heading);
  const pages = usePages(
    async (last, stop) => {
      const page = await namespaceOf(namespace).tasks(
        { limit: ON_PAGE, status, starting_after: last?.task_id },
        stop,
      );
      return { items: page.tasks, hasMore: page.has_more };
    },
    { deps: [namespace, status], turn: taskTurn() },
  );
  const isRunning = pages.items.some((task) => task.status === "running");
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => tick((turn) => turn + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const chosen = sel ?? (state.isPhone.value ? null : pages.items[0]?.task_id);
  const close = () => state.go(tasksAt(namespace, { status }));
  useKeys((key) => key === "Escape" && Boolean(sel) && (close(), true));
  const draw = (index, mark) => {
    const task = pages.items[index];
    const isHere = task.task_id === chosen;
    return html`<a class=${`change-line ${isHere ? "here" : ""}`} ...${mark} aria-current=${isHere ?
      "true" : undefined} href=${tasksAt(namespace, { status, sel: task.task_id })}><${State}
      status=${task.status} /><span class="clip"><${Name} text=${task.name} /></span><span
      class="size by"><${Actor} id=${task.actor} most="24" /></span><span
      class="when">${lasted(task)}</span><span class="when long"><${Moment} at=${task.started_at}
      short /></span></a>`;
  };
  return html`<div class="walk tasks">
    <h2 class="hidden" tabIndex="-1" ref=${heading}>Tasks</h2>
    <header class="walk-head"><span class="switch" role="group" aria-label="Which tasks">
      ${STATES.map(([value, words]) => html`<a class="button" href=${tasksAt(namespace, { status: value })}
        aria-current=${value === status ? "page" : undefined}><span>${words}</span></a>`)}</span>
      </header>
    <div class=${`halves ${sel ? "opened" : ""}`}>
      <${Links} pages=${pages} count=${pages.items.length} draw=${draw} label="Tasks, newest first"
        here=${pages.items.findIndex((task) => task.task_id === chosen)}
        empty=${html`<${Nothing} status=${status} />`} />
      ${chosen ? html`<${Task} key=${chosen} id=${chosen} close=${sel ? close : null}
        listed=${pages.items.find((task) => task.task_id === chosen)} />` : html`<p
        class="quiet pad unchosen">Choose a task to see what it did.</p>`}
    </div>
  </div>`;
}

const Nothing = ({ status }) =>
  status
    ? html`<p class="quiet pad">There is none.</p>`
    : html`<div class="empty"><h3>No tasks yet</h3>
        <p>Agents begin one with <code>with agent.task("…"):</code></p>
        <p>What was there before it is kept, and it can be taken back alone.</p></div>`;

function Task({ id, listed, close }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    () => listed ?? namespaceOf(namespace).task(id),
    [namespace, id, listed],
  );
  const task = listed ?? answer.value;
  if (!task && answer.failure?.status === 404)
    return html`<div class="empty"><h3>There is no such task</h3></div>`;
  if (!task && answer.failure)
    return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!task) return html`<${Waiting} />`;
  const isBad = task.status === "failed";
  return html`<section class="beside pane" aria-label="Task"><article class="details">
    ${close && state.isPhone.value && html`<${Button} icon="list" onClick=${close}>Tasks<//>`}
    <header>
      <h2><bdi><${Said} text=${task.name} /></bdi> <span class="chips"><${State}
        status=${task.status} /></span></h2>
      <p class="facts"><span><${Moment} at=${task.started_at} long /></span><span>${task.ended_at ?
        "took" : "for"} ${lasted(task)}</span><${Actor} id=${task.actor} most="40" /><${Copied} text=${task.task_id} /></p>
      <${Acts} task=${task} />
    </header>
    ${task.reason && html`<${Note} tone=${isBad ? "bad" : ""} icon=${isBad ? "cross" : "check"}>
      ${isBad && html`<strong>The task failed.</strong> `}<${Said} text=${task.reason} keep=${"\n"} /><//>`}
    ${task.restored_snapshot_id && html`<${Note} icon="back">It was taken back when it ended: <a
      href=${state.to(["n", namespace, "timeline"], { sel: task.restored_snapshot_id })}>the moment
      after that</a>.<//>`}
    ${Object.keys(task.metadata ?? {}).length > 0 && html`<div class="boxed"><${Tree}
      value=${task.metadata} label=${`What is kept with ${plain(task.name)}`} /></div>`}
    <h3>What changed ${task.status === "running" ? "since it began" : "while it ran"}</h3>
    <${Changes} from=${task.before_snapshot_id} to=${task.snapshot_id ?? undefined}
      turn=${task.snapshot_id ? "" : state.timeline.value?.pending?.changes} />
  </article></section>`;
}

function Acts({ task }) {
  const { namespace } = state.route.value;
  const away = state.away();
  const running = task.status === "running" ? "It is still running, and has to end" : undefined;
  return html`<div class="acts">
    <${Button} tone="primary" icon="back" why=${away ?? running} onClick=${() => state.go(
      state.to(["n", namespace, "undo", task.task_id]))}>Undo this task…<//>
    <a class="button" href=${state.to(["n", namespace, "goback", task.before_snapshot_id],
      { before: task.snapshot_id })}><span>Go back before it…</span></a>
    ${task.snapshot_id && html`<a class="button" href=${state.to(["n", namespace, "timeline"],
      { sel: task.snapshot_id })}><span>On the timeline</span></a>`}
  </div>`;
}
