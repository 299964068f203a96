// One task taken back: exactly what will change, and what others did since, before anything does.

import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { takenBack } from "./acts.js";
import { namespaceOf } from "./api.js";
import { Sums, countsOf, differs, linesOf, summed } from "./changes.js";
import { Beside, List, firstOf, lineHeight, useFolds } from "./compare.js";
import {
  Button,
  Failed,
  Icon,
  Name,
  Note,
  Path,
  Said,
  Unheard,
  Waiting,
  isUnheard,
  useAnswer,
  useKeys,
  useTitle,
} from "./parts.js";
import * as state from "./state.js";
import { PLANES, many, number, total } from "./text.js";

const LISTED = 5000;
const NAMED = 12;

/** What was refused, for a reason that one can do something about. */
const REFUSED = new Set(["others_changed", "task_running"]);

/** Asks what taking a task back would change; a typed refusal is an answer, too. */
async function look(namespace, id, keeps) {
  const asked = namespaceOf(namespace);
  const wanted = { task: id, keep_mine: keeps, dry_run: true, limit: LISTED };
  const [task, dry] = await Promise.all([
    asked.task(id),
    asked.undo(wanted).catch(async (failure) => {
      if (!REFUSED.has(failure.code)) throw failure;
      const mayHaveRest = !keeps && failure.code === "others_changed";
      return { refused: failure, hasRest: mayHaveRest && (await hasRest(asked, id)) };
    }),
  ]);
  return { task, dry };
}

/** Whether anything of a task would be taken back where what others changed since stays. */
const hasRest = (asked, id) =>
  asked.undo({ task: id, keep_mine: true, dry_run: true, limit: 1 }).then(
    (dry) => dry.changes.length > 0,
    (failure) => {
      if (failure.code !== "nothing_to_undo" && !REFUSED.has(failure.code)) throw failure;
      return false;
    },
  );

/** What stands as `files:src/cart.py` in what the server says, by its name and the sign of its plane. */
function Thing({ text }) {
  const at = text.indexOf(":");
  const [, title, icon] = PLANES.find(([plane]) => plane === text.slice(0, at)) ?? [];
  if (!title) return html`<${Name} text=${text} />`;
  return html`<${Icon} name=${icon} size="12" /> <span class="hidden">${title}: </span><${Path}
    text=${text.slice(at + 1)} />`;
}

/** The first of the things that the server names, and how many more there are. */
const Things = ({ names, count = names.length }) => html`<ul class="names">
  ${names.slice(0, NAMED).map((each) => html`<li class="mono"><${Thing} text=${each} /></li>`)}
  </ul>${count > NAMED ? `and ${number(count - NAMED)} more` : ""}`;

export function UndoTask() {
  const { namespace, id, query } = state.route.value;
  const keeps = query.get("keep") === "theirs";
  const heading = useRef(null);
  const answer = useAnswer(() => look(namespace, id, keeps), [namespace, id, keeps]);
  const [kept, setKept] = useState(null);
  const cancel = () => state.go(state.to(["n", namespace, "tasks"], { sel: id }));
  useTitle("Undo a task", heading);
  const { task, dry } = answer.value ?? {};
  const title = task
    ? html`Undo “<bdi><${Said} text=${task.name} /></bdi>”`
    : "Undo a task";
  const head = html`<header class="head"><h1 tabIndex="-1" ref=${heading}>${title}</h1>
    ${dry && !dry.refused && html`<p class="quiet">This is exactly what will change.</p>`}
    </header>`;
  if (answer.failure)
    return html`<div class="goback">${head}<div class="warnings"><${Unheard}
      failure=${kept?.unheard} /></div><div class="empty"><${Failed} failure=${answer.failure}
      again=${answer.again} /><p><${Button} onClick=${cancel}>Tasks<//></p></div></div>`;
  if (!dry)
    return html`<div class="goback">${head}<${Waiting} what="Looking what would change…" />
      </div>`;
  if (dry.refused)
    return html`<div class="goback">${head}<${Refused} failure=${dry.refused} task=${task}
      hasRest=${dry.hasRest} cancel=${cancel} /></div>`;
  return html`<${Preview} head=${head} task=${task} dry=${dry} keeps=${keeps} kept=${kept}
    cancel=${cancel} again=${(what) => (setKept(what), answer.again())} />`;
}

/** Why it is not taken back, and what one can do in its place. */
function Refused({ failure, task, hasRest, cancel }) {
  const { namespace, id } = state.route.value;
  const { by = [], names = [], count = 0 } = failure.values;
  useKeys((key) => key === "Escape" && (cancel(), true));
  const isShared = failure.code === "others_changed";
  return html`<div class="refused">
    <${Note} tone="warn" icon="warn" role="alert">${isShared ? html`<strong>Others changed the same
      since: nothing was taken back.</strong> ${by.length > 0 && html`By ${by.slice(0, NAMED).map(
      (each, index) => html`${index > 0 && ", "}<${Name} text=${each} most="60" />`)}. `}
      ${count > 0 && html`${many(count, "thing")}: <${Things} names=${names} count=${count} />
      ${!hasRest && html`<p>Nothing else of it is left to take back.</p>`}`}` :
      html`<strong>The task is still running.</strong> It has to end before it can be taken back.`}
    <//>
    <div class="ends">
      <${Button} tone="bare" kbd="Esc" onClick=${cancel}>Cancel<//>
      <a class="button" href=${state.to(["n", namespace, "goback", task.before_snapshot_id],
        { before: task.snapshot_id })}><span>Go back before it all the same…</span></a>
      ${isShared && hasRest && html`<a class="button primary" href=${state.to(["n", namespace, "undo", id],
        { keep: "theirs" })}><span>Leave theirs, take the rest back…</span></a>`}
    </div></div>`;
}

