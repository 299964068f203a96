// What is shown, and what is done: signals that screens read, and acts that change them.

import { batch, computed, signal } from "../vendor/preact.js";
import * as api from "./api.js";

// Where we are

const BASE = new URL(document.baseURI);

function here() {
  const path = location.pathname.slice(BASE.pathname.length).replace(/\/$/, "");
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const query = new URLSearchParams(location.search);
  if (path === "") return { screen: "namespaces", query };
  if (path === "device") return { screen: "device", query };
  if (parts[0] === "n" && parts[1]) {
    const [, namespace, screen = "timeline", id] = parts;
    return { screen, namespace, id, query };
  }
  if (parts[0] === "operations" && parts.length <= 3)
    return { screen: "operations", part: parts[1] ?? "health", id: parts[2], query };
  return { screen: "nowhere", query };
}

export const route = signal(here());
addEventListener("popstate", () => (route.value = here()));

/** Returns the address of a screen of ours: the only thing that stands in an `href`. */
export function to(parts = [], query = {}) {
  const url = new URL(parts.map(encodeURIComponent).join("/"), BASE);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  return url.href;
}

export function go(address, { replace = false } = {}) {
  if (address === location.href) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  route.value = here();
}

/** The code of a program that shall be signed in, if the address has brought one. */
export const code = signal(null);

// Who we are

/** `undefined` until the server has said; null if nobody is signed in. */
export const session = signal(undefined);
export const signedOutWhy = signal(null);
api.onSignedOut.call = () => {
  if (session.value)
    signedOutWhy.value =
      "You were signed out: the key is no longer valid, or it is long since you were here.";
  forget();
};

/** Leaves nothing of whoever was signed in for whoever is next in this tab. */
function forget() {
  asking?.abort();
  batch(() => {
    session.value = null;
    overview.value = null;
    timeline.value = null;
    marked.value = null;
    toasts.value = [];
  });
}

export const isOperator = computed(() => Boolean(session.value?.admin));
export const canWork = computed(() => Boolean(session.value?.runtime));
/** Whether the session opens a namespace: an agent's key may be for another one. */
export const opens = (namespace) =>
  canWork.value && [null, undefined, namespace].includes(session.value.only);

export async function findSession() {
  try {
    session.value = readSession(await api.getSession());
  } catch (failure) {
    if (failure.status !== 401 && failure.status !== 404) throw failure;
    session.value = null;
  }
}

/** Signs in with a key or a link. */
export async function signIn(body) {
  await api.signIn(body);
  await findSession();
  if (!session.value)
    throw new Error(
      "Your browser did not keep the cookie that signs you in: allow cookies for this address.",
    );
  signedOutWhy.value = null;
}

/** Why nobody was signed in: `refused` where what they came with is not valid. */
export function whyNot(failure, refused) {
  if (failure.status === 401) return refused;
  if (failure.status === 429)
    return `Too many tries. Wait ${failure.retryAfter ? `${failure.retryAfter} seconds` :
      "a minute"} and try again.`;
  return [failure.message, failure.hint].filter(Boolean).join(" ");
}

/** What a session may do, with whichever keys it holds: an agent's, an operator's, or both. */
function readSession({ workspace_id: workspace, namespace: only, keys }) {
  const runtime = keys.find((key) => key.scope !== "admin") ?? null;
  const admin = keys.find((key) => key.scope === "admin") ?? null;
  return { workspace, runtime, admin, only };
}

export async function signOut(everywhere = false) {
  await api.signOut(everywhere);
  signedOutWhy.value = null;
  forget();
}

// How it looks

const remembered = (name) => {
  try {
    return localStorage.getItem(`holdfast.${name}`);
  } catch {
    return null;
  }
};
const remember = (name, value) => {
  try {
    localStorage.setItem(`holdfast.${name}`, value);
  } catch {
    // Then it holds for this page alone.
  }
};

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(
  document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : systemIsDark.matches,
);
systemIsDark.addEventListener("change", () => {
  if (!document.documentElement.dataset.theme) isDark.value = systemIsDark.matches;
});

