// What a person can do with a few keys: each asks in a small box what it needs, and says what it did.

import { html, signal, useRef, useState } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { LineText, Sums, countsOf, linesOf, summed } from "./changes.js";
import { failed, titleOf } from "./graph.js";
import {
  Button,
  Failed,
  Note,
  Popover,
  Said,
  Unheard,
  Waiting,
  isUnheard,
  useAnswer,
} from "./parts.js";
import * as state from "./state.js";
import { chosenId } from "./timeline.js";
import { many, number, plain, total } from "./text.js";

const LISTED = 5000;
const IN_BOX = 60;

/** What is asked now: `{what, ...}`; null if nothing is. */
const asked = signal(null);
export const ask = (what, about = {}) => (asked.value = { what, ...about });
const close = () => (asked.value = null);

/** The namespace that is open: an act that begins in it stays in it, whatever is opened then. */
const here = () => state.route.value.namespace;

/** The snapshot that is chosen on the timeline or has a page of its own. */
export function chosen() {
  const { screen, id } = state.route.value;
  if (screen === "snapshot") return state.findRow(id) ?? null;
  if (screen !== "timeline") return null;
  if (chosenId.value === null) return state.timeline.value?.rows[0] ?? null;
  return state.findRow(chosenId.value) ?? null;
}

/** Whether going back from a row means to go before it: a task that failed is what to get rid of. */
export const isBad = (row) => failed(row) && Boolean(row.parent);

export function goBack(row) {
  const { namespace } = state.route.value;
  if (isBad(row))
    state.go(state.to(["n", namespace, "goback", row.parent], { before: row.snapshot_id }));
  else state.go(state.to(["n", namespace, "goback", row.snapshot_id]));
}

export function compare(row) {
  const first = state.marked.value;
  const { namespace } = state.route.value;
  if (first && first.namespace === namespace && first.id !== row.snapshot_id) {
    state.marked.value = null;
    const other = state.findRow(first.id);
    const [old, now] =
      other && other.number > row.number
        ? [row.snapshot_id, first.id]
        : [first.id, row.snapshot_id];
    state.go(state.to(["n", namespace, "compare", `${old}...${now}`]));
  } else {
    state.marked.value = { namespace, id: row.snapshot_id, number: row.number };
    state.toast(`#${row.number} is marked. Choose another moment and press Compare again.`, {
      act: () => (
        (state.marked.value = null),
        state.go(state.to(["n", namespace, "compare", `${row.snapshot_id}...now`]))
      ),
      act_label: "Compare with now",
    });
  }
}

async function act(what, doing, otherwise) {
  try {
    const done = await doing();
    await state.refresh();
    return done;
  } catch (failure) {
    state.tell(failure, what);
    otherwise?.(failure);
    return null;
  }
}

export const pin = (row) =>
  act(row.pinned ? "Not unpinned" : "Not pinned", () =>
    namespaceOf(here())[row.pinned ? "unpin" : "pin"](row.snapshot_id),
  ).then((done) => done && state.say(row.pinned ? "Unpinned" : "Pinned"));

/** How much changed, in words: `128 changes`. */
const changesOf = (restored) =>
  many(
    Object.values(restored.changed ?? {}).reduce((sum, each) => sum + each, 0),
    "change",
  );

function sayBack(namespace, done, words, again) {
  if (!done.verified)
    return state.go(
      state.to(["n", namespace, "snapshot", done.snapshot.snapshot_id], { unverified: 1 }),
    );
  if (done.snapshot)
    state.go(state.to(["n", namespace, "timeline"], { sel: done.snapshot.snapshot_id }));
  return state.toast(`${words}: ${changesOf(done)}, verified.`, {
    act: again,
    act_label: words.startsWith("Undone") ? "Redo" : "Undo",
    after: done.snapshot && { namespace, number: done.snapshot.number },
    seconds: 20,
  });
}

/**
 * Takes one operation back, and nothing newer.
 *
 * The server has nothing to redo then: what was taken back so comes back in the same way.
 */
async function revert(namespace, operation, isRedo = false) {
  // Where both sides changed the same, the box shows what can be taken back in its place.
  const offer = ({ code }) =>
    code === "merge_conflict" && !isRedo && here() === namespace && ask("undo");
  const done = await act(
    isRedo ? "Not redone" : "Not undone",
    () => namespaceOf(namespace).undo({ operation }),
    offer,
  );
  if (done)
    sayBack(namespace, done, isRedo ? "Done again" : "Undone", () =>
      revert(namespace, done.snapshot.snapshot_id, !isRedo),
    );
}

async function redo(namespace) {
  const done = await act("Not redone", () => namespaceOf(namespace).redo());
  if (done)
    sayBack(namespace, done, "Done again", () => revert(namespace, done.snapshot.snapshot_id));
}

