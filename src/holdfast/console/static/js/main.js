// Starts the console: who is signed in, which screen, and the frame around it.

import { computed, html, render, useEffect, useRef, useState, signal } from "../vendor/preact.js";
import { Button, Icon, Mark, Name, Said, Waiting, useKeys } from "./parts.js";
import * as state from "./state.js";
import { bytes, many, plain, time } from "./text.js";

// Screens and parts that are loaded when they are first needed

const LATER = {
  acts: () => import("./acts.js"),
  details: () => import("./details.js"),
  goback: () => import("./goback.js"),
  live: () => import("./live.js"),
  namespaces: () => import("./namespaces.js"),
  compare: () => import("./compare.js"),
  device: () => import("./device.js"),
  files: () => import("./files.js"),
  store: () => import("./store.js"),
  tasks: () => import("./tasks.js"),
  undo: () => import("./undo.js"),
  sessions: () => import("./sessions.js"),
  session: () => import("./session.js"),
  health: () => import("./health.js"),
  webhooks: () => import("./webhooks.js"),
  keys: () => import("./keys.js"),
  upkeep: () => import("./upkeep.js"),
  git: () => import("./git.js"),
  audit: () => import("./audit.js"),
  signin: () => import("./signin.js"),
  // What it imports is asked for with it.
  timeline: () => (import("./graph.js"), import("./timeline.js")),
};
const LONGEST_CODE = 32;
const loaded = signal({});
const broken = signal(null);

/** Returns a module that is loaded later; null until it is there. */
function later(name) {
  const there = loaded.value[name];
  if (there === undefined) {
    queueMicrotask(() => {
      if (loaded.peek()[name] !== undefined) return;
      loaded.value = { ...loaded.peek(), [name]: null };
      LATER[name]().then(
        (module) => (loaded.value = { ...loaded.peek(), [name]: module }),
        (failure) => (broken.value = failure),
      );
    });
  }
  return there ?? null;
}

/** Whether a timeline was asked for of which nothing is there yet. */
const isWaiting = computed(() => {
  const { loading, rows } = state.timeline.value ?? {};
  return Boolean(loading && !rows.length);
});

/** The same of what nobody needs before there is something to see: rows come first. */
const afterwards = (name) => (isWaiting.value ? (loaded.value[name] ?? null) : later(name));

// The frame

function Dot({ level }) {
  const tone = ["elevated", "warning", "critical"].includes(level) ? level : "fine";
  const shapes = {
    fine: "M7 3.500a3.500 3.500 0 1 0 .001 0z",
    elevated: "M7 3l4 7.500H3z",
    warning: "M7 3l4 7.500H3z",
    critical: "M7 2.500L11.500 7 7 11.500 2.500 7z",
  };
  return html`<svg class=${`health ${tone}`} width="14" height="14" viewBox="0 0 14 14" role="img"
    aria-label=${tone === "fine" ? "healthy" : tone}><path d=${shapes[tone]} /></svg>`;
}

/** What operators look after: its place, what it is called, and the module and part that show it. */
const OPERATIONS = [
  ["health", "Health", "rate", "health", "Health"],
  ["storage", "Storage", "store", "health", "Storage"],
  ["webhooks", "Webhooks", "hook", "webhooks", "Webhooks"],
  ["keys", "Keys", "key", "keys", "Keys"],
  ["schedules", "Schedules", "clock", "upkeep", "Schedules"],
  ["retention", "Retention", "label", "upkeep", "Retention"],
  ["git", "Git copy", "branch", "git", "GitCopy"],
  ["deleted", "Deleted", "trash", "upkeep", "Deleted"],
  ["audit", "Audit", "shield", "audit", "Audit"],
];

/** What of that is for agents' keys: it is of one namespace, and an operator's does not open it. */
const OF_AGENTS = ["schedules", "git"];
/** What is of one namespace: it begins with the one that somebody comes from. */
const OF_ONE = [...OF_AGENTS, "retention", "deleted"];

