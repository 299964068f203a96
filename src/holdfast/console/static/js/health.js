// How often sessions are rolled back, and how much is stored: now, and over time.

import { html, useState } from "../vendor/preact.js";
import { Form } from "./acts.js";
import { Chart } from "./chart.js";
import { Answered, Part, Table, here } from "./operations.js";
import { Button, Chip, Name, Note, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { bytes, day, exact, many, number, time } from "./text.js";

const LOOK_MS = 30000;
const MOST_ROWS = 200;

const LEAST_HEIGHT = 0.14;

/** The parts of the height that levels have: where each begins, the server says. */
function bandsOf({ elevated, warning, critical }) {
  const starts = { healthy: 0, elevated, warning, critical };
  const ends = [elevated, warning, critical, Infinity];
  return Object.entries(starts).map(([name, from], at) => ({ name, from, to: ends[at] }));
}

/** A rate as people say it; what is not quite a band’s edge is not written as if it were. */
export const percent = (rate) => {
  const value = rate * 100;
  const text = value >= 100 ? number(Math.round(value)) : String(Math.floor(value * 10 + 1e-9) / 10);
  return `${text} %`;
};

export function Health() {
  const [bucket, setBucket] = useState("day");
  const [only, setOnly] = useState("");
  const { query } = state.route.value;
  const namespace = query.get("in") ?? undefined;
  const agent = only.trim() || undefined;
  const now = useAnswer(
    (stop) => here().rollbacks({ agent_id: agent }, stop), [agent], { everyMs: LOOK_MS });
  const series = useAnswer(
    (stop) => seriesOf({ bucket, namespace, agent_id: agent }, stop),
    [bucket, namespace, agent],
    { everyMs: LOOK_MS },
  );
  const spaces = [...(state.overview.value?.namespaces ?? [])]
    .filter((each) => each.rate !== undefined)
    .sort((one, two) => two.rate - one.rate);
  return html`<${Part} title="Health"
    words="How often sessions are rolled back, for each that was active. A good agent seldom is."
    acts=${html`<form class="inline" onSubmit=${(event) => (event.preventDefault(),
      setOnly(String(new FormData(event.currentTarget).get("agent"))))}><label><span
      class="hidden">Only this agent</span><input name="agent" placeholder="Only this agent"
      autocomplete="off" spellcheck=${false} maxlength="128" /></label></form>
      <span class="switch" role="group" aria-label="By">${["hour", "day"].map((each) => html`<button
      type="button" class="button" aria-pressed=${bucket === each ? "true" : "false"}
      onClick=${() => setBucket(each)}><span>By ${each}</span></button>`)}</span>`}>
    <${Answered} answer=${now}>${(value) => html`<div class="numbers">
      <p class=${`number ${value.level}`}><strong>${percent(value.rate)}</strong><${Chip}
        tone=${value.level}>${value.level}<//><span class="quiet">in the last 24 hours, all namespaces</span></p>
      <p class="number"><strong>${number(value.rollbacks)}</strong><span class="quiet">
        ${value.rollbacks === 1 ? "rollback" : "rollbacks"}</span></p>
      <p class="number"><strong>${number(value.sessions)}</strong><span class="quiet">
        ${value.sessions === 1 ? "session" : "sessions"} active</span></p></div>`}<//>
    ${namespace !== undefined && html`<p class="quiet chart-of">Only <${Name} text=${namespace}
      most="60" />. <a href=${state.to(["operations", "health"])}>All namespaces</a></p>`}
    <${Answered} answer=${series}>${(value) => html`<${Rates} ...${value} bucket=${bucket} />`}<//>
    <${Loops} loops=${now.value?.loops ?? []} />
    <h3>By namespace, in the last 24 hours</h3>
    <${Table} label="By namespace" head=${["Namespace", "Rate", "Level", "Rollbacks", ""]}
      empty="There is no namespace yet."
      rows=${spaces.slice(0, MOST_ROWS).map((each) => [each.name, html`<a
        href=${state.to(["n", each.name, "sessions"])}><${Name} text=${each.name} most="60" /></a>`,
        percent(each.rate), html`<${Chip} tone=${each.level}>${each.level}<//>`,
        number(each.rollbacks), html`<a href=${state.to(["operations", "health"],
        { in: each.name })}>Over time</a>`])} />
    ${spaces.length > MOST_ROWS && html`<p class="quiet">The ${MOST_ROWS} with the highest rates of${" "}
      ${number(spaces.length)}.</p>`}
  <//>`;
}