export function turnTheme() {
  isDark.value = !isDark.value;
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  remember("theme", document.documentElement.dataset.theme);
}

const narrow = matchMedia("(max-width: 759px)");
export const isPhone = signal(narrow.matches);
narrow.addEventListener("change", () => (isPhone.value = narrow.matches));

/** Whether single letters do something (WCAG 2.1.4). */
export const letters = signal(remembered("letters") !== "off");
export function setLetters(on) {
  letters.value = on;
  remember("letters", on ? "on" : "off");
}
export const diffStyle = signal(remembered("diff") === "split" ? "split" : "unified");
export function setDiffStyle(style) {
  diffStyle.value = style;
  remember("diff", style);
}
export const ignoresSpace = signal(false);
export const housekeeping = signal(remembered("housekeeping") === "on");
export function setHousekeeping(on) {
  housekeeping.value = on;
  remember("housekeeping", on ? "on" : "off");
}

// What is said to the person

export const toasts = signal([]);
export const spoken = signal("");
let counter = 0;

/**
 * Says something; what it offers to do `after` a snapshot goes once somebody goes back from there.
 * @param {string} text
 * @param {{ act?: () => void, act_label?: string, after?: any, seconds?: number, bad?: boolean }} [how]
 */
export function toast(text, { act, act_label: label, after, seconds = 8, bad = false } = {}) {
  const id = (counter += 1);
  toasts.value = [...toasts.value.slice(-2), { id, text, act, label, after, bad, seconds }];
  return id;
}

/** Takes away what older messages offer: done after something newer, it would take that back. */
function retire(namespace, rows) {
  const last = rows.find(wentBack)?.number ?? 0;
  const isOver = ({ act, after }) => act && after?.namespace === namespace && after.number < last;
  if (toasts.value.some(isOver))
    toasts.value = toasts.value.map((each) => (isOver(each) ? { ...each, act: null } : each));
}
export const dismiss = (id) => (toasts.value = toasts.value.filter((each) => each.id !== id));
export const say = (text) => (spoken.value = text);

/** Tells that something failed, in the server's words. */
export function tell(failure, what) {
  const from = failure.requestId ? ` (${failure.requestId})` : "";
  toast(`${what}: ${failure.message}${from}`, { bad: true, seconds: 20 });
}

// What there is

/** Namespaces with what is known of each; null until asked for. */
export const overview = signal(null);

export async function loadOverview() {
  const asker = session.value;
  if (!asker?.admin) return;
  const found = await everyNamespace(asker.workspace).then(
    (namespaces) => ({ namespaces, failure: null }),
    (failure) => ({ namespaces: overview.value?.namespaces ?? [], failure }),
  );
  if (session.value === asker) overview.value = found;
}

async function everyNamespace(workspace) {
  const all = [];
  try {
    for (let after; all.length < 5000;) {
      const page = await api.getOverview(workspace, { limit: 1000, starting_after: after });
      all.push(...page.namespaces);
      if (!page.has_more || !page.namespaces.length) break;
      after = page.namespaces.at(-1).namespace;
    }
    return all.map((each) => ({ ...each, name: each.namespace }));
  } catch (failure) {
    // A server without an overview still has names.
    if (failure.status !== 404 && failure.status !== 405) throw failure;
    const { namespaces } = await api.listNamespaces(workspace);
    return namespaces.map((name) => ({ name }));
  }
}

/** Namespaces in the order in which they are shown: forks below what they were made from. */
export function asTree(namespaces) {
  const children = new Map();
  const names = new Set(namespaces.map((each) => each.name));
  for (const each of namespaces) {
    const above =
      names.has(each.forked_from) && each.forked_from !== each.name ? each.forked_from : null;
    if (!children.has(above)) children.set(above, []);
    children.get(above).push(each);
  }
  const rows = [];
  const seen = new Set();
  const add = (above, depth) => {
    for (const each of children.get(above) ?? []) {
      if (seen.has(each.name)) continue;
      seen.add(each.name);
      rows.push({ ...each, depth: Math.min(depth, 3) });
      add(each.name, depth + 1);
    }
  };
  add(null, 0);
  // Whoever was forked in a circle, by names that were given again, stands at the end.
  for (const each of namespaces) if (!seen.has(each.name)) rows.push({ ...each, depth: 0 });
  return rows;
}