function RailOperations({ close }) {
  const { screen, part, namespace, query } = state.route.value;
  const there = namespace ?? query.get("in") ?? query.get("from") ?? state.session.value?.only;
  const listed = OPERATIONS.filter(([place]) => state.isOperator.value || OF_AGENTS.includes(place));
  if (!state.isOperator.value && !there) return null;
  return html`<div class="rail-operations"><h2>Operations</h2><ul>${listed.map(([place, words,
    icon]) => html`<li key=${place}><a href=${state.to(["operations", place],
    { [OF_ONE.includes(place) ? "in" : "from"]: there })} onClick=${close} title=${words} aria-current=${screen === "operations" && part === place ? "page" : undefined}
    ><${Icon} name=${icon} size="14" /><span class="full">${words}</span></a></li>`)}</ul></div>`;
}

const IN_RAIL = 200;

function Rail({ isOpen, close }) {
  const { namespace } = state.route.value;
  const all = state.asTree(state.overview.value?.namespaces ?? []);
  const listed = all.slice(0, IN_RAIL);
  if (namespace && !listed.some((each) => each.name === namespace))
    listed.unshift({ name: namespace, depth: 0 });
  const only = state.session.value?.only;
  if (only && !listed.some((each) => each.name === only)) listed.unshift({ name: only, depth: 0 });
  return html`<nav class=${`rail ${isOpen ? "open" : ""}`} aria-label="Namespaces">
    <a class="brand" href=${state.to()} title="Holdfast" onClick=${close}><${Mark} /><span>Holdfast</span></a>
    <div class="rail-list">
      <h2><a href=${state.to()} onClick=${close}>Namespaces</a></h2>
      <ul>${listed.map(
        (
          each,
        ) => html`<li key=${each.name}><a class=${`depth-${each.depth}`} href=${state.to(["n",
          each.name, "timeline"])} onClick=${close}
        aria-current=${each.name === namespace ? "page" : undefined} title=${plain(each.name)}>
        <${Dot} level=${each.level} /><span class="short" aria-hidden="true">
          ${[...plain(each.name)].slice(0, 2).join("")}</span><bdi class="full"><${Said}
          text=${each.name} /></bdi>
        ${each.snapshots !== undefined && html`<span class="count">
          ${each.snapshots.toLocaleString("en")}<span class="hidden"> snapshots</span></span>`}
      </a></li>`,
      )}</ul>
      ${all.length > IN_RAIL && html`<p class="more"><a href=${state.to()}
        onClick=${close}>All ${all.length.toLocaleString("en")}</a></p>`}
    </div>
    <${RailOperations} close=${close} />
    <${Foot} close=${close} />
  </nav>`;
}

function Foot({ close }) {
  const { state: how, heard } = state.link.value;
  const { workspace = "", admin, only } = state.session.value ?? {};
  // With a key for namespaces alone, there is a stream of each, and none of all.
  const isIdle = !admin && (only ?? state.route.value.namespace) === undefined;
  const words =
    how === "live"
      ? "Live"
      : how === "starting" && isIdle
        ? "Live in a namespace"
      : how === "away"
        ? `Reconnecting…${heard ? `, last heard ${time(heard)}` : ""}`
        : how === "asking"
          ? "Looks every few seconds"
          : "Connecting…";
  return html`<div class="foot">
    <span class=${`link ${how}`} role="status" title=${workspace}><span class="pulse"
      aria-hidden="true"></span><span class="full">${words}</span></span>
    <${Button} class="help" tone="bare" label="Keys"
      onClick=${() => (close(), later("acts")?.ask("keys"))}>?<//>
    <${Button} icon="out" tone="bare" label="Sign out"
      onClick=${() => later("acts")?.ask("signout")} />
  </div>`;
}

const TABS = [
  ["timeline", "Timeline"],
  ["files", "Files"],
  ["store", "Store"],
  ["tasks", "Tasks"],
  ["sessions", "Sessions"],
];

const TITLES = { device: "Sign in", operations: "Operations" };