/** Asks until all of it is there: an answer ends after a second. */
async function seriesOf(query, stop) {
  const all = [];
  let since;
  let thresholds;
  for (let turn = 0; turn < 20; turn += 1) {
    const page = await here().rollbackSeries({ ...query, since }, stop);
    all.push(...page.buckets);
    thresholds = page.thresholds;
    if (!page.next_since) break;
    since = page.next_since;
  }
  return { buckets: all, thresholds };
}

function Rates({ buckets, thresholds, bucket }) {
  const when = (start) => (bucket === "hour" ? time(start) : shortDay(start));
  const whole = (start) => (bucket === "hour" ? `${day(start)} ${time(start)}` : dayOf(start));
  const points = buckets.map((each) => ({
    value: each.rate,
    tone: each.level,
    label: when(each.start),
    title: `${whole(each.start)}: ${percent(each.rate)}, ${each.level}; ${many(each.rollbacks,
      "rollback")}, ${many(each.sessions, "session")}`,
  }));
  const worst = [...buckets].sort((one, two) => two.rate - one.rate)[0];
  return html`<${Chart} label=${`Rollback rate by ${bucket}${worst ? `; the highest was ${percent(
    worst.rate)}, ${worst.level}, ${whole(worst.start)}` : ""}`} points=${points}
    bands=${bandsOf(thresholds)}
    write=${percent} most=${LEAST_HEIGHT} head=${[bucket === "hour" ? "Hour" : "Day", "Rate", "Level",
    "Rollbacks", "Sessions"]} table=${[...buckets].reverse().map((each) => [whole(each.start),
    percent(each.rate), each.level, number(each.rollbacks), number(each.sessions)])} />`;
}

// Days are counted in UTC: a day of the server is not cut in two by where one looks from.
const utc = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });
const shortDay = (start) => utc.format(new Date(start));
const dayOf = (start) => `${shortDay(start)} (UTC)`;

function Loops({ loops }) {
  if (!loops.length) return null;
  return html`<h3>Sessions that turn in circles</h3><ul class="loops">${loops.slice(0, 50).map((each) => html`<li>
    <${Chip} tone="warn" icon="warn">${many(each.rollbacks, "rollback")} to version ${each.version}<//>
    <a class="mono" href=${state.to(["n", each.namespace, "sessions", each.session_id])}><${Name}
      text=${each.session_id} most="60" /></a> <span class="quiet">in <${Name} text=${each.namespace}
      most="40" /></span></li>`)}</ul>`;
}

// Storage

