// What happens by itself, and what can be taken back of it: schedules, retention, and what was
// deleted.

import { html, useState } from "../vendor/preact.js";
import { Form } from "./acts.js";
import { namespaceOf } from "./api.js";
import {
  Answered,
  ChooseNamespace,
  NoNamespaces,
  OfOne,
  Part,
  SPANS,
  Table,
  here,
  spell,
  useNamespace,
} from "./operations.js";
import { Button, Chip, Failed, Moment, Name, Note, Said, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { bytes, cut, many, number, plain } from "./text.js";

const LOOK_MS = 15000;
const LISTED = 200;

const titleOf = (row) => row.label ?? row.reason ?? row.kind;

// Schedules

const whenOf = ({ cadence, amount }) =>
  cadence === "every"
    ? `every ${spell(amount).replace(/^1 /, "")}`
    : cadence === "changes"
      ? `after ${many(amount, "write")}`
      : `when nobody has written for ${spell(amount)}`;

export const Schedules = () => html`<${OfOne} title="Schedules" what="Schedules are"
  words="Snapshots that are taken by themselves." Inside=${ScheduleList} />`;

function ScheduleList({ namespace, choice, title, words }) {
  const asked = namespaceOf(namespace);
  const [asks, setAsks] = useState(false);
  const [leaving, setLeaving] = useState(null);
  const answer = useAnswer((stop) => asked.schedules(stop), [namespace], { everyMs: LOOK_MS });
  const turn = async (each) => {
    try {
      await asked.changeSchedule(each.schedule_id, { enabled: !each.enabled });
      answer.refresh();
    } catch (failure) {
      state.tell(failure, "Not changed");
    }
  };
  const remove = async () => {
    await asked.removeSchedule(leaving.schedule_id);
    state.toast("The schedule is gone; its snapshots stay.");
    answer.refresh();
  };
  return html`<${Part} title=${title} words=${words} acts=${html`${choice}<${Button} tone="primary"
    icon="clock" why=${state.away()} onClick=${() => setAsks(true)}>New schedule…<//>`}>
    <${Answered} answer=${answer}>${({ schedules }) => html`<${Table} label="Schedules"
      head=${["When", "Label", "State", "Last run", "Next", ""]}
      empty="Nothing is taken by itself in this namespace."
      rows=${schedules.map((each) => [each.schedule_id, html`<strong>${whenOf(each)}</strong>
        ${each.only_if_changed ? "" : html`<div class="quiet">also if nothing changed</div>`}`,
        each.label === null ? html`<span class="dim">none</span>` : html`<${Name} text=${each.label}
        most="60" />`, each.enabled ? html`<${Chip} tone="live">on<//>` : html`<${Chip}>off<//>`,
        html`${each.last_run_at === null ? html`<span class="dim">never</span>` : html`<${Moment}
        at=${each.last_run_at} short />`} ${each.last_snapshot_id && html`<a href=${state.to(["n",
        namespace, "snapshot", each.last_snapshot_id])}>its moment</a>`}${each.last_error &&
        html`<div class="bad-word"><${Said} text=${each.last_error.slice(0, 300)} /></div>`}`,
        each.next_at === null ? html`<span class="dim">—</span>` : html`<${Moment} at=${each.next_at}
        short />`, html`<span class="two"><${Button} why=${state.away()} onClick=${() => turn(each)}>
        ${each.enabled ? "Stop" : "Go on"}<//><${Button} icon="trash" why=${state.away()}
        label=${`Delete the schedule ${whenOf(each)}`} onClick=${() => setLeaving(each)} /></span>`])} />`}<//>
    ${asks && html`<${NewSchedule} asked=${asked} close=${() => setAsks(false)} again=${answer.refresh} />`}
    ${leaving && html`<${Form} title="Delete the schedule" button="Delete" icon="trash" tone="danger"
      doing=${remove} shut=${() => setLeaving(null)}><p>No more snapshots are taken ${whenOf(leaving)}.
      Those that were taken stay.</p><//>`}
  <//>`;
}