/**
 * The timeline of the namespace that is open: `rows` newest first, as far as they were asked for.
 *
 * Of what comes after those, `ahead` has some that somebody jumped to: `rows`, of which the first is
 * about the one with the index `from` of all.
 */
export const timeline = signal(null);
const PAGE = 100;
let asking = null;

export async function openTimeline(namespace) {
  // Who asks for what is being asked for already waits for that.
  if (timeline.value?.namespace === namespace) return underWay ?? refresh();
  asking?.abort();
  wanted = 0;
  timeline.value = {
    namespace,
    rows: [],
    hasMore: false,
    loading: true,
    failure: null,
    running: [],
    pending: null,
  };
  return refresh();
}

const WENT_BACK = new Set(["restore", "undo", "redo"]);
export const wentBack = (row) => WENT_BACK.has(row.kind);

/** Returns a row of the timeline that is there, by the id of its snapshot. */
export const findRow = (id) => timeline.value?.rows.find((row) => row.snapshot_id === id);

const isOpen = (namespace) => timeline.value?.namespace === namespace;
const put = (fields) => (timeline.value = { ...timeline.value, ...fields });

let underWay = null;
let afterwards = null;

/**
 * Asks for the newest rows again and puts them before those that are there.
 *
 * While one asks, who comes waits for the next: events that come quicker than answers must not end
 * each answer before it is there.
 */
export function refresh() {
  if (!underWay) return begin();
  afterwards ??= underWay.then(() => ((afterwards = null), begin()));
  return afterwards;
}

function begin() {
  const own = (underWay = askAnew().finally(() => {
    if (underWay === own && !afterwards) underWay = null;
  }));
  return own;
}

async function askAnew() {
  const { namespace } = timeline.value ?? {};
  if (namespace === undefined) return;
  const stop = (asking = new AbortController());
  const asked = api.namespaceOf(namespace);
  try {
    const [page, standing, tasks] = await Promise.all([
      asked.timeline({ limit: PAGE }, stop.signal),
      asked.status(),
      asked.running(),
    ]);
    if (!isOpen(namespace) || stop.signal.aborted) return;
    const last = page.snapshots.at(-1);
    // Where more came than a page holds, what is between is not known: it is asked for again.
    const isNext =
      page.has_more && timeline.value.rows.some((row) => row.snapshot_id === last.snapshot_id);
    const older = isNext ? timeline.value.rows.filter((row) => row.number < last.number) : [];
    const came = page.snapshots.length + older.length - timeline.value.rows.length;
    const { ahead } = timeline.value;
    put({
      rows: [...page.snapshots, ...older],
      ahead: ahead && isNext ? { ...ahead, from: ahead.from + came } : null,
      hasMore: older.length ? timeline.value.hasMore : page.has_more,
      total: page.total ?? null,
      dirty: page.dirty,
      entries: page.entries,
      size: page.size_bytes,
      position: standing.position,
      exists: standing.exists,
      directory: standing.directory ?? null,
      running: tasks.tasks,
      failure: null,
      ...(timeline.value.rows.length ? {} : { loading: false }),
    });
    retire(namespace, page.snapshots);
    await lookAtPending(asked, namespace, stop.signal);
  } catch (failure) {
    if (!stop.signal.aborted && isOpen(namespace)) put({ loading: false, failure });
  }
}