/** Says that a restore went well, with its undo; `anyway` if it did not matter what came since. */
export const restored = (namespace, done, target, anyway = false) =>
  sayBack(namespace, done, `Back at #${target.number}${anyway ? ", all the same" : ""}`, () =>
    revert(namespace, done.snapshot.snapshot_id),
  );

const undone = (anyway) => (anyway ? "Undone, all the same" : "Undone");

/** Says that a task was taken back, with the way to have it again. */
export const takenBack = (namespace, done, anyway) =>
  sayBack(namespace, done, undone(anyway), () =>
    revert(namespace, done.snapshot.snapshot_id, true),
  );

// Keys

const SCREENS = { t: "timeline", f: "files", k: "store", w: "tasks", s: "sessions" };

let before = null; // The key before, where two belong together.

export function press(key, event) {
  const { namespace, screen, query } = state.route.value;
  const row = chosen();
  const first = before;
  before = null;
  if (key === "?") return (ask("keys"), true);
  if (key === "g") return ((before = "g"), true);
  if (first === "g" && key in SCREENS && namespace)
    return (state.go(state.to(["n", namespace, SCREENS[key]])), true);
  if (first === "g" && key === "n") return (state.go(state.to()), true);
  if (first === "g" && key === "o") {
    state.go(state.to(["operations"], { from: namespace ?? query.get("in") }));
    return true;
  }
  if (
    namespace === undefined ||
    !state.opens(namespace) ||
    state.isAway.value ||
    event.ctrlKey ||
    event.metaKey
  )
    return false;
  if (key === "s" || key === "S") return (ask("keep"), true);
  if (key === "u" || key === "U") return (ask("undo"), true);
  if (!row || screen === "goback") return false;
  const lower = key.length === 1 ? key.toLowerCase() : key;
  if (lower === "r") return (goBack(row), true);
  if (lower === "p") return (pin(row), true);
  if (lower === "c") return (compare(row), true);
  if (lower === "f") return (ask("fork", { row }), true);
  if (lower === "l") return (ask("label", { row }), true);
  return false;
}

// What is asked

export function Asked() {
  const { what, row } = asked.value ?? {};
  if (what === "keys") return html`<${Keys} />`;
  if (what === "keep") return html`<${Keep} />`;
  if (what === "undo") return html`<${Undo} />`;
  if (what === "fork") return html`<${Fork} row=${row} />`;
  if (what === "label") return html`<${Label} row=${row} />`;
  if (what === "signout") return html`<${SignOut} />`;
  if (what === "delete") return html`<${Delete} row=${row} />`;
  return null;
}

/** One field or none, and a button that does it; it stays open where `doing` gives false. */
export function Form({
  title,
  button,
  icon,
  doing,
  children,
  why,
  wide,
  tone = "primary",
  shut = close,
}) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const form = useRef(null);
  const onSubmit = async (event) => {
    event.preventDefault();
    if (busy || why) return;
    setBusy(true);
    setFailure(null);
    try {
      if ((await doing(new FormData(form.current, event.submitter))) === false) setBusy(false);
      else shut();
    } catch (error) {
      setFailure(error);
      setBusy(false);
    }
  };
  return html`<${Popover} title=${title} close=${shut} wide=${wide}><form ref=${form}
    onSubmit=${onSubmit}>
    ${children}
    ${failure && html`<${Note} tone="bad" icon="warn" role="alert"><${Said}
      text=${[failure.message, failure.hint].filter(Boolean).join(". ")} /><//>`}
    <div class="ends"><${Button} tone="bare" onClick=${shut}>Cancel<//>
    <${Button} tone=${tone} icon=${icon} busy=${busy} why=${why} type="submit">${button}<//></div>
  </form><//>`;
}

const LONGEST_LABEL = 128;

function Keep() {
  const keep = async (form) => {
    const namespace = here();
    const done = await namespaceOf(namespace).keep({
      label: form.get("label").trim() || null,
      pin: form.get("pin") === "on",
    });
    await state.refresh();
    state.toast(`Kept as #${done.number}.`);
    if (state.route.value.screen === "timeline" && here() === namespace)
      state.go(state.to(["n", namespace, "timeline"], { sel: done.snapshot_id }), {
        replace: true,
      });
  };
  return html`<${Form} title="Keep this moment" button="Keep" icon="camera" doing=${keep}>
    <label class="field">What is it? <input name="label" maxlength=${LONGEST_LABEL}
      placeholder="before the release" autocomplete="off" /></label>
    <label class="tick"><input type="checkbox" name="pin"
      /> Pin it: it stays until you unpin it</label>
  <//>`;
}

