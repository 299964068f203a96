// All namespaces at a glance, and the way into one by its name.

import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { Actor } from "./actors.js";
import {
  Button,
  Chip,
  Copied,
  Failed,
  Icon,
  Moment,
  Name,
  Said,
  Waiting,
  useTitle,
} from "./parts.js";
import { KeyForm } from "./signin.js";
import * as state from "./state.js";
import { bytes, many, number } from "./text.js";

const SHOWN = 500;
const LEVELS = { elevated: "warn", warning: "warn", critical: "failed" };

export function Namespaces() {
  const heading = useRef(null);
  const [filter, setFilter] = useState("");
  const [order, setOrder] = useState(/** @type {[string, number]} */ (["name", 1]));
  useTitle("Namespaces", heading);
  const known = state.overview.value;
  const { query } = state.route.value;
  const rows = useMemo(
    () => arranged(known?.namespaces ?? [], filter, order),
    [known, filter, order],
  );
  const isAdding = query.get("key") === "add";
  return html`<div class="page namespaces">
    <h2 class="hidden" tabIndex="-1" ref=${heading}>Namespaces</h2>
    ${isAdding && html`<section class="card-inline"><h3>Add a key to this session</h3><${KeyForm}
      button="Add" done=${() => state.go(state.to())} /></section>`}
    ${
      !state.isOperator.value
        ? html`<${ByName} />`
        : html`
      ${known?.failure && html`<${Failed} failure=${known.failure} again=${state.loadOverview} />`}
      ${
        !known
          ? html`<${Waiting} />`
          : !known.namespaces.length
            ? html`<${Nothing} />`
            : html`
        <div class="search"><label class="box"><${Icon} name="search" /><span
          class="hidden">Filter namespaces</span><input type="search" placeholder="Filter by name"
          value=${filter} onInput=${(event) => setFilter(event.currentTarget.value)} /></label>
          <span class="quiet">${many(rows.length, "namespace")}</span></div>
        <${Table} rows=${rows.slice(0, SHOWN)} order=${order} setOrder=${setOrder} />
        ${rows.length > SHOWN && html`<p
          class="quiet pad">The first ${number(SHOWN)} of ${number(rows.length)}: filter by name to see others.</p>`}`
      }`
    }
  </div>`;
}

/** @type {[string, string, (row: any) => any][]} */
const COLUMNS = [
  ["name", "Name", (row) => row.name],
  ["now", "Now", (row) => (row.running_tasks ?? 0) * 2 + (row.dirty ? 1 : 0)],
  ["snapshots", "Snapshots", (row) => row.snapshots ?? -1],
  ["latest", "Last moment", (row) => row.latest?.created_at ?? ""],
  ["entries", "Holds", (row) => row.size_bytes ?? -1],
  ["rate", "Taken back", (row) => row.rate ?? -1],
];

const WHAT = {
  rate: "How often sessions were rolled back in the last 24 hours, for each that was active",
};

function arranged(namespaces, filter, [by, way]) {
  const sought = filter.trim().toLowerCase();
  const kept = namespaces.filter((each) => each.name.toLowerCase().includes(sought));
  if (by === "name" && way > 0) return state.asTree(kept);
  const value = COLUMNS.find(([name]) => name === by)[2];
  const compared = (one, other) =>
    value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0;
  return [...kept]
    .sort((one, other) => way * compared(one, other))
    .map((each) => ({ ...each, depth: 0 }));
}

function Table({ rows, order, setOrder }) {
  const [by, way] = order;
  const has = (test) => rows.some(test);
  const columns = COLUMNS.filter(
    ([name]) =>
      ({
        name: true,
        now: has((row) => row.dirty !== undefined),
        snapshots: has((row) => row.snapshots !== undefined),
        latest: has((row) => row.latest),
        entries: has((row) => row.size_bytes !== undefined),
        rate: has((row) => row.rate !== undefined),
      })[name],
  );
  return html`<div class="table-scroll" tabIndex="0" role="region" aria-label="Namespaces"><table>
    <thead><tr>${columns.map(([name, title]) => html`<th scope="col" title=${WHAT[name]}
      aria-sort=${by === name ? (way > 0 ? "ascending" : "descending") : undefined}><button
      type="button" onClick=${() => setOrder([name, by === name ? -way : name === "name" ? 1 :
      -1])}>${title}${by === name ? html`<span aria-hidden="true"> ${way > 0 ? "↑" : "↓"}</span>` :
      ""}</button></th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}>${columns.map(([name,
      title]) => html`<${name === "name" ? "th" : "td"} scope=${name === "name" ? "row" :
      undefined} data-title=${title}><${Cell} row=${row} name=${name} /><//>`)}</tr>`)}</tbody>
  </table></div>`;
}

