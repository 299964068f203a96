// The one place that speaks to the server: the public HTTP API, with the session's cookie.
//
// URLs are relative to `<base href>`, so that a console below a prefix works like any other. What
// is not a GET carries a header that no form of another site can send.

const ROOT = new URL("../", document.baseURI);

/** What went wrong, with what the server says of it; `status` is 0 where it was not reached. */
class Failure extends Error {
  /**
   * @param {number} status
   * @param {Record<string, any>} [problem]
   */
  constructor(status, problem = {}) {
    super(problem.message || "The server cannot be reached.");
    this.status = status;
    this.code = problem.code ?? (status ? `http_${status}` : "unreachable");
    this.requestId = problem.request_id ?? null;
    this.hint = problem.suggestion ?? null;
    this.retryAfter = problem.retry_after ?? null;
    this.values = problem.values ?? {};
  }
}

/**
 * Is called with every failure that says that the session is over.
 * @type {{ call: (failure?: Failure) => void }}
 */
export const onSignedOut = { call: () => {} };

const asHeader = (name) => String.fromCharCode(...new TextEncoder().encode(name));

export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    // An empty text is left out; in a list it is meant: a key of the store may be one.
    for (const each of Array.isArray(value) ? value : [value === "" ? null : value]) {
      if (each !== undefined && each !== null) url.searchParams.append(name, each);
    }
  }
  return url;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{ query?: object, body?: unknown, namespace?: string, signal?: AbortSignal, wait?: number }} [how]
 */
async function send(method, path, { query, body, namespace, signal, wait = 30000 } = {}) {
  const headers = { Accept: "application/json" };
  if (namespace !== undefined) headers["X-Namespace"] = asHeader(namespace);
  if (method !== "GET") headers["X-Holdfast-Console"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(wait);
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      redirect: "error",
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(0);
  }
  let said = null;
  try {
    if (answer.status !== 204) said = await answer.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    // Done or not: nobody here has read what the server said of it.
    if (answer.ok) throw new Failure(0, { message: "The server’s answer broke off." });
  }
  if (answer.ok) return said;
  const failure = new Failure(answer.status, {
    request_id: answer.headers.get("X-Request-Id"),
    retry_after: Number(answer.headers.get("Retry-After")) || null,
    message: said?.detail || `The server answered ${answer.status}.`,
    ...said?.error,
  });
  if (answer.status === 401 && path !== SESSION) onSignedOut.call(failure);
  throw failure;
}

/**
 * Returns the bytes of a file, or the first of them; who asks knows that they are not too many.
 * @param {string} path
 * @param {object} query
 * @param {string} namespace
 * @param {{ signal?: AbortSignal, first?: number }} [how]
 */
async function read(path, query, namespace, { signal, first } = {}) {
  let answer;
  try {
    answer = await fetch(address(path, query), {
      headers: {
        "X-Namespace": asHeader(namespace),
        ...(first && { Range: `bytes=0-${first - 1}` }),
      },
      credentials: "same-origin",
      redirect: "error",
      cache: "no-store",
      signal,
    });
    if (answer.ok) return await answer.arrayBuffer();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(0);
  }
  throw new Failure(answer.status, { message: `The server answered ${answer.status}.` });
}

/** What the server calls the state before the first snapshot, where two are compared. */
export const NOTHING = "nothing";

const SESSION = "console/session";

export const getSession = () => send("GET", SESSION);
export const signIn = (body) => send("POST", SESSION, { body });
export const signOut = (everywhere) =>
  send("DELETE", SESSION, { query: everywhere ? { everywhere: true } : {} });

const logins = (workspace) => `v1/workspaces/${encodeURIComponent(workspace)}/logins`;
export const findLogin = (workspace, code) =>
  send("POST", `${logins(workspace)}/find`, { body: { user_code: code } });
/** Lets a program in (`approve`), or not (`deny`). */
export const decideLogin = (workspace, act, body) =>
  send("POST", `${logins(workspace)}/${act}`, { body });

const inside = (namespace, id) => `v1/snapshots/${encodeURIComponent(id)}${namespace}`;

export const getOverview = (workspace, query) =>
  send("GET", `v1/workspaces/${encodeURIComponent(workspace)}/overview`, { query });
