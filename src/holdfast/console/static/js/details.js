// One moment: what it is, what changed, what can be done with it.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import * as acts from "./acts.js";
import { NOTHING, namespaceOf } from "./api.js";
import { Entry, LineText, countsOf, linesOf, more, running } from "./changes.js";
import { Diff, StyleSwitch } from "./diff.js";
import { Chips, actorOf, failed, pendingWords, titleOf, whyFailed } from "./graph.js";
import {
  Button,
  Copied,
  Failed,
  Icon,
  Moment,
  Name,
  Note,
  Path,
  Popover,
  Said,
  Tabs,
  Waiting,
  useAnswer,
  useKeys,
  useTitle,
} from "./parts.js";
import { filesAt, placeOf } from "./places.js";
import * as state from "./state.js";
import { bytes, exact, many, number, since, tally, total } from "./text.js";

const LISTED = 1000;
const IN_PANE = 120;
const MOST_OPENED = 200000;
const STAYS_MS = 300;

const NOW = "now";

/** In the pane beside the timeline: a snapshot, or what is there now. */
export const Details = ({ what, find, entry }) =>
  what === NOW ? html`<${Now} />` : html`<${Moments} row=${what} find=${find} entry=${entry} />`;

function Now() {
  const known = state.timeline.value;
  const { namespace } = state.route.value;
  const at = known.rows.find((row) => row.snapshot_id === known.position);
  const away = state.away();
  return html`<article class="details">
    <header><h2>Now</h2><p class="facts"><span>${pendingWords(known)}</span>${at &&
      html`<span>after #${at.number}</span>`}</p>
      <div class="acts">
        <${Button} tone="primary" icon="camera" why=${away}
          onClick=${() => acts.ask("keep")}>Keep this moment<//>
        ${known.dirty && at && html`<${Button} icon="back" onClick=${() => state.go(state.to(["n",
          namespace, "goback", at.snapshot_id]))}>Go back to #${at.number}…<//>`}
      </div></header>
    ${known.running.map((task) => html`<${Note} tone="live" icon="play">
      <strong>A task is running:</strong> “<bdi><${Said} text=${task.name} />
      </bdi>”, for ${since(task.started_at)}<//>`)}
    ${known.dirty ? html`<${Changes} from=${known.position ?? undefined}
      turn=${known.pending?.changes} />` : html`<p class="quiet">${known.exists === false ?
      "Nothing was ever written to this namespace. It begins with the first write." :
      "There is nothing that a snapshot does not hold."}</p>`}
  </article>`;
}

function Moments({ row, find, entry, isPage }) {
  const [tab, setTab] = useState("changes");
  const { namespace } = state.route.value;
  const heading = useRef(null);
  const title = titleOf(row, find);
  useEffect(() => {
    if (isPage) heading.current?.focus({ preventScroll: true });
  }, []);
  const count = Object.values(row.changes ?? {}).reduce((sum, each) => sum + total(each), 0);
  const tabs = [
    ["changes", "What changed", row.changes ? count : null],
    ["files", "Files then", null],
    ["sessions", "Sessions then", null],
    ["about", "About", null],
  ];
  return html`<article class="details">
    <header>
      <h2 tabIndex="-1" ref=${heading}><bdi><${Said} text=${title} /></bdi> <span class="chips">
        <${Chips} entry=${entry} row=${row} /></span></h2>
      <p class="facts"><span>#${row.number}</span><${Moment} at=${row.created_at} long /><${Name}
        text=${actorOf(row)} most="40" />${row.task_id && html`<${Copied} text=${row.task_id} />`}
        <${Copied} text=${row.snapshot_id} /></p>
      <${Acts} row=${row} isPage=${isPage} namespace=${namespace} />
    </header>
    ${failed(row) && html`<${Note} tone="bad" icon="cross">
      <strong>The task failed.</strong> <${Said} text=${whyFailed(row)} keep=${"\n"} /><//>`}
    ${!failed(row) && row.reason && !ORDINARY.test(row.reason) && html`<${Note} icon="check">
      <${Said} text=${row.reason} keep=${"\n"} /><//>`}
    ${row.partial && html`<${Note} tone="warn" icon="warn">
      <strong>It is not whole.</strong> Something could not be captured: About says what.<//>`}
    <${Tabs} label="About this moment" name="tab" tabs=${tabs} tab=${tab} choose=${setTab} />
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${tab}`} class="panel">
      ${tab === "changes" && !row.parent && html`<p class="quiet">${row.kind === "fork" ?
        "It began with all that was there." : "The first that was kept: all of it was new."}
        ${" "}${many(row.entries, "entry", "entries")}, ${bytes(row.size_bytes)}.</p>`}
      ${tab === "changes" && (row.parent || row.kind !== "fork") && html`<${Changes}
        from=${row.parent ?? NOTHING} to=${row.snapshot_id} />`}
      ${tab === "files" && html`<${FilesThen} at=${row.snapshot_id} />`}
      ${tab === "sessions" && html`<${SessionsThen} at=${row.snapshot_id} />`}
      ${tab === "about" && html`<${About} row=${row} find=${find} />`}
    </div>
  </article>`;
}