function Preview({ head, task, dry, keeps, kept, cancel, again }) {
  const { namespace } = state.route.value;
  const { changes } = dry;
  const counts = useMemo(() => countsOf(changes, dry.counts), [dry]);
  const [folds, fold] = useFolds();
  const [chosen, choose] = useState(null);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(null);
  const lines = useMemo(() => linesOf(changes, counts, folds), [changes, counts, folds]);
  const line =
    lines.find((each) => each.key === chosen) ?? (state.isPhone.value ? null : firstOf(lines));
  const sums = summed(counts);
  const why = state.away();
  const isNothing = total(sums) === 0;
  /** Takes it back, if nobody wrote since it was looked at; `anyway`, whatever they wrote. */
  const go = async (anyway = false) => {
    if (busy || why || isNothing) return;
    setBusy(true);
    setWrong(null);
    const asked = namespaceOf(namespace);
    const wanted = { task: task.task_id, keep_mine: keeps };
    let isSent = false;
    try {
      // Somebody may have written since it was looked at: look once more.
      const now = anyway ? dry : await asked.undo({ ...wanted, dry_run: true, limit: LISTED });
      if (differs(dry, now)) return again({ isOld: true });
      isSent = true;
      const done = await asked.undo(wanted);
      await state.refresh();
      return takenBack(namespace, done, anyway);
    } catch (failure) {
      setBusy(false);
      if (REFUSED.has(failure.code)) return again(null);
      return isSent && isUnheard(failure) ? again({ unheard: failure }) : setWrong(failure);
    }
  };
  useKeys(
    (key, event) => {
      if (key === "Enter" && (event.ctrlKey || event.metaKey)) return (go(), true);
      if (key !== "Escape" || event.target.closest?.("[role=dialog]")) return false;
      if (chosen && state.isPhone.value) choose(null);
      else cancel();
      return true;
    },
    { everywhere: true },
  );
  const notes = html`<div class="warnings">
    ${wrong && html`<${Note} tone="bad" icon="warn" role="alert">
      <strong>Nothing was changed.</strong> <${Said} text=${wrong.message} /> ${wrong.requestId && html`<span class="mono">
      ${wrong.requestId}</span>`}<//>`}
    <${Unheard} failure=${kept?.unheard} />
    ${kept?.isOld && html`<${Note} tone="warn" icon="warn" role="alert"><strong>Something changed
      since you looked.</strong> Look again, then undo.
      <p>If it keeps changing, undo whatever comes: what is there then becomes a snapshot first.</p>
      <p class="act"><${Button} icon="back" why=${why} busy=${busy} onClick=${() => go(true)}>Undo all
      the same<//></p><//>`}
    ${dry.left?.length > 0 && html`<${Note} tone="warn" icon="warn"><strong>${many(dry.left.length,
      "thing")} ${dry.left.length === 1 ? "stays" : "stay"} as others made ${dry.left.length === 1 ?
      "it" : "them"}:</strong> <${Things} names=${dry.left} /><//>`}
    ${dry.by_snapshots && html`<${Note} tone="quiet" icon="list">Nobody said which changes were the
      task’s: all that lies between its two snapshots counts as its own.<//>`}
    <${Note} tone="safe" icon="shield"><strong>Nothing is lost.</strong> What is there now becomes a
      snapshot first, and Redo brings it all back.<//>
  </div>`;
  if (isNothing)
    return html`<div class="goback">${head}${notes}<div class="empty"><h2>Nothing of it is left</h2>
      <p>What it changed is as it was before, or stays as others made it.</p><p><${Button}
      onClick=${cancel}>Tasks<//></p></div></div>`;
  return html`<div class="goback">${head}${notes}
    <div class=${`halves ${chosen ? "opened" : ""}`}>
      <${List} lines=${lines} chosen=${line?.key} choose=${(each) => choose(each.key)} fold=${fold}
        height=${lineHeight()} label="What will change" />
      <${Beside} change=${line?.change} from=${task.before_snapshot_id} isTurned
        close=${state.isPhone.value ? () => choose(null) : null} />
    </div>
    <footer class="confirm"><${Sums} sums=${sums} /><${Button} tone="bare" kbd="Esc"
      onClick=${cancel}>Cancel<//><${Button} tone="primary" icon="back" kbd="Ctrl ↵" why=${why}
      busy=${busy} onClick=${() => go()}>${busy ? "Undoing…" : "Undo this task"}<//></footer>
  </div>`;
}