export const listNamespaces = (workspace, after) =>
  send("GET", `v1/workspaces/${encodeURIComponent(workspace)}/namespaces`, {
    query: { limit: 1000, starting_after: after },
  });

/**
 * How a file is asked for: by its path, or where that is no text by its bytes.
 * @param {{ path: string, bytes?: string }} file
 */
const asPath = ({ path, bytes }) => (bytes ? { path_b64: bytes } : { path: `workspace/${path}` });

const ofSession = (id, rest = "") => `v1/sessions/${encodeURIComponent(id)}${rest}`;
/** How a list goes on after one of its files. */
const afterPath = (last) =>
  !last
    ? {}
    : last.path_b64
      ? { starting_after_b64: last.path_b64 }
      : { starting_after: last.path };

/** @typedef {{ after?: any, [name: string]: any }} Part What of a list is asked for. */

/** What one namespace answers, and does. */
export function namespaceOf(namespace) {
  const get = (path, query, signal) => send("GET", path, { query, namespace, signal });
  const post = (path, body) => send("POST", path, { body, namespace, wait: 600000 });
  return {
    timeline: (query, signal) =>
      get("v1/timeline", { with: "changes,task,actor", ...query }, signal),
    snapshot: (id) => get(`v1/timeline/${encodeURIComponent(id)}`),
    status: () => get("v1/status"),
    history: (query, signal) => get("v1/history", query, signal),
    running: () => get("v1/tasks", { status: "running", limit: 20 }),
    task: (id) => get(`v1/tasks/${encodeURIComponent(id)}`),
    diff: (query, signal) => get("v1/diff", query, signal),
    textDiff: (file, query, signal) => get("v1/diff/text", { ...asPath(file), ...query }, signal),
    files: (folder, /** @type {Part} */ { after, ...query }, signal) =>
      get("v1/files/list", { ...asPath(folder), ...afterPath(after), ...query }, signal),
    stat: (file, at, signal) => get("v1/files/stat", { ...asPath(file), at }, signal),
    filesNamed: (pattern, /** @type {Part} */ { after, ...query }, signal) =>
      get("v1/files/glob", { pattern, ...afterPath(after), ...query }, signal),
    sessions: (query, signal) => get("v1/sessions", query, signal),
    value: ({ namespace: space, key, at }, signal) =>
      get("v1/store/value", { namespace: [space], key: [key], at }, signal),
    storeNamespaces: (query, signal) => get("v1/store/namespaces", query, signal),
    storeKeys: (space, query, signal) =>
      get("v1/store/keys", { namespace: [space], ...query }, signal),
    tasks: (query, signal) => get("v1/tasks", query, signal),
    state: (id, query, signal) => get(`v1/sessions/${encodeURIComponent(id)}/state`, query, signal),
    session: (id, signal) => get(ofSession(id), {}, signal),
    versions: (id, query, signal) =>
      get(ofSession(id, "/state/history"), { include_state: false, ...query }, signal),
    turns: (id, query, signal) =>
      get(ofSession(id, "/turns"), { include_state: false, ...query }, signal),
    stateDiff: (id, query, signal) => get(ofSession(id, "/diff"), query, signal),
    lineage: (id, signal) => get(ofSession(id, "/lineage"), {}, signal),
    memories: (query, signal) => get("v1/memories", query, signal),
    rollbacks: (signal) => get("v1/rollbacks", {}, signal),
    rollBack: (id, body) => post(ofSession(id, "/rollback"), body),
    forkSession: (id, body) => post(ofSession(id, "/fork"), body),
    schedules: (signal) => get("v1/schedules", {}, signal),
    addSchedule: (body) => post("v1/schedules", body),
    changeSchedule: (id, body) =>
      send("PATCH", `v1/schedules/${encodeURIComponent(id)}`, { body, namespace }),
    removeSchedule: (id) =>
      send("DELETE", `v1/schedules/${encodeURIComponent(id)}`, { namespace }),
    git: (signal) => get("v1/git", {}, signal),
    configureGit: (body) => send("PUT", "v1/git", { body, namespace, wait: 60000 }),
    changeGit: (body) => send("PATCH", "v1/git", { body, namespace }),
    removeGit: () => send("DELETE", "v1/git", { namespace }),
    gitHostKeys: (signal) => get("v1/git/host-keys", {}, signal),
    confirmGitHost: (fingerprint) => post("v1/git/host-key", { fingerprint }),
    pushGit: () => post("v1/git/push"),
    keep: (body) => post("v1/snapshots", body),
    restore: (id, body) => post(inside("/restore", id), body),
    undo: (body) => post("v1/undo", body),
    redo: () => post("v1/redo", {}),
    fork: (body) => post("v1/fork", body),
    pin: (id) => post(inside("/pin", id)),
    unpin: (id) => send("DELETE", inside("/pin", id), { namespace }),
    label: (id, label) => send("PATCH", inside("", id), { body: { label }, namespace }),
    remove: (id) => send("DELETE", inside("", id), { namespace }),
    bytes: (file, at, how) => read("v1/files/raw", { ...asPath(file), at }, namespace, how),
    raw: (file, at) => address("v1/files/raw", { ...asPath(file), at, in: namespace }).href,
    archive: (snapshot) => address("v1/export", { snapshot, files: true, in: namespace }).href,
  };
}