const ORDINARY =
  /^(the task was completed|before a task|merged .*|forked from .*|task \S+ failed)$/;

function Acts({ row, isPage, namespace }) {
  const [menu, setMenu] = useState(false);
  const why = state.away();
  const marked = state.marked.value;
  const isMarked = marked?.id === row.snapshot_id && marked?.namespace === namespace;
  const close = () => setMenu(false);
  const item = (icon, words, doing) =>
    html`<li><button type="button" class="item" onClick=${() => (close(), doing())}><${Icon}
      name=${icon} />${words}</button></li>`;
  return html`<div class="acts">
    <${Button} tone="primary" icon="back" kbd="R" why=${why} onClick=${() => acts.goBack(row)}>
      ${acts.isBad(row) ? "Go back before this…" : "Go back to here…"}<//>
    <${Button} icon="compare" aria-pressed=${isMarked ? "true" : undefined}
      onClick=${() => acts.compare(row)}>${marked && !isMarked && marked.namespace === namespace ?
      `Compare with #${marked.number}` : "Compare"}<//>
    <${Button} icon="fork" why=${why} onClick=${() => acts.ask("fork", { row })}>Fork<//>
    <${Button} icon="pin" label=${row.pinned ? "Unpin" : "Pin"} aria-pressed=${row.pinned ?
      "true" : "false"} why=${why} onClick=${() => acts.pin(row)} />
    <${Button} icon="dots" label="More" aria-haspopup="dialog" onClick=${() => setMenu(true)} />
    ${
      menu &&
      html`<${Popover} title=${`#${row.number}`} close=${close}><ul class="menu-list">
      ${acts.isBad(row) && item("back", "Go back to here…", () => state.go(state.to(["n",
        namespace, "goback", row.snapshot_id])))}
      ${!isPage && item("file", "Open as a page", () => state.go(state.to(["n", namespace,
        "snapshot", row.snapshot_id])))}
      ${item("compare", "Compare with now", () => state.go(state.to(["n", namespace, "compare",
        `${row.snapshot_id}...now`])))}
      ${item("file", "Its files", () => state.go(filesAt(namespace, { path: "" }, { isFolder: true,
        at: row.snapshot_id })))}
      ${item("label", "Label…", () => acts.ask("label", { row }))}
      <li><a class="item" download href=${namespaceOf(namespace).archive(row.snapshot_id)}
        onClick=${close}><${Icon} name="download" />Export its files</a></li>
      ${item("trash", "Delete…", () => acts.ask("delete", { row }))}
    </ul><//>`
    }
  </div>`;
}

/** What leads from one moment to another, by plane; a diff opens in place. */
export function Changes({ from, to, turn }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    (stop) => namespaceOf(namespace).diff({ from, to, limit: LISTED, counts: true }, stop),
    [namespace, from, to, turn],
  );
  const [open, setOpen] = useState(null);
  const [folds, setFolds] = useState(() => new Set());
  const [unfolded, unfold] = useState(false);
  const page = answer.value;
  const counts = page && countsOf(page.changes, page.counts);
  const all = page ? linesOf(page.changes, counts, folds) : [];
  const lines = unfolded ? all : all.slice(0, IN_PANE);
  const step = (by) => {
    const single = lines.filter((line) => line.change);
    const at = single.findIndex((line) => line.key === open);
    const next = single[Math.max(0, Math.min(single.length - 1, at + by))];
    if (next) setOpen(next.key);
    requestAnimationFrame(() =>
      document.querySelector(".change.open")?.scrollIntoView({ block: "nearest" }),
    );
    return true;
  };
  useKeys((key) => (key === "]" ? step(1) : key === "[" ? step(-1) : false));
  useEffect(() => {
    // A text that changed is what somebody came to see, if they stay to look.
    const text = lines.find(
      ({ change }) =>
        change?.plane === "files" && change.change === "changed" && change.new_bytes < MOST_OPENED,
    );
    if (!text || state.isPhone.value) return undefined;
    const timer = setTimeout(() => setOpen((was) => was ?? text.key), STAYS_MS);
    return () => clearTimeout(timer);
  }, [page]);
  if (answer.failure?.status === 404)
    return html`<p class="quiet">What was before it is no longer kept.</p>`;
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!page) return html`<${Waiting} what="Comparing…" />`;
  if (!page.changes.length) return html`<p class="quiet">Nothing changed.</p>`;
  const runs = running(page.changes);
  const fold = (key) => {
    const next = new Set(folds);
    if (!next.delete(key)) next.add(key);
    setFolds(next);
  };
  return html`<div class="changes">
    ${runs.length > 0 && html`<${Runs} changes=${runs} />`}
    ${open && html`<div class="changes-tools"><${StyleSwitch} /></div>`}
    ${lines.map((line) => {
      if (line.plane)
        return html`<h3 key=${line.key} class="plane"><${LineText} line=${line} /><span
          class="quiet">${tally(line.count)}</span>${more(line) && html`<span
          class="quiet">· ${more(line)}</span>`}</h3>`;
      const isOpen = line.items ? line.isOpen : open === line.key;
      const press = () => (line.items ? fold(line.key) : setOpen(isOpen ? null : line.key));
      return html`<div key=${line.key} class=${`change ${isOpen ? "open" : ""} ${line.isInside ?
        "inside" : ""}`}>
        <button type="button" class="change-line" aria-expanded=${isOpen ? "true" : "false"}
          onClick=${press}><${LineText} line=${line} /></button>
        ${isOpen && line.change && html`<div class="in-place"><${Diff} change=${line.change}
          from=${from} to=${to} isInPlace /></div>`}
      </div>`;
    })}
    ${all.length > lines.length && html`<div class="bar"><span>
      ${number(all.length - lines.length)} more lines</span>${all.length < 1000 && html`<${Button}
      onClick=${() => unfold(true)}>Show them<//>`}<a class="button" href=${state.to(["n",
      namespace, "compare", `${from ?? NOTHING}...${to ?? NOW}`])}><span>All on a page</span></a></div>`}
  </div>`;
}

