// What happens on the server, as it happens: one stream for all tabs of this browser.
//
// Over HTTP/1.1 a browser has six connections to a server, and a stream takes one. So one tab holds
// it (a lock says which), and tells the others; one that nobody looks at gives it up after a
// minute. An event only says that something changed: rows are asked for anew.

import { getSession, onSignedOut, streamOf } from "./api.js";
import * as state from "./state.js";

const TYPES = "snapshot.*,task.*,namespace.*";
const AFTER_MS = 250;
const HIDDEN_MS = 60000;
const LOOK_MS = 4000;
const AGAIN_MS = 3000;
const SILENT_MS = 40000;

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
  let source = null; // The stream, in the tab that holds it.
  let release = null;
  let isAsking = false;
  let hiding = null;
  let last = null;
  let silence = null;

  const hear = (event) => {
    const was = state.link.value.state;
    state.link.value = { state: "live", heard: new Date().toISOString() };
    if (was === "away" || was === "asking") everything();
    // What happened between the first rows and this, no event tells.
    if (was === "starting") state.lookAtNow();
    if (event) changed(event);
  };
  const tell = (message) => channel.postMessage(message);
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(look, SILENT_MS);
  };
  const look = async () => {
    if (stop.signal.aborted) return;
    const how = await whetherThere();
    if (stop.signal.aborted) return;
    // A stream shows that it is alive by comments, which no script hears: where it is open and the
    // server answers, nothing happened.
    if (how === "asking" && source?.readyState === EventSource.OPEN) {
      listen();
      hear(null);
      tell({ event: null });
    } else if (state.link.value.state !== how) {
      state.link.value = { ...state.link.value, state: how };
      tell({ lost: how });
    }
  };

  channel.onmessage = ({ data }) => {
    if (data.last) last = data.last;
    if (data.hello) return source?.readyState === EventSource.OPEN && tell({ event: null });
    if (data.lost) state.link.value = { ...state.link.value, state: data.lost };
    else hear(data.event);
    return undefined;
  };

  const open = (resolve) => {
    source = new EventSource(
      streamOf(workspace, { namespace: chosen, types: TYPES, last_event_id: last }),
    );
    source.onmessage = (message) => {
      listen();
      last = message.lastEventId || last;
      const event = read(message.data);
      tell({ event, last });
      hear(event);
    };
    source.onopen = () => (listen(), hear(null), tell({ event: null }));
    source.onerror = () => {
      look();
      // A stream that was refused does not come back by itself; and not at all after an event that
      // is no longer kept.
      if (source?.readyState === EventSource.CLOSED) {
        last = null;
        setTimeout(() => (release?.(), begin()), AGAIN_MS);
      }
    };
    release = () => {
      clearTimeout(silence);
      source.close();
      source = release = null;
      resolve();
    };
  };
  const begin = async () => {
    if (stop.signal.aborted || isAsking || release) return;
    isAsking = true;
    tell({ hello: true });
    await navigator.locks
      .request(name, { signal: stop.signal }, () => {
        isAsking = false;
        // Whoever left between the grant and this would hold a stream that nobody ends.
        return stop.signal.aborted ? undefined : new Promise(open);
      })
      .catch(() => {});
    isAsking = false;
  };

  const onVisible = () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => release?.(), HIDDEN_MS);
    } else {
      begin();
      everything();
    }
  };
  document.addEventListener("visibilitychange", onVisible);
  const looking = setInterval(() => {
    if (document.hidden) return;
    if (state.link.value.state !== "live") look();
    if (state.link.value.state !== "away") state.lookAtNow();
  }, LOOK_MS);
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

/** Whether the server is there where its stream is not: it may be that it only has no more of those. */
async function whetherThere() {
  try {
    await getSession();
    return "asking";
  } catch (failure) {
    if (failure.status === 401) onSignedOut.call(failure);
    return failure.status ? "asking" : "away";
  }
}

function read(text) {
  try {
    const { type, namespace } = JSON.parse(text);
    return type ? { type, namespace } : null;
  } catch {
    return null; // What cannot be read still says that the server is there.
  }
}

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
