// Going back: exactly what will change, ticked by ticked, before anything does.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { restored } from "./acts.js";
import { namespaceOf } from "./api.js";
import { Sums, countsOf, keyOf, linesOf, lineName, newChanges, running } from "./changes.js";
import { Beside, Ends, List, firstOf, lineHeight, useFolds } from "./compare.js";
import { titleOf } from "./graph.js";
import {
  Button,
  Failed,
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
import { filesAt, placeNamed, storeAt } from "./places.js";
import * as state from "./state.js";
import { PLANES, many, number, plain, total } from "./text.js";

const LISTED = 5000;
const LONGEST_REASON = 4096;

const nameOf = ({ plane, name, namespace, key, name_b64: bytes }) =>
  plane === "store"
    ? { plane, namespace, key }
    : bytes
      ? { plane, name_b64: bytes }
      : { plane, name: name.replace(/(?<=.)\/$/, "") };

/** What a path lies in: every folder above it. */
const foldersOf = (path) =>
  [...path.replace(/\/$/, "").matchAll(/\//g)].map(({ index }) => path.slice(0, index));
const pathOf = (change) => (change.plane === "files" ? change.name.replace(/(?<=.)\/$/, "") : null);

/**
 * What to ask for, so that exactly what is ticked changes; null for everything.
 *
 * Names are literal, but that of a folder stands for what is below it: what is not ticked there is
 * left out by name. What is not listed goes with the box of its plane.
 */
function choiceOf(changes, off, counts, only) {
  if (!off.size) return null;
  const ticked = changes.filter((change) => !off.has(keyOf(change)));
  const left = changes.filter((change) => off.has(keyOf(change)));
  const above = new Set(
    ticked.flatMap((change) => (change.plane === "files" ? foldersOf(change.name) : [])),
  );
  const chosen = new Set(ticked.map(pathOf));
  // To leave a folder out by name would leave out what is ticked below it.
  const spared = left.filter((change) => change.plane !== "files" || !above.has(pathOf(change)));
  const unlisted = unlistedOf(changes, counts).filter((plane) => !off.has(restOf(plane)));
  if (!unlisted.length) {
    const below = spared.filter(
      (change) =>
        change.plane === "files" && foldersOf(change.name).some((folder) => chosen.has(folder)),
    );
    return { names: ticked.map(nameOf), ...(below.length && { except: below.map(nameOf) }) };
  }
  if (only) return { names: [only], except: spared.map(nameOf) };
  const planes = PLANES.map(([plane]) => plane).filter(
    (plane) => unlisted.includes(plane) || ticked.some((change) => change.plane === plane),
  );
  return { planes, except: spared.filter(({ plane }) => planes.includes(plane)).map(nameOf) };
}

/** What stands among the keys of what is not ticked for all of a plane that is not listed. */
const restOf = (plane) => `rest\0${plane}`;
const unlistedOf = (changes, counts) =>
  PLANES.map(([plane]) => plane).filter(
    (plane) => total(counts[plane]) > changes.filter((change) => change.plane === plane).length,
  );

/** The title of a plane of which single changes are ticked while another goes with all that is not
 * listed; null if there is none: no request says both. */
function tornOf(changes, off, counts) {
  const unlisted = unlistedOf(changes, counts);
  const shut = unlisted.filter((plane) => off.has(restOf(plane)));
  if (shut.length === unlisted.length) return null;
  const torn = shut.find((plane) =>
    changes.some((change) => change.plane === plane && !off.has(keyOf(change))),
  );
  return PLANES.find(([plane]) => plane === torn)?.[1] ?? null;
}

/** How many of each kind are ticked. */
function sumsOf(changes, off, counts) {
  const sums = { added: 0, changed: 0, removed: 0 };
  const rest = new Set(PLANES.map(([plane]) => plane).filter((plane) => off.has(restOf(plane))));
  for (const [plane] of PLANES)
    if (!rest.has(plane))
      for (const word of Object.keys(sums)) sums[word] += counts[plane]?.[word] ?? 0;
  for (const change of changes) {
    const isOff = off.has(keyOf(change));
    if (rest.has(change.plane)) sums[change.change] += isOff ? 0 : 1;
    else if (isOff) sums[change.change] -= 1;
  }
  return sums;
}

const sumOf = (counts) => Object.values(counts ?? {}).reduce((sum, each) => sum + total(each), 0);

/** The one thing that an address says to bring back; null for everything. */
function readOnly(query) {
  try {
    const { plane, name, name_b64: bytes, namespace, key } = JSON.parse(query.get("only"));
    const some = { plane, name, name_b64: bytes, namespace, key };
    const isText = Object.values(some).every(
      (each) => each === undefined || typeof each === "string",
    );
    if (bytes !== undefined) atob(bytes);
    return isText && PLANES.some(([each]) => each === plane) ? some : null;
  } catch {
    return null;
  }
}

/** Asks what would change, and for whatever else the page says. */
async function look(namespace, id, before, only) {
  const asked = namespaceOf(namespace);
  const [target, standing, tasks, dry, failed] = await Promise.all([
    asked.snapshot(id),
    asked.status(),
    asked.running(),
    asked.restore(id, { ...chosenAlone(only), dry_run: true, limit: LISTED }),
    before ? asked.snapshot(before).catch(() => null) : null,
  ]);
  const at = standing.position ? await asked.snapshot(standing.position).catch(() => null) : null;
  return { target, standing, at, tasks: tasks.tasks, dry, failed };
}

const chosenAlone = (only) => only && { names: [only] };

export function GoBack() {
  const { namespace, id, query } = state.route.value;
  const before = query.get("before");
  const only = readOnly(query);
  const heading = useRef(null);
  const answer = useAnswer(
    () => look(namespace, id, before, only),
    [namespace, id, before, query.get("only")],
  );
  const [kept, setKept] = useState(null); // What was seen before somebody else changed something.
  const cancel = () =>
    state.go(
      only?.plane === "files"
        ? filesAt(namespace, placeNamed(only), { show: "history" })
        : only?.plane === "store"
          ? storeAt(namespace, [only.namespace, only.key], { show: "history" })
          : state.to(["n", namespace, "timeline"], { sel: before ?? id }),
    );
  useTitle("Go back");
  if (answer.failure) {
    return html`<div class="goback"><header class="head"><h1 tabIndex="-1"
      ref=${heading}>Go back</h1></header>
      <div class="warnings"><${Unheard} failure=${kept?.unheard} /></div>
      <div class="empty"><${Failed} failure=${answer.failure} again=${answer.again} /><p><${Button}
        onClick=${cancel}>Timeline<//></p></div></div>`;
  }
  if (!answer.value) return html`<${Waiting} what="Looking what would change…" />`;
  return html`<${Preview} seen=${answer.value} kept=${kept} cancel=${cancel} only=${only}
    again=${(what) => (setKept(what), answer.again())} />`;
}

function Preview({ seen, kept, again, cancel, only }) {
  const { target, dry, failed, standing } = seen;
  const { namespace } = state.route.value;
  const { changes } = dry;
  const counts = useMemo(() => countsOf(changes, dry.counts), [dry]);
  const [folds, fold] = useFolds();
  const [off, setOff] = useState(
    () =>
      new Set(
        kept
          ? [...changes.map(keyOf), ...unlistedOf(changes, counts).map(restOf)].filter((key) =>
              kept.off.has(key),
            )
          : [],
      ),
  );
  const [chosen, choose] = useState(null);
  const [reason, setReason] = useState(kept?.reason ?? "");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(null);
  const heading = useRef(null);
  const lines = useMemo(() => linesOf(changes, counts, folds), [changes, counts, folds]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);

  const sums = sumsOf(changes, off, counts);
  const left = total(sums);
  const away = state.away();
  const torn = tornOf(changes, off, counts);
  const why =
    away ??
    (left === 0
      ? "Nothing is ticked: nothing would change"
      : torn && `Not all of ${torn} is listed: tick all of it, or none`);

  /** Goes back, if nobody wrote since it was looked at; `anyway`, whatever they wrote. */
  const go = async (anyway = false) => {
    if (busy || why) return;
    setBusy(true);
    setWrong(null);
    const asked = namespaceOf(namespace);
    const choice = choiceOf(changes, off, counts, only) ?? chosenAlone(only);
    let isSent = false;
    try {
      if (!anyway) {
        // What is there may have changed since, in no snapshot yet: look once more.
        const now = await asked.restore(id(target), { ...choice, dry_run: true, limit: LISTED });
        const ticked = changes.filter((change) => !off.has(keyOf(change)));
        const fresh = dry.truncated ? [] : newChanges(ticked, now.changes);
        if (fresh.length || sumOf(now.counts) !== left)
          return again({
            off,
            reason,
            fresh,
            count: Math.max(fresh.length, Math.abs(sumOf(now.counts) - left)),
          });
      }
      isSent = true;
      const done = await asked.restore(id(target), {
        ...choice,
        expected: (!anyway && standing.position) || undefined,
        reason: reason.trim() || undefined,
      });
      await state.refresh();
      return restored(namespace, done, target, anyway);
    } catch (failure) {
      setBusy(false);
      if (failure.code === "head_moved") {
        const now = await asked
          .restore(id(target), { ...chosenAlone(only), dry_run: true, limit: LISTED })
          .catch(() => null);
        const fresh = now ? newChanges(changes, now.changes) : [];
        return again({ off, reason, fresh, count: Math.max(fresh.length, 1) });
      }
      return isSent && isUnheard(failure)
        ? again({ off, reason, unheard: failure })
        : setWrong(failure);
    }
  };
  useKeys(
    (key, event) => {
      if (key === "Enter" && (event.ctrlKey || event.metaKey)) return (go(), true);
      if (key !== "Escape" || event.target.closest?.("[role=dialog]")) return false;
      if (event.target.type === "text") event.target.blur();
      else if (chosen && state.isPhone.value) choose(null);
      else cancel();
      return true;
    },
    { everywhere: true },
  );

  const turn = (keys, on) => {
    const next = new Set(off);
    for (const key of keys) on ? next.delete(key) : next.add(key);
    setOff(next);
  };
  const tick = (line) => {
    const keys = (line.items ?? [line.change]).map(keyOf);
    if (line.more > 0) keys.push(restOf(line.plane));
    const some = keys.filter((key) => !off.has(key)).length;
    const isAll = some === keys.length;
    return html`<label class="ticked"><input type="checkbox" checked=${isAll} ref=${(box) => box &&
      (box.indeterminate = some > 0 && !isAll)} aria-label=${lineName(line)}
      onChange=${() => turn(keys, !isAll)} /></label>`;
  };

  const title = only
    ? html`Bring back “<bdi><${Said} text=${only.name ?? changes[0]?.name ?? only.key ?? ""} />
      </bdi>”`
    : failed
    ? html`Go back to before “<bdi><${Said} text=${titleOf(failed, state.findRow)} /></bdi>”`
    : target.label
      ? html`Go back to “<bdi><${Said} text=${target.label} /></bdi>”`
      : `Go back to #${target.number}`;
  const line =
    lines.find((each) => each.key === chosen) ?? (state.isPhone.value ? null : firstOf(lines));
  const at = seen.at;
  const words = `${at ? `after #${at.number}` : ""}${standing.dirty ? `${at ? ", " :
    ""}with changes not in a snapshot` : ""}`;
  const pending =
    state.timeline.value?.namespace === namespace ? state.timeline.value.pending : null;
  const exact =
    standing.dirty && pending
      ? words.replace(
          "with changes",
          `with ${number(pending.count)}${pending.more ? "+" : ""} ${pending.count === 1 ?
            "change" : "changes"}`,
        )
      : words;
  if (!changes.length && !sumOf(counts)) {
    return html`<div class="goback"><header class="head"><h1 tabIndex="-1" ref=${heading}>${title}
      </h1><${Ends} old=${null} now=${target} words=${exact} /></header>
      <div class="warnings"><${Unheard} failure=${kept?.unheard} /></div>
      <div class="empty"><h2>That is how it is now</h2><p>Nothing would change.</p><p><${Button}
        onClick=${cancel}>Timeline<//></p></div></div>`;
  }
  return html`<div class="goback">
    <header class="head"><h1 tabIndex="-1" ref=${heading}>${title}</h1>
      <p class="quiet">This is exactly what will change. ${only ? html`Everything else stays. <a
        href=${state.to(["n", namespace, "goback", id(target)])}>Go back with all of it</a>` :
        "Untick what should stay as it is."}</p>
      <${Ends} old=${null} now=${target} words=${exact} /></header>
    <div class="warnings"><${Warnings} seen=${seen} kept=${kept} wrong=${wrong}
      anyway=${html`<${Button} icon="back" why=${why} busy=${busy} onClick=${() => go(true)}>Go back
        all the same<//>`} /></div>
    <div class=${`halves ${chosen ? "opened" : ""}`}>
      <${List} lines=${lines} chosen=${line?.key} choose=${(each) => choose(each.key)} fold=${fold}
        tick=${tick} height=${lineHeight()} label="What will change" />
      <${Beside} change=${line?.change} from=${id(target)} isTurned close=${state.isPhone.value ?
        () => choose(null) : null} />
    </div>
    <footer class="confirm">
      <${Sums} sums=${sums} />
      <input type="text" value=${reason} maxlength=${LONGEST_REASON}
        placeholder="Why? It is kept in the history" aria-label="Why? It is kept in the history"
        onInput=${(event) => setReason(event.currentTarget.value)} />
      <${Button} tone="bare" kbd="Esc" onClick=${cancel}>Cancel<//>
      <${Button} tone="primary" icon="back" kbd="Ctrl ↵" why=${why} busy=${busy}
        onClick=${() => go()}>${busy ? "Going back…" : "Go back"}<//>
      ${why && html`<p class="hidden" role="status">${why}</p>`}
    </footer>
  </div>`;
}

const id = (snapshot) => snapshot.snapshot_id;

function Warnings({ seen, kept, wrong, anyway }) {
  const { dry, tasks, target, standing } = seen;
  const runs = running(dry.changes);
  const said = { added: "comes back", removed: "goes away", changed: "changes" };
  const sessions = total(dry.counts?.sessions);
  const listed = (names) =>
    html`<ul class="names">${names.slice(0, 6).map((name) => html`<li class="mono"><${Path}
      text=${name} /></li>`)}</ul>${names.length > 6 ? `and ${number(names.length - 6)} more` :
      ""}`;
  return html`
    ${wrong && html`<${Note} tone="bad" icon="warn" role="alert">
      <strong>Nothing was changed.</strong> <${Said} text=${wrong.message} /> ${wrong.requestId &&
      html`<span class="mono">${wrong.requestId}</span>`}<//>`}
    <${Unheard} failure=${kept?.unheard} />
    ${kept?.count && html`<${Note} tone="warn" icon="warn" role="alert"><strong>${many(kept.count,
      "more change")} since you looked.</strong> Your ticks are as they were: look again, then go back.${kept.fresh.length > 0 &&
      listed(kept.fresh.map((change) => change.name))}
      <p>If it keeps changing, go back whatever comes: what is there then becomes a snapshot first.
      </p><p class="act">${anyway}</p><//>`}
    ${tasks.map((task) => html`<${Note} key=${task.task_id} tone="warn" icon="play">
      <strong>A task is running.</strong> “<bdi><${Said} text=${task.name} />
      </bdi>” may write again while you go back. What it changed since is undone, and kept.<//>`)}
    ${runs.length > 0 && html`<${Note} tone="warn" icon="warn">
      <strong>Other programs run what ${runs.length === 1 ? "this file says" :
      "these files say"}:</strong> <ul class="names">${runs.slice(0, 6).map((change) => html`<li>
      <span class="mono"><${Path} text=${change.name} /></span> ${said[change.change]}</li>`)}</ul>
      ${runs.length > 6 && `and ${number(runs.length - 6)} more`}<//>`}
    ${(dry.partial || target.partial) && html`<${Note} tone="warn" icon="warn">
      <strong>That moment is not whole.</strong> What could not be captured then stays as it is now.${dry.uncaptured.length > 0 &&
      listed(dry.uncaptured)}<//>`}
    ${sessions > 0 && html`<${Note} tone="quiet" icon="session"><strong>${many(sessions,
      "session")} ${sessions === 1 ? "goes" :
      "go"} back with it.</strong> Untick ${sessions === 1 ? "it" :
      "them"} to keep what was said since.<//>`}
    ${dry.kept?.length > 0 && html`<${Note} tone="quiet" icon="folder">
      <strong>These folders stay:</strong> something lies in them that is not captured.${listed(dry.kept)}
      <//>`}
    ${dry.left_alone?.length > 0 && html`<${Note} tone="quiet"
      icon="memory">The snapshot is older than ${dry.left_alone.map(plain).join(", ")}: they stay as they are.<//>`}
    ${standing.directory && html`<${Note} tone="quiet" icon="folder">
      <strong>The directory changes with it:</strong> <span class="mono"><${Path}
      text=${standing.directory} /></span><//>`}
    ${!standing.directory && target.detail?.coverage && html`<${Note} tone="quiet"
      icon="folder">A directory that is attached on another machine follows when that machine next asks.<//>`}
    <${Note} tone="safe" icon="shield">
      <strong>Nothing is lost.</strong> What is there now becomes a snapshot first, and Undo brings it all back.<//>`;
}