/** What operators ask of a workspace, and do with it. */
export function workspaceOf(workspace) {
  const root = `v1/workspaces/${encodeURIComponent(workspace)}`;
  const get = (path, query, signal) => send("GET", root + path, { query, signal, wait: 120000 });
  const post = (path, body, query) =>
    send("POST", root + path, { body, query, wait: 600000 });
  const hook = (id, rest = "") => `/webhooks/${encodeURIComponent(id)}${rest}`;
  const sent = (id, delivery) => hook(id, `/deliveries/${encodeURIComponent(delivery)}`);
  // A name may hold a slash, which no part of a path can: it goes in the header.
  const of = (method, namespace, path, body) =>
    send(method, `${root}/namespaces/-${path}`, { namespace, body, wait: 600000 });
  return {
    rollbacks: (query, signal) => get("/rollbacks", query, signal),
    rollbackSeries: (query, signal) => get("/rollbacks/series", query, signal),
    storageSeries: (query, signal) => get("/storage/series", query, signal),
    quota: (signal) => get("/quota", {}, signal),
    collect: () => post("/collect", undefined, {}),
    webhooks: (signal) => get("/webhooks", {}, signal),
    webhook: (id, signal) => get(hook(id), {}, signal),
    addWebhook: (body) => post("/webhooks", body),
    changeWebhook: (id, body) => send("PATCH", root + hook(id), { body }),
    removeWebhook: (id) => send("DELETE", root + hook(id)),
    rotateWebhook: (id) => post(hook(id, "/rotate")),
    testWebhook: (id) => post(hook(id, "/test")),
    deliveries: (id, query, signal) => get(hook(id, "/deliveries"), query, signal),
    delivery: (id, delivery, signal) => get(sent(id, delivery), {}, signal),
    redeliver: (id, delivery) => post(`${sent(id, delivery)}/redeliver`),
    keys: (signal) => get("/keys", {}, signal),
    addKey: (body) => post("/keys", body),
    revokeKey: (id) => send("DELETE", `${root}/keys/${encodeURIComponent(id)}`),
    deletedNamespaces: (signal) => get("/deleted-namespaces", {}, signal),
    recoverNamespace: (namespace, body) => of("POST", namespace, "/recover", body),
    deletedSnapshots: (namespace) => of("GET", namespace, "/deleted-snapshots"),
    recoverSnapshot: (namespace, id) =>
      of("POST", namespace, `/snapshots/${encodeURIComponent(id)}/recover`),
    retention: (namespace) => of("GET", namespace, "/retention"),
    setRetention: (namespace, body) => of("PUT", namespace, "/retention", body),
    forget: (namespace, body) => of("POST", namespace, "/forget", body),
    verifyAudit: (anchor) => get("/audit/verify", { anchor }),
    audit: () => address(`${root}/audit/export`).href,
    traces: (query, signal) => get("/traces", query, signal),
  };
}

export const streamOf = (workspace, query) =>
  address(`v1/workspaces/${encodeURIComponent(workspace)}/events/stream`, query).href;