function NewSchedule({ asked, close, again }) {
  const [cadence, setCadence] = useState("every");
  const make = async (form) => {
    const amount = Number(form.get("amount")) * (cadence === "changes" ? 1 : Number(form.get("unit")));
    const field = { every: "every_seconds", changes: "after_changes", quiet: "when_quiet_seconds" };
    await asked.addSchedule({
      [field[cadence]]: amount,
      label: form.get("label").trim() || undefined,
    });
    again();
  };
  return html`<${Form} title="New schedule" button="Make it" icon="clock" doing=${make} shut=${close}>
    <label class="field">When <select value=${cadence}
      onChange=${(event) => setCadence(event.currentTarget.value)}><option value="every">every so often</option>
      <option value="changes">after so many writes</option>
      <option value="quiet">when nobody has written for so long</option></select></label>
    <div class="pair"><label class="field">How many <input name="amount" type="number" required min="1"
      max="31536000" value="1" /></label>
    ${cadence !== "changes" && html`<label class="field">Of <select name="unit" defaultValue="3600">
      ${[...SPANS].reverse().map(([size, unit]) => html`<option value=${size} selected=${size ===
      3600}>${unit}s</option>`)}</select></label>`}</div>
    <label class="field">Label of its snapshots <input name="label" maxlength="128"
      autocomplete="off" /></label>
    <p class="quiet">Where nothing has changed, none is taken.</p>
  <//>`;
}

// Retention

export function Retention() {
  const { chosen, names, choose } = useNamespace();
  const words = "Which snapshots stay. What is pinned, what now stands on, and what one undo needs always do.";
  if (chosen === null)
    return html`<${Part} title="Retention" words=${words}><${NoNamespaces} /><//>`;
  return html`<${Part} title="Retention" words=${words} acts=${html`<${ChooseNamespace}
    chosen=${chosen} names=${names} choose=${choose} />`}><${Rule} key=${chosen}
    namespace=${chosen} /><//>`;
}

const RULES = [
  ["keep_last", "The newest", "snapshots"],
  ["keep_daily", "One a day, for", "days"],
  ["keep_weekly", "One a week, for", "weeks"],
];