function Cell({ row, name }) {
  const tasks = row.running_tasks ?? 0;
  if (name === "name")
    return html`<a class=${`depth-${row.depth}`} href=${state.to(["n", row.name, "timeline"])}>
      <${Name} text=${row.name} most="60" /></a>${row.forked_from && html` <span
      class="dim">from <${Name} text=${row.forked_from} most="40" /></span>`}`;
  if (name === "now")
    return html`<span class="cell">${tasks > 0 && html`<${Chip} tone="live" icon="play">
      ${row.running ? html`<bdi><${Said} text=${row.running.name} /></bdi>${tasks > 1 ?
      ` and ${tasks - 1} more` : ""}` : `${many(tasks, "task")} running`}<//>`}<span class="quiet"
      title=${row.dirty ? "There are changes that are in no snapshot yet" : undefined}>${row.dirty ?
      "not all kept" : "all kept"}</span></span>`;
  if (name === "snapshots") return number(row.snapshots ?? 0);
  if (name === "latest")
    return (
      row.latest &&
      html`<span class="cell"><${Moment} at=${row.latest.created_at} short /><span
        class="clip quiet"><bdi><${Said} text=${row.latest.label ?? row.latest.kind} /></bdi></span>
        <span class="clip dim"><${Actor} id=${row.latest.actor} most="40" /></span></span>`
    );
  if (name === "entries")
    return html`${number(row.entries ?? 0)} <span class="dim">${bytes(row.size_bytes)}</span>`;
  return html`${(row.rate * 100).toFixed(1)} % ${row.level !== "healthy" && html`<${Chip}
    tone=${LEVELS[row.level] ?? "plain"}>${row.level}<//>`}`;
}

function ByName() {
  const [name, setName] = useState("");
  const only = state.session.value?.only;
  const open = (event) => {
    event.preventDefault();
    if (name.trim()) state.go(state.to(["n", name.trim(), "timeline"]));
  };
  return html`<section class="card-inline">
    ${
      only
        ? html`<h3>This key opens one namespace</h3><p><a class="button primary"
          href=${state.to(["n", only, "timeline"])}><span><${Name} text=${only} /></span></a></p>`
        : html`
    <h3>Open a namespace by name</h3>
    <form class="inline" onSubmit=${open}><label class="hidden" for="open-name">Name</label><input
      id="open-name" value=${name} maxlength="128" placeholder="alice" autocomplete="off"
      spellcheck=${false} onInput=${(event) => setName(event.currentTarget.value)} /><${Button}
      type="submit" tone="primary">Open<//></form>`
    }
    <p class="quiet">A key for agents cannot list namespaces. <a href=${state.to([],
      { key: "add" })}>Sign in with an operator key to see all</a>.</p>
  </section>`;
}

/** What to do next: a directory is on this machine, an agent may be on any. */
function Nothing() {
  const { href, hostname } = new URL("../", document.baseURI);
  const isHere = hostname === "127.0.0.1" || /(^|\.)localhost$/.test(hostname);
  return html`<div class="empty"><h3>Nothing here yet</h3>
    <p>${isHere ? "Give a directory an undo button, or let an agent write: both appear here by themselves." :
      "An agent appears here by itself when it writes."}</p>
    ${isHere && html`<${Lines} title="A directory" lines=${["cd my-project", "holdfast init"]} />`}
    <${Lines} title="An agent, with a runtime key that is made under Keys" lines=${[
      `export HOLDFAST_URL=${href.replace(/\/$/, "")}`,
      "export HOLDFAST_API_KEY=…",
      `python -c 'import holdfast; holdfast.Client(namespace="alice").files.write("plan.md", "1. begin")'`,
    ]} />
    ${isHere && html`<${Lines} title="Only looking: two made-up weeks"
      lines=${["holdfast demo --serve"]} />`}</div>`;
}

const Lines = ({ title, lines }) => html`<section><h4>${title}</h4><div class="lines">
  ${lines.map((line) => html`<div><code>${line}</code><${Copied} text=${line}>copy<//></div>`)}
  </div></section>`;