const factsOf = ({ directory, entries, size, total }) => [
  ...(directory ? [html`<${Name} text=${directory} most="48" />`] : []),
  many(entries, "entry", "entries"),
  bytes(size),
  ...(total !== null && total !== undefined ? [many(total, "snapshot")] : []),
];

/** Whether what is there is the oldest that is kept: an undo would lead nowhere. */
const hasNothingBefore = ({ rows, hasMore, loading, dirty, position }) =>
  rows.length
    ? !hasMore && !dirty && rows.at(-1).snapshot_id === position
    : !loading;

function Top({ openMenu }) {
  const { namespace, screen } = state.route.value;
  const known = state.timeline.value;
  const acts = afterwards("acts");
  const why = state.away();
  const facts =
    namespace !== undefined && known?.namespace === namespace && known.entries !== undefined;
  return html`<header class="top">
    <${Button} class="menu" icon="menu" tone="bare" label="Menu" onClick=${openMenu} />
    ${
      namespace === undefined
        ? html`<h1>${TITLES[screen] ?? "Namespaces"}</h1>`
        : html`<h1><${Name} text=${namespace} most="40" /></h1>
      <nav class="tabs" aria-label="Screens">${TABS.map(([place, words]) => html`<a key=${place}
        href=${state.to(["n", namespace, place])} aria-current=${screen === place ? "page" :
        undefined}>${words}</a>`)}</nav>
      ${facts && html`<span class="facts">${factsOf(known).map((fact, at) => html`<span>${at ?
        "· " : ""}${fact}</span>`)}</span>`}`
    }
    <span class="gap"></span>
    <${Button} icon=${state.isDark.value ? "moon" : "sun"} tone="bare" label=${state.isDark.value ?
      "Light colours" : "Dark colours"} onClick=${state.turnTheme} />
    <${Button} class="help" tone="bare" label="Keys" onClick=${() => acts?.ask("keys")}>?<//>
    ${
      namespace !== undefined &&
      state.opens(namespace) &&
      html`
      <${Button} icon="back" kbd="U" why=${why ?? (known && hasNothingBefore(known) ?
        "There is nothing to undo" : undefined)} onClick=${() => acts?.ask("undo")}>Undo<//>
      <${Button} icon="camera" kbd="S" tone="primary" why=${why}
        onClick=${() => acts?.ask("keep")}>Keep this moment<//>`
    }
  </header>`;
}

const BACK_MS = 6000;

/** Says that the server is away, wherever one is, and for a moment that it is back. */
function Reached() {
  const isAway = state.isAway.value;
  const { heard } = state.link.value;
  const wasAway = useRef(false);
  const [isBack, setBack] = useState(false);
  useEffect(() => {
    setBack(wasAway.current && !isAway);
    wasAway.current = isAway;
    const timer = setTimeout(() => setBack(false), BACK_MS);
    return () => clearTimeout(timer);
  }, [isAway]);
  // It is there before it says anything: a reader is told of what changes in it.
  return html`<div class="reached" role="status">${isAway ? html`<p class="bar bad"><${Icon}
    name="away" /><span><strong>The server cannot be reached.</strong> What you see is how it was${heard ?
    ` at ${time(heard)}` : ""}; it is asked again and again.</span></p>` : isBack && html`<p
    class="bar back"><${Icon} name="check" /><span>The server is back.</span></p>`}</div>`;
}

function Toasts() {
  return html`<div class="toasts" role="region" aria-label="Messages">
    ${state.toasts.value.map((each) => html`<${Toast} key=${each.id} each=${each} />`)}</div>`;
}

function Toast({ each }) {
  const [isHeld, hold] = useState(false);
  useEffect(() => {
    if (isHeld) return undefined;
    const timer = setTimeout(() => state.dismiss(each.id), each.seconds * 1000);
    return () => clearTimeout(timer);
  }, [isHeld]);
  return html`<div class=${`toast ${each.bad ? "bad" : ""}`} role=${each.bad ? "alert" : "status"}
    onPointerEnter=${() => hold(true)} onPointerLeave=${() => hold(false)}
    onFocusIn=${() => hold(true)} onFocusOut=${() => hold(false)}>
    <span><${Said} text=${each.text} /></span>
    ${each.act && html`<${Button} onClick=${() => (state.dismiss(each.id), each.act())}>
      ${each.label}<//>`}
    <${Button} tone="bare" icon="cross" label="Close" onClick=${() => state.dismiss(each.id)} />
  </div>`;
}

// Which screen: of one thing that the address names, or of the whole namespace

const PAGES = {
  snapshot: ["details", "Snapshot"],
  compare: ["compare", "Compare"],
  goback: ["goback", "GoBack"],
  undo: ["undo", "UndoTask"],
  sessions: ["session", "Session"],
};
const WHOLE = {
  files: ["files", "Files"],
  store: ["store", "Store"],
  tasks: ["tasks", "Tasks"],
  sessions: ["sessions", "Sessions"],
};
const WITHOUT_TOP = ["goback", "undo"];

function Screen() {
  const { screen, namespace, id } = state.route.value;
  if (broken.value)
    return html`<div class="empty" role="alert"><h2>A part of the console did not load</h2><p
      class="mono"><${Said} text=${broken.value.message} /></p><${Button}
      onClick=${() => location.reload()}>Reload<//></div>`;
  if (screen === "namespaces") {
    const page = later(screen);
    return page ? html`<${page.Namespaces} />` : html`<${Waiting} />`;
  }
  if (screen === "device") {
    const page = later("device");
    return page ? html`<${page.Device} />` : html`<${Waiting} />`;
  }
  if (screen === "operations") return html`<${Operation} />`;
  if (namespace !== undefined && !state.canWork.value) {
    return html`<div class="empty"><h2>An operator’s key does not open a namespace</h2>
      <p>What an agent keeps is for runtime keys. Add one to this session to look inside.</p><p><a
      href=${state.to([], { key: "add" })}>Add a key</a></p></div>`;
  }
  if (namespace !== undefined && !state.opens(namespace)) {
    const { only } = state.session.value;
    return html`<div class="empty"><h2>This key is for another namespace</h2>
      <p>What is kept in <${Name} text=${namespace} most="40" /> is not shown with it.</p><p><a
      href=${state.to(["n", only, "timeline"])}>Open <${Name} text=${only} most="40" /></a></p>
      </div>`;
  }
  if (screen === "timeline") {
    const page = later(screen);
    const details = afterwards("details");
    return page
      ? html`<${page.Timeline} key=${namespace} Details=${details?.Details} />`
      : html`<${Waiting} />`;
  }
  const [module, name] = (id ? PAGES : WHOLE)[screen] ?? [];
  if (module) {
    const page = later(module);
    return page ? html`<${page[name]} key=${`${namespace} ${id ?? ""}`} />` : html`<${Waiting} />`;
  }
  return html`<div class="empty"><h2>There is no such page</h2><p><a
    href=${state.to()}>All namespaces</a></p></div>`;
}