/** Looks whether somebody has written since, where no event says so. */
export async function lookAtNow() {
  const { namespace, loading } = timeline.value ?? {};
  if (namespace === undefined || loading || !opens(namespace)) return;
  const asked = api.namespaceOf(namespace);
  try {
    const standing = await asked.status();
    if (!isOpen(namespace)) return;
    if (standing.position !== timeline.value.position) return refresh();
    if (
      standing.dirty !== timeline.value.dirty ||
      standing.size_bytes !== timeline.value.size ||
      standing.entries !== timeline.value.entries
    ) {
      put({ dirty: standing.dirty, entries: standing.entries, size: standing.size_bytes });
      await lookAtPending(asked, namespace);
    }
  } catch {
    // The stream says when the server is away.
  }
}

const MOST_PENDING = 1000;

async function lookAtPending(asked, namespace, stop) {
  if (!timeline.value.dirty) return put({ pending: null });
  const page = await asked.diff({ limit: MOST_PENDING }, stop);
  if (isOpen(namespace))
    put({ pending: { count: page.changes.length, more: page.truncated, changes: page.changes } });
}

const AHEAD = 120;
let looking = null;

/**
 * Asks for the rows from about an index on, long before those between them are there.
 *
 * Where a snapshot is that far down, its number tells: those that are gone are taken to be spread
 * evenly.
 */
export async function lookAhead(from) {
  const { namespace, rows, ahead, total } = timeline.value ?? {};
  if (!rows?.length || !total || total <= rows.length) return;
  if (ahead && from >= ahead.from && from + AHEAD / 2 <= ahead.from + ahead.rows.length) return;
  if (looking?.from === from) return;
  looking?.stop.abort();
  const own = (looking = { from, stop: new AbortController() });
  const last = rows.at(-1).number;
  const share = (from - rows.length + 1) / (total - rows.length);
  const before = Math.max(1, Math.round(last - (last - 1) * share)) + 1;
  try {
    const page = await api
      .namespaceOf(namespace)
      .timeline({ limit: AHEAD, before }, own.stop.signal);
    if (isOpen(namespace) && looking === own) put({ ahead: { from, rows: page.snapshots } });
  } catch {
    // What is between will come, too, and says what failed.
  } finally {
    if (looking === own) looking = null;
  }
}

let wanted = 0;

/**
 * Asks for older rows until there are so many, or no more.
 *
 * They are shown when a quarter more are there than before: laying out 10,000 rows takes a moment,
 * and a jump to their end must not do so for every page.
 */
export async function loadMore(count) {
  wanted = Math.max(wanted, count);
  const { namespace, rows, hasMore, loading } = timeline.value ?? {};
  if (!hasMore || loading || !rows.length) return;
  put({ loading: true });
  let more = [];
  let goesOn = true;
  const show = (fields) => {
    const last = timeline.value.rows.at(-1)?.number ?? 0;
    put({
      rows: [...timeline.value.rows, ...more.filter((row) => row.number < last)],
      hasMore: goesOn,
      ...fields,
    });
    more = [];
  };
  try {
    while (goesOn && timeline.value.rows.length + more.length < wanted) {
      const { number } = more.at(-1) ?? timeline.value.rows.at(-1);
      const page = await api.namespaceOf(namespace).timeline({ limit: 200, before: number });
      if (!isOpen(namespace)) return;
      more.push(...page.snapshots);
      goesOn = page.has_more;
      if (more.length > timeline.value.rows.length / 4) show({});
    }
    show({ loading: false });
  } catch (failure) {
    if (isOpen(namespace)) show({ loading: false, failure });
  }
}

// Whether we hear the server

/**
 * `state` is `starting`, `live`, `asking` where there is no stream and we look now and then, or
 * `away`; `heard` is when we last did.
 */
export const link = signal({ state: "starting", heard: null });
export const hearing = computed(() => link.value.state);
export const isAway = computed(() => hearing.value === "away");
/** Why nothing can be done now, for the buttons that would; undefined while the server is there. */
export const away = () => (isAway.value ? "The server cannot be reached now" : undefined);

// Two moments that shall be compared: the first is marked, the second compares

export const marked = signal(null);

/** The newest number that was there when this timeline was opened: what is above it slides in. */
export const firstSeen = signal(null);