export function Storage() {
  const { query } = state.route.value;
  const namespace = query.get("in") ?? undefined;
  const [asks, setAsks] = useState(false);
  const [given, setGiven] = useState(null);
  const series = useAnswer((stop) => here().storageSeries({ namespace }, stop), [namespace]);
  const quota = useAnswer((stop) => here().quota(stop), [], { everyMs: LOOK_MS });
  const spaces = [...(state.overview.value?.namespaces ?? [])]
    .filter((each) => each.size_bytes !== undefined)
    .sort((one, two) => two.size_bytes - one.size_bytes);
  const collect = async () => {
    setGiven(await here().collect());
    quota.refresh();
  };
  return html`<${Part} title="Storage" words="What is stored once counts once, however often it is kept."
    acts=${html`<${Button} icon="trash" why=${state.away()} onClick=${() => setAsks(true)}>Collect now…<//>`}>
    <${Answered} answer=${quota}>${(value) => html`<div class="numbers">
      <p class="number"><strong>${bytes(value.used_bytes)}</strong><span class="quiet">stored</span></p>
      <p class="number"><strong>${value.quota_bytes === null ? "none" : bytes(value.quota_bytes)}
        </strong><span class="quiet">quota of the workspace</span></p></div>`}<//>
    ${given && html`<${Note} tone="safe" icon="check"><strong>${bytes(given.bytes_freed)} given back.</strong>
      ${" "}${bytes(given.bytes_retired)} more wait until nobody can be reading them. ${many(given.objects_deleted,
      "object")} in ${many(given.packs_deleted, "pack")} went.<//>`}
    ${given?.damaged?.length > 0 && html`<${Note} tone="bad" icon="warn" role="alert">
      <strong>${many(given.damaged.length, "object")} damaged.</strong> Have the vault checked: <code>holdfast verify</code>.<//>`}
    ${namespace !== undefined && html`<p class="quiet chart-of">Only <${Name} text=${namespace}
      most="60" />. <a href=${state.to(["operations", "storage"])}>All namespaces</a></p>`}
    <${Answered} answer=${series}>${(value) => html`<${Days} days=${value.days}
      isWhole=${namespace === undefined} quota=${quota.value?.quota_bytes ?? null} />`}<//>
    <h3>By namespace</h3>
    <${Table} label="By namespace" head=${["Namespace", "Holds", "Entries", "Snapshots", "Quota", ""]}
      empty="There is no namespace yet."
      rows=${spaces.slice(0, MOST_ROWS).map((each) => [each.name, html`<a
        href=${state.to(["n", each.name, "timeline"])}><${Name} text=${each.name} most="60" /></a>`,
        bytes(each.size_bytes), number(each.entries), number(each.snapshots),
        each.quota_bytes === null ? "none" : bytes(each.quota_bytes), html`<a
        href=${state.to(["operations", "storage"], { in: each.name })}>Over time</a>`])} />
    ${spaces.length > MOST_ROWS && html`<p class="quiet">The ${MOST_ROWS} largest of${" "}
      ${number(spaces.length)}.</p>`}
    ${asks && html`<${Form} title="Collect now" button="Collect" icon="trash" doing=${collect}
      shut=${() => setAsks(false)}><p>Applies the retention of every namespace, which lets go for
      good, and gives back the bytes that nothing has needed for a while. It happens once a day by itself.</p><//>`}
  <//>`;
}

function Days({ days, isWhole, quota }) {
  if (!days.length)
    return html`<p class="quiet nothing">Nothing was noted yet: once a day it is noted how much there is, and kept for 90 days.</p>`;
  const sizeOf = (each) => (isWhole ? (each.stored_bytes ?? each.size_bytes) : each.size_bytes);
  const points = days.map((each) => ({
    value: sizeOf(each),
    label: shortDay(each.start),
    title: `${dayOf(each.start)}: ${bytes(sizeOf(each))}, ${many(each.entries, "entry", "entries")}`,
  }));
  const last = days.at(-1);
  // A quota far above what there is would press everything else flat.
  const isNear = isWhole && quota !== null && quota <= 4 * Math.max(...days.map(sizeOf));
  return html`<${Chart} label=${`${isWhole ? "Bytes stored" : "Bytes held"} by day; last ${bytes(
    sizeOf(last))}, ${exact(last.start)}`} points=${points} write=${bytes} most=${1024}
    lines=${isNear ? [{ value: quota, name: `quota ${bytes(quota)}` }] : []}
    head=${["Day", isWhole ? "Stored" : "Held", "Content", "Entries"]}
    table=${[...days].reverse().map((each) => [dayOf(each.start), bytes(sizeOf(each)),
      bytes(each.size_bytes), number(each.entries)])} />`;
}