export const Runs = ({
  changes,
}) => html`<${Note} tone="warn" icon="warn"><strong>${changes.length === 1 ? "One file makes" :
  `${number(changes.length)} files make`} other programs run something:</strong>
  <ul class="names">${changes.slice(0, 8).map((change) => html`<li class="mono"><${Path}
    text=${change.name} /></li>`)}</ul>${changes.length > 8 &&
    html`<span>and ${number(changes.length - 8)} more</span>`}<//>`;

// As it was

const ON_PAGE = 200;

/** The root of what was there; each leads to the screen of files, at that moment. */
function FilesThen({ at }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    (stop) => namespaceOf(namespace).files({ path: "" }, { at, limit: ON_PAGE }, stop),
    [namespace, at],
  );
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!answer.value) return html`<${Waiting} />`;
  const { files, has_more: hasMore } = answer.value;
  return html`<div class="then">
    ${!files.length && html`<p class="quiet">Nothing was here.</p>`}
    <ul class="entries">${files.map((each) => html`<li key=${each.path}><a class="change-line"
      href=${filesAt(namespace, placeOf(each), { isFolder: each.kind === "directory", at })}>
      <${Entry} each=${each} name=${each.path} />${each.kind === "file" && html`<span class="size">
      ${bytes(each.size_bytes)}</span>`}</a></li>`)}</ul>
    ${hasMore && html`<div class="bar"><span>The first ${number(ON_PAGE)}.</span><a class="button"
      href=${filesAt(namespace, { path: "" }, { isFolder: true, at })}><span>All files</span></a>
      </div>`}
  </div>`;
}