/** What an undo would take back, and where from. */
async function lookBack(asked) {
  // Where it stands comes first: if it moves before the other answer, the undo is refused.
  const standing = await asked.status();
  const dry = await asked.undo({ dry_run: true, limit: LISTED });
  const at = standing.position ? await asked.snapshot(standing.position).catch(() => null) : null;
  return { standing, dry, at, sums: summed(countsOf(dry.changes, dry.counts)) };
}

/** Whether what is heard of a namespace meanwhile is not what somebody looked at. */
const isOver = ({ standing, sums }, { position, dirty, pending }) =>
  position !== standing.position ||
  dirty !== standing.dirty ||
  (pending && !pending.more && pending.count !== total(sums));

function Undo() {
  const [namespace] = useState(here);
  const asked = namespaceOf(namespace);
  const known = state.timeline.value?.namespace === namespace ? state.timeline.value : null;
  const heard = useRef(null); // What was heard when it was looked.
  const answer = useAnswer(() => ((heard.current = state.timeline.value), lookBack(asked)), [
    namespace,
  ]);
  const [kept, setKept] = useState(null); // Why it was looked at again.
  const seen = answer.value;
  const isOld = seen && known && known !== heard.current && isOver(seen, known);
  const again = (why) => (setKept(why), answer.again());
  const doing = async (form) => {
    const anyway = form.get("anyway") !== null;
    const { position } = seen.standing;
    let done;
    try {
      done = await asked.undo(
        anyway ? {} : { expected: position ?? undefined, expected_root: seen.dry.old_root },
      );
    } catch (failure) {
      if (failure.code !== "head_moved" && !isUnheard(failure)) throw failure;
      again(failure.code === "head_moved" ? { isOld: true } : { unheard: failure });
      return false;
    }
    await state.refresh();
    sayBack(namespace, done, undone(anyway), () => redo(namespace));
    return true;
  };
  const isNothing = answer.failure?.code === "nothing_to_undo";
  const why = isNothing ? "There is nothing to undo" : !seen && "It is not known yet what would change";
  return html`<${Form} title="Undo" button="Undo" icon="back" doing=${doing} wide
    why=${state.away() ?? (why || undefined)}>
    ${isNothing && html`<p>There is nothing to undo: no earlier state is kept.</p>`}
    ${seen && html`<${About} seen=${seen} />`}
    ${!seen && !answer.failure && html`<${Waiting} what="Looking what would change…" />`}
    ${answer.failure && !isNothing && html`<${Failed} failure=${answer.failure}
      again=${answer.again} />`}
    ${seen && html`<${WouldChange} dry=${seen.dry} sums=${seen.sums} namespace=${namespace} />`}
    <${Unheard} failure=${kept?.unheard} />
    ${seen && (kept?.isOld || isOld) && html`<${Note} tone="warn" icon="warn" role="alert">
      <strong>Something changed since you looked${isOld ? "." : ": this is what it takes back now."}
      </strong> ${isOld && html`<p class="act"><${Button} onClick=${() => again(kept)}>Look again<//>
      </p>`}${kept?.isOld && html`<p class="act"><${Button} type="submit" name="anyway"
      icon="back">Undo all the same<//></p>`}<//>`}
    ${known?.running.length > 0 && html`<${Note} tone="warn" icon="play">
      <strong>A task is running.</strong> “<bdi><${Said} text=${known.running[0].name} />
      </bdi>” may write again meanwhile.<//>`}
    <${Note} tone="safe" icon="shield">
      <strong>Nothing is lost.</strong> What is there now becomes a snapshot first, and Redo brings it all back.<//>
  <//>`;
}

/** Says what an undo takes back, as the look saw it. */
function About({ seen: { standing, at, sums } }) {
  if (standing.dirty)
    return html`<p>Takes back the <strong>${many(total(sums), "change")}</strong> since ${at ?
      `#${at.number}` : "the beginning"}.</p>`;
  return html`<p>Takes back the last change${at ? html`: <strong><bdi><${Said} text=${titleOf(at,
    state.findRow)} /></bdi></strong>, #${at.number}` : ""}.</p>`;
}

/** What an undo would change, in a few lines: the page of a comparison has all of it. */
function WouldChange({ dry, sums, namespace }) {
  const counts = countsOf(dry.changes, dry.counts);
  const lines = linesOf(dry.changes, counts);
  return html`<div class="preview" tabIndex="0" role="region" aria-label="What will change">
    <ul class="entries">${lines.slice(0, IN_BOX).map((line) => html`<li key=${line.key}
      class="change-line"><${LineText} line=${line} /></li>`)}</ul>
    ${lines.length > IN_BOX && html`<p class="quiet">${number(lines.length - IN_BOX)} more lines</p>`}
    </div>
    <${Sums} sums=${sums} />
    <p><a href=${state.to(["n", namespace, "compare", `${dry.snapshot_id}...now`])}
      onClick=${close}>Look at each on a page</a></p>`;
}