function Operation() {
  const { part, id } = state.route.value;
  const [, words, , module, name] = OPERATIONS.find(([place]) => place === part) ?? [];
  if (!words)
    return html`<div class="empty"><h2>There is no such page</h2><p><a
      href=${state.to(["operations"])}>Operations</a></p></div>`;
  if (!state.isOperator.value && !OF_AGENTS.includes(part))
    return html`<div class="empty"><h2>This is for operators</h2>
      <p>An agent’s key does not open it. Add an operator’s key to this session to look after what is here.</p><p><a
      href=${state.to([], { key: "add" })}>Add a key</a></p></div>`;
  const page = later(module);
  return page ? html`<${page[name]} key=${`${part} ${id ?? ""}`} />` : html`<${Waiting} />`;
}

function Frame() {
  const [menu, setMenu] = useState(false);
  const { namespace, screen } = state.route.value;
  const acts = afterwards("acts");
  const live = afterwards("live");
  useEffect(() => {
    state.loadOverview();
  }, [state.session.value]);
  useEffect(() => {
    if (namespace !== undefined && state.opens(namespace)) state.openTimeline(namespace);
  }, [namespace]);
  useEffect(() => {
    // A key for one namespace has nothing else to see.
    const { only, admin } = state.session.value;
    if (screen === "namespaces" && only && !admin && !state.route.value.query.get("key"))
      state.go(state.to(["n", only, "timeline"]), { replace: true });
  }, [screen, state.session.value]);
  useEffect(() => live?.follow(namespace), [live, namespace, state.session.value]);
  useKeys((key, event) => {
    if (key === "Escape" && menu) return (setMenu(false), true);
    return acts?.press(key, event) ?? false;
  });
  return html`<div class=${`app ${menu ? "menu-open" : ""} at-${screen}`}>
    <button type="button" class="skip"
      onClick=${() => document.getElementById("main").focus()}>To the content</button>
    <${Rail} isOpen=${menu} close=${() => setMenu(false)} />
    ${menu && html`<div class="veil" onClick=${() => setMenu(false)}></div>`}
    ${!WITHOUT_TOP.includes(screen) && html`<${Top} openMenu=${() => setMenu(!menu)} />`}
    <${Reached} />
    <main id="main" tabIndex="-1"><${Screen} /></main>
    ${acts && html`<${acts.Asked} />`}
    <${Toasts} />
    <div class="hidden" aria-live="polite">${state.spoken.value}</div>
  </div>`;
}