function Rule({ namespace }) {
  const answer = useAnswer(() => here().retention(namespace), [namespace]);
  const [given, setGiven] = useState(null);
  const [seen, setSeen] = useState(null);
  const [busy, setBusy] = useState(false);
  const [asks, setAsks] = useState(false);
  if (!answer.value) return html`<${Answered} answer=${answer}>${() => null}<//>`;
  const rule = given ?? answer.value;
  const isNew = RULES.some(([field]) => rule[field] !== answer.value[field]);
  const set = (field, text) => {
    setSeen(null);
    setGiven({ ...rule, [field]: Math.max(0, Math.min(100000, Math.floor(Number(text) || 0))) });
  };
  const during = async (what, doing) => {
    setBusy(true);
    try {
      return await doing();
    } catch (failure) {
      state.tell(failure, what);
      return null;
    } finally {
      setBusy(false);
    }
  };
  const look = () =>
    during("Not looked", async () => {
      const { snapshots } = await here().forget(namespace, { policy: rule, dry_run: true });
      setSeen({ snapshots, rule });
    });
  const save = () =>
    during("Not saved", async () => {
      await here().setRetention(namespace, rule);
      state.toast("The rule is kept: what it does not keep goes within the hour.");
      setGiven(null);
      answer.refresh();
    });
  const apply = async () => {
    const { snapshots } = await here().forget(namespace, { policy: seen.rule });
    setSeen(null);
    state.loadOverview();
    state.toast(`${many(snapshots.length, "snapshot")} went.`);
  };
  const isLookedAt = JSON.stringify(seen?.rule) === JSON.stringify(rule);
  const isEmpty = RULES.every(([field]) => rule[field] === 0);
  return html`<form class="rule" onSubmit=${(event) => (event.preventDefault(), look())}>
    ${RULES.map(([field, before, after]) => html`<label><span>${before}</span><input type="number"
      min="0" max="100000" value=${rule[field]} onInput=${(event) => set(field,
      event.currentTarget.value)} /><span>${after}</span></label>`)}
    <div class="acts"><${Button} type="submit" tone="primary" icon="search" busy=${busy}
      why=${state.away()}>What would go?<//><${Button} icon="check" why=${state.away() ?? (!isNew ?
      "That is the rule now" : isLookedAt ? undefined : "Look first what would go")} busy=${busy} onClick=${save}>Keep this rule<//></div>
    <p class="quiet">${isEmpty ? "All at 0: only age decides, which is 30 days unless somebody said otherwise." :
      "A snapshot stays if any of these keeps it."}${isNew ? " This is not the rule yet." : ""}</p>
  </form>
  ${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.refresh} />`}
  ${seen && html`<section class="would-go" aria-label="What would go"><div
    role="status"><h3>${seen.snapshots.length ? `${many(seen.snapshots.length, "snapshot")} would go` :
    "Nothing would go"}</h3></div>
    ${seen.snapshots.length > 0 && html`<${Note} tone="warn" icon="warn">
      <strong>Retention lets go for good:</strong> what went by it cannot be brought back.<//>
      <${Moments} label="Snapshots that would go" rows=${seen.snapshots} />
      <div class="acts"><${Button} tone="danger" icon="trash" why=${state.away()}
        onClick=${() => setAsks(true)}>Let them go now…<//></div>`}</section>`}
  ${asks && seen && html`<${Form} title="Let them go" button="Let them go" icon="trash" tone="danger"
    doing=${apply} shut=${() => setAsks(false)}><p><strong>${many(seen.snapshots.length,
    "snapshot")}</strong> of <${Name} text=${namespace} most="60" /> go off the timeline, and whatever
    else the rule does not keep by then. <strong>They cannot be brought back.</strong></p>
    <p class="quiet">The rule itself stays as it was, unless you keep it.</p><//>`}`;
}

const Moments = ({ label, rows, act }) => html`<${Table} label=${label} head=${["Moment", "Taken",
  "By", "Holds", ...(act ? [""] : [])]} empty="None." rows=${rows.slice(0, LISTED).map((row) => [
  row.snapshot_id, html`<strong>#${row.number}</strong> <${Name} text=${titleOf(row)} most="80" />`,
  html`<${Moment} at=${row.created_at} short />`, html`<${Name} text=${row.actor_name ?? row.actor ??
  ""} most="40" />`, bytes(row.size_bytes), ...(act ? [act(row)] : [])])} />
  ${rows.length > LISTED && html`<p class="quiet">The first ${LISTED} of ${number(rows.length)}.</p>`}`;

// Deleted

export function Deleted() {
  const { chosen, names, choose } = useNamespace();
  const [back, setBack] = useState(null);
  const spaces = useAnswer((stop) => here().deletedNamespaces(stop), [], { everyMs: LOOK_MS });
  const moments = useAnswer(
    () => (chosen === null ? { snapshots: [] } : here().deletedSnapshots(chosen)),
    [chosen],
    { everyMs: LOOK_MS },
  );
  const recover = async (form) => {
    const name = form.get("name").trim();
    await here().recoverNamespace(back.namespace, {
      number: back.number,
      as_name: name && name !== back.namespace ? name : undefined,
    });
    await state.loadOverview();
    spaces.refresh();
    state.toast(`${plain(cut(name || back.namespace, 60))} is back.`, {
      act: () => state.go(state.to(["n", name || back.namespace, "timeline"])),
      act_label: "Open",
      seconds: 20,
    });
  };
  const recoverMoment = async (row) => {
    try {
      await here().recoverSnapshot(chosen, row.snapshot_id);
      moments.refresh();
      state.toast(`#${row.number} is on the timeline again.`, {
        act: () => state.go(state.to(["n", chosen, "timeline"], { sel: row.snapshot_id })),
        act_label: "Open",
        seconds: 20,
      });
    } catch (failure) {
      state.tell(failure, "Not brought back");
    }
  };
  return html`<${Part} title="Deleted" words="What was deleted and can be brought back.">
    <h3>Namespaces</h3>
    <${Answered} answer=${spaces}>${({ deleted }) => html`<${Table} label="Deleted namespaces"
      head=${["Namespace", "Deleted", ""]} empty="No namespace was deleted lately."
      rows=${deleted.slice(0, LISTED).map((each) => [each.number, html`<strong><${Name}
        text=${each.namespace} most="80" /></strong>`, html`<${Moment} at=${each.deleted_at} short />`,
        html`<${Button} icon="back" why=${state.away()} label=${`Bring back ${plain(each.namespace)}`}
        onClick=${() => setBack(each)}>Bring back…<//>`])} />
      ${deleted.length > LISTED && html`<p class="quiet">The first ${LISTED} of${" "}
        ${number(deleted.length)}.</p>`}`}<//>
    <div class="with-choice"><h3>Snapshots</h3>${chosen !== null && html`<${ChooseNamespace}
      chosen=${chosen} names=${names} choose=${choose} />`}</div>
    <${Answered} answer=${moments}>${({ snapshots }) => snapshots.length ? html`<${Moments}
      label="Deleted snapshots" rows=${snapshots} act=${(row) => html`<${Button} icon="back"
      why=${state.away()} label=${`Bring back #${row.number}`} onClick=${() => recoverMoment(row)}>Bring
      back<//>`} />` : html`<p class="quiet nothing">No snapshot of this namespace was deleted lately.</p>`}<//>
    ${back && html`<${Form} title="Bring a namespace back" button="Bring back" icon="back"
      doing=${recover} shut=${() => setBack(null)}><p><${Name} text=${back.namespace} most="80" />,
      with its timeline and everything in it.</p><label class="field">Under the name <input name="name"
      maxlength="128" defaultValue=${back.namespace} autocomplete="off" spellcheck=${false} /></label><//>`}
  <//>`;
}
