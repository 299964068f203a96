// What happens on the server, as it happens: one stream for all tabs of this browser.
//
// Over HTTP/1.1 a browser has six connections to a server, and a stream takes one. So one tab holds
// it (a lock says which), and tells the others; one that nobody looks at gives it up after a
// minute. An event only says that something changed: rows are asked for anew.

import { streamOf } from "./api.js";
import * as state from "./state.js";

const TYPES = "snapshot.*,task.*,namespace.*";
const AFTER_MS = 250;
const HIDDEN_MS = 60000;
const LOOK_MS = 4000;
const SILENT_MS = 40000; // The server says something every 15 seconds.

let ends = null;

/** Follows what happens, to one namespace or, with an operator's key, to all. */
export function follow(namespace) {
  ends?.();
  const { workspace, admin, only } = state.session.value ?? {};
  const chosen = admin ? undefined : (only ?? namespace);
  if (!workspace || (!admin && chosen === undefined)) return undefined;
  const name = `holdfast ${document.baseURI} ${workspace} ${chosen ?? "*"}`;
  const channel = new BroadcastChannel(name);
  const stop = new AbortController();
  let release = null;
  let hiding = null;
  let last = null;

  const heard = (event) => {
    hear();
    if (event?.type !== undefined) changed(event);
  };
  const hear = (how = "live") => {
    const { state: was, heard: at } = state.link.value;
    const now = new Date().toISOString();
    state.link.value = { state: how, heard: how === "live" ? now : at };
    if (how === "live" && was === "away") everything();
  };

  channel.onmessage = ({ data }) => {
    if (data.last) last = data.last;
    if (data.away) hear("away");
    else heard(data.event);
  };
  const tell = (message) => channel.postMessage(message);

  const hold = () =>
    navigator.locks
      .request(name, { signal: stop.signal }, () => new Promise((resolve) => {
        const source = new EventSource(streamOf(workspace, { namespace: chosen, types: TYPES, last_event_id: last }));
        let silence = null;
        const listen = () => {
          clearTimeout(silence);
          silence = setTimeout(() => (hear("away"), tell({ away: true })), SILENT_MS);
        };
        const on = (message) => {
          listen();
          last = message.lastEventId || last;
          let event = null;
          try {
            event = JSON.parse(message.data);
          } catch {
            // What cannot be read still says that the server is there.
          }
          const brief = event?.type ? { type: event.type, namespace: event.namespace } : null;
          tell({ event: brief, last });
          heard(brief);
        };
        source.onopen = () => (listen(), hear(), tell({ event: null }));
        source.onerror = () => {
          hear("away");
          tell({ away: true });
          // A stream that was refused does not come back by itself.
          if (source.readyState === EventSource.CLOSED) setTimeout(() => (release?.(), begin()), 3000);
        };
        source.onmessage = on;
        for (const type of NAMED) source.addEventListener(type, on);
        release = () => {
          clearTimeout(silence);
          source.close();
          release = null;
          resolve();
        };
      }))
      .catch(() => {});
  const begin = () => !stop.signal.aborted && hold();

  const onVisible = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => release?.(), HIDDEN_MS);
    else {
      if (!release) begin();
      everything();
    }
  };
  document.addEventListener("visibilitychange", onVisible);
  const looking = setInterval(() => !document.hidden && !state.isAway.value && state.lookAtNow(), LOOK_MS);
  begin();
  ends = () => {
    ends = null;
    clearTimeout(hiding);
    clearInterval(looking);
    document.removeEventListener("visibilitychange", onVisible);
    stop.abort();
    release?.();
    channel.close();
  };
  return ends;
}

const NAMED = [
  "connected", "snapshot.created", "snapshot.restored", "snapshot.undone", "snapshot.redone", "snapshot.pinned",
  "snapshot.unpinned", "snapshot.extended", "snapshot.labelled", "snapshot.deleted", "snapshot.recovered",
  "snapshot.forgotten", "namespace.forked", "namespace.merged", "namespace.imported", "namespace.deleted",
  "namespace.recovered", "namespace.purged", "namespace.retention_set", "namespace.quota_set",
  "task.started", "task.completed", "task.failed",
];

let waiting = null;
let waitingForAll = null;

function changed({ type, namespace }) {
  if (namespace === state.timeline.value?.namespace && !waiting) {
    waiting = setTimeout(() => ((waiting = null), state.refresh()), AFTER_MS);
  }
  if (type !== "connected" && !waitingForAll) {
    waitingForAll = setTimeout(() => ((waitingForAll = null), state.loadOverview()), 8 * AFTER_MS);
  }
}

function everything() {
  state.refresh();
  state.loadOverview();
}