function SessionsThen({ at }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    (stop) => namespaceOf(namespace).sessions({ at, limit: 100, include_state: false }, stop),
    [namespace, at],
  );
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!answer.value) return html`<${Waiting} />`;
  const { data } = answer.value;
  if (!data.length) return html`<p class="quiet">There were no sessions.</p>`;
  return html`<ul class="entries">${data.map((each) => html`<li class="change-line"><${Icon}
    name="session" size="14" /><span class="clip"><span class="mono"><${Name} text=${each.id} />
    </span> <span class="dim"><${Name} text=${each.agent_id ?? ""} most="40" /></span></span><span
    class="size">${each.version !== undefined ? `version ${each.version}` : ""}</span></li>`)}</ul>
    ${answer.value.has_more && html`<p class="quiet">The first 100.</p>`}`;
}

function About({ row, find }) {
  const { namespace } = state.route.value;
  const seen = (id) =>
    id &&
    html`<a class="mono" href=${state.to(["n", namespace, "snapshot", id])}>${find(id) ?
      `#${find(id).number} ` : ""}${id}</a>`;
  const { coverage, ...detail } = row.detail ?? {};
  const facts = [
    ["Id", html`<${Copied} text=${row.snapshot_id} />`],
    ["Taken", exact(row.created_at)],
    ["Kind", row.kind],
    [
      "By",
      html`<${Name} text=${actorOf(row)} />${row.actor_name && row.actor && html` <span
        class="mono dim">${row.actor}</span>`}`,
    ],
    ["Task", row.task && html`<${Name} text=${row.task.name} />, ${row.task.status}`],
    ["Holds", `${many(row.entries, "entry", "entries")}, ${bytes(row.size_bytes)}`],
    ["Follows", seen(row.parent)],
    ["Goes back to", seen(row.target)],
    [
      "Forks",
      row.forks?.length &&
        row.forks.map(
          (name) =>
            html`<a href=${state.to(["n", name, "timeline"])}><${Name} text=${name} /></a> `,
        ),
    ],
    [
      "Kept until",
      row.pinned
        ? "it is unpinned"
        : row.expires_at
          ? exact(row.expires_at)
          : "something else is kept",
    ],
    ["Root", html`<${Copied} text=${row.root} />`],
    ["Trace", row.trace_id && html`<${Copied} text=${row.trace_id} />`],
    ...Object.entries(row.metadata ?? {}).map(([name, value]) => [
      html`<${Name} text=${name} most="40" />`,
      html`<${Name} text=${value} most="200" />`,
    ]),
    [
      "Not captured",
      coverage &&
        Object.entries(coverage)
          .filter(([, value]) => (Array.isArray(value) ? value.length : value))
          .map(
            ([name, value]) =>
              html`<div><span class="dim">${name.replaceAll("_", " ")}:</span> <${Name}
                text=${Array.isArray(value) ? value.slice(0, 20).map(String).join(", ") :
                JSON.stringify(value)} most="400" /></div>`,
          ),
    ],
    [
      "Limited to",
      Object.keys(detail).length > 0 &&
        html`<span class="mono"><${Name} text=${JSON.stringify(detail)} most="400" /></span>`,
    ],
  ];
  return html`<dl class="about">${facts.filter(([, value]) => value).map(([name,
    value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A page of its own: the same, with room. */
export function Snapshot() {
  const { namespace, id, query } = state.route.value;
  const listed = state.findRow(id);
  const answer = useAnswer(() => listed ?? namespaceOf(namespace).snapshot(id), [namespace, id]);
  const row = listed ?? answer.value;
  useTitle(row ? `#${row.number} ${titleOf(row, state.findRow)}` : "Snapshot");
  const close = () => state.go(state.to(["n", namespace, "timeline"], { sel: id }));
  useKeys((key) => key === "Escape" && (close(), true));
  if (answer.failure)
    return html`<div class="empty"><h2>There is no such moment</h2><p><${Said}
      text=${answer.failure.message} /></p><p><a href=${state.to(["n", namespace,
      "timeline"])}>Timeline</a></p></div>`;
  if (!row) return html`<${Waiting} />`;
  return html`<div class="page">
    ${query.get("unverified") && html`<${Unverified} />`}
    <${Moments} row=${row} find=${state.findRow} isPage />
  </div>`;
}

const Unverified =
  () => html`<div class="unverified" role="alert"><h2>This could not be verified</h2>
  <p>It was brought back, and what was read afterwards is not what the snapshot holds. Nothing that was there before is lost: it is the snapshot before this one.</p>
  <p>Look at what is there now before anybody goes on, and have the vault checked: <code>holdfast verify</code>.</p>
    </div>`;