const GOOD_NAME = /^(?!.*(^|\/)\.\.?(\/|$))[^\p{Cc}\p{Cf}]{1,128}$/u;

function Fork({ row }) {
  const [name, setName] = useState("");
  const taken = (state.overview.value?.namespaces ?? []).some((each) => each.name === name.trim());
  const why = !name.trim()
    ? "It needs a name"
    : taken
      ? "There is a namespace of that name already"
      : !GOOD_NAME.test(name.trim()) || name.startsWith("/")
        ? "A name is 1 to 128 letters that can be seen, and does not read like a path"
        : undefined;
  const fork = async () => {
    const done = await namespaceOf(here()).fork({ name: name.trim(), at: row.snapshot_id });
    await state.loadOverview();
    state.toast(`Forked as ${plain(done.namespace)}.`, {
      act: () => state.go(state.to(["n", done.namespace, "timeline"])),
      act_label: "Open",
      seconds: 20,
    });
  };
  return html`<${Form} title=${`Fork from #${row.number}`} button="Fork" icon="fork" doing=${fork}
    why=${why}>
    <label class="field">Name of the new namespace <input name="name" maxlength="128" value=${name}
      onInput=${(event) => setName(event.currentTarget.value)} autocomplete="off"
      spellcheck=${false} aria-describedby="fork-why" /></label>
    <p class="quiet" id="fork-why" role="status">${name && why ? why :
      "Constant time, nothing is copied."}</p>
  <//>`;
}

function Label({ row }) {
  const label = async (form) => {
    await namespaceOf(here()).label(row.snapshot_id, form.get("label").trim() || null);
    await state.refresh();
  };
  return html`<${Form} title=${`What #${row.number} is called`} button="Save" icon="check"
    doing=${label}>
    <label class="field">Label <input name="label" maxlength=${LONGEST_LABEL}
      value=${row.label ?? ""} autocomplete="off" /></label>
  <//>`;
}

function Delete({ row }) {
  const remove = async () => {
    const namespace = here();
    await namespaceOf(namespace).remove(row.snapshot_id);
    await state.refresh();
    state.toast(`#${row.number} is off the timeline. An operator can bring it back for a while.`);
    state.go(state.to(["n", namespace, "timeline"]));
  };
  return html`<${Form} title=${`Delete #${row.number}`} button="Delete" icon="trash" tone="danger"
    doing=${remove}>
    <p><bdi><${Said} text=${titleOf(row, state.findRow)} /></bdi></p>
    <p>It goes off the timeline. An operator can bring it back for a while.</p>
  <//>`;
}

function SignOut() {
  const end = (everywhere) =>
    state.signOut(everywhere).then(close, (failure) => state.tell(failure, "Not signed out"));
  return html`<${Popover} title="Sign out" close=${close}>
    <p>Everywhere ends every session with one of the same keys, in other browsers, too.</p>
    <div class="ends">
      <${Button} onClick=${() => end(true)}>Sign out everywhere<//>
      <${Button} tone="primary" onClick=${() => end(false)}>Sign out here<//>
    </div>
  <//>`;
}

const KEYS = [
  ["j  k", "next, previous moment"],
  ["Enter", "open it"],
  ["R", "go back to it"],
  ["U", "undo"],
  ["S", "keep this moment"],
  ["P", "pin, unpin"],
  ["F", "fork from it"],
  ["L", "label it"],
  ["C", "mark it to compare; on another: compare"],
  ["/", "search"],
  ["[  ]", "file before, file after"],
  ["v", "unified or side by side"],
  ["g t", "timeline"],
  ["g s", "sessions"],
  ["g f", "files"],
  ["g k", "store"],
  ["g w", "tasks"],
  ["g n", "namespaces"],
  ["g o", "operations"],
  ["m  d  h", "of a session: conversation, state, versions"],
  ["Esc", "close"],
  ["Ctrl Enter", "confirm"],
  ["?", "this list"],
];

function Keys() {
  return html`<${Popover} title="Keys" close=${close} wide>
    <dl class="keys">${KEYS.map(([key, what]) => html`<div><dt>
      ${key.split("  ").map((each) => html`<kbd>${each}</kbd>`)}</dt><dd>${what}</dd></div>`)}</dl>
    <label class="tick"><input type="checkbox" checked=${state.letters.value}
      onChange=${(event) => state.setLetters(event.currentTarget.checked)}
      /> Single letters do something</label>
    <label class="tick"><input type="checkbox" checked=${state.housekeeping.value}
      onChange=${(event) => state.setHousekeeping(event.currentTarget.checked)}
      /> Show housekeeping: what was kept before going back</label>
    <div class="ends"><${Button} tone="primary" onClick=${close}>Close<//></div>
  <//>`;
}