function App() {
  const { value } = state.session;
  if (broken.value && !value) {
    return html`<main class="boot" role="alert"><h1>The console could not start</h1>
      <p><${Said} text=${broken.value.message} /></p>
      <p><${Button} onClick=${() => location.reload()}>Try again<//></p></main>`;
  }
  if (value === undefined) return html`<main class="boot"><p>Opening the console…</p></main>`;
  const signin = value === null ? later("signin") : null;
  if (value === null)
    return signin ? html`<${signin.SignIn} />` : html`<main class="boot"><p>…</p></main>`;
  return html`<${Frame} />`;
}

// One handler for all links of ours: what is not a plain click stays the browser's.
document.addEventListener("click", (event) => {
  const from = /** @type {Element} */ (event.target);
  const link = /** @type {HTMLAnchorElement} */ (from.closest?.("a[href]"));
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  if (link.target || link.hasAttribute("download") || !link.href.startsWith(document.baseURI))
    return;
  event.preventDefault();
  state.go(link.href);
});

// The screen is loaded while the server is asked who is here.
const { screen, namespace, id } = state.route.value;
later((id ? PAGES : WHOLE)[screen]?.[0] ?? (screen === "timeline" ? screen : "namespaces"));

const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);

/**
 * Takes what the fragment of the address brought: returns the secret of a link that signs in.
 *
 * It is used once, and taken out of the history before anything else happens.
 */
function takeFragment() {
  const [, kind, text] = /^#(link|code)=([\w-]+)$/.exec(location.hash) ?? [];
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  if (kind === "code" && text.length <= LONGEST_CODE) state.code.value = text;
  return kind === "link" ? text : null;
}

const begin = async (secret) => {
  if (secret) {
    try {
      return await state.signIn({ link: secret });
    } catch (failure) {
      const why = state.whyNot(
        failure,
        "This link was used already, or is too old. Ask for another, or sign in with a key.",
      );
      // Whoever is signed in already stays so.
      if (state.session.value) return state.toast(why, { bad: true });
      state.signedOutWhy.value = why;
    }
  }
  return state.findSession();
};
const secret = takeFragment();
// Asked for while the server says who is here: who is not signed in is told neither.
if (!secret && namespace !== undefined) state.openTimeline(namespace);
begin(secret).catch((failure) => (broken.value = failure));
// A link that is opened where the console is open already loads nothing anew.
addEventListener("hashchange", () => {
  const another = takeFragment();
  if (another) begin(another);
});
