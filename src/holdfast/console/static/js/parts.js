// Small parts that every screen is made of.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { hearing, isAway, letters, say, tell } from "./state.js";
import { cut, exact, marked, moment, plain, shortly, time } from "./text.js";

export { html };

const PATHS = {
  arrow: "M3 8h10M9 4l4 4-4 4",
  away: "M3 3l10 10M5 8a4 4 0 0 1 3-1.500M3 5.800A8 8 0 0 1 8 4M8 12h.01M9.500 7a4 4 0 0 1 1.500 1",
  back: "M6.500 4L3 7.500 6.500 11M3 7.500h6.500a3.500 3.500 0 0 1 0 7H7",
  branch:
    "M4.500 4.500v7M4.500 4.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM4.500 14.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM11.500 6a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM11.500 6c0 3-7 2-7 5.500",
  camera:
    "M2.500 5h2.600l1-1.500h3.800l1 1.500h2.600v8h-11zM8 11a2.200 2.200 0 1 0 0-4.400A2.200 2.200 0 0 0 8 11z",
  check: "M3 8.500l3.200 3L13 4.500",
  chevron: "M4 6l4 4 4-4",
  clock: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 4.500V8l2.500 1.500",
  compare: "M8 2.500v11M2.500 5H6M2.500 8H6M2.500 11H6M10 5h3.500M10 8h3.500M10 11h3.500",
  copy: "M5.500 5.500h7v8h-7zM3.500 10.500v-8h7",
  cross: "M4 4l8 8M12 4l-8 8",
  dots: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  download: "M8 2.500v8M4.500 7.500L8 11l3.500-3.500M3 13.500h10",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  folder: "M2 4h4.500l1.500 1.500h6V13H2z",
  fork: "M4.500 2.500v11M4.500 9.500c0-3 6-1.500 6-5.500V2.500",
  hook: "M8 2v6.500a3 3 0 1 1-3-3M8 2l-2 2M8 2l2 2M11 11.500a3 3 0 0 0 2-2.800",
  key: "M10.500 9a3.500 3.500 0 1 0-3.300-2.300L2.500 11.400V13.500h2.100v-1.600h1.600v-1.600h1.300l.7-.7A3.500 3.500 0 0 0 10.500 9z",
  label: "M2.500 2.500h5.500l5.500 5.500-5.500 5.500L2.500 8zM5.500 5.500h.01",
  list: "M5.500 4h8M5.500 8h8M5.500 12h8M2.500 4h.01M2.500 8h.01M2.500 12h.01",
  memory:
    "M8 2.500a4.500 4.500 0 0 1 2.500 8.200v1.300h-5v-1.300A4.500 4.500 0 0 1 8 2.500zM6 14h4",
  menu: "M2.500 4.500h11M2.500 8h11M2.500 11.500h11",
  moon: "M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500z",
  out: "M6.500 3h-4v10h4M6 8h7.500M10.500 5l3 3-3 3",
  pin: "M9.500 2.500l4 4-1.500.700-2 2 .2 2.500-1.200.800-5.500-5.500.800-1.200 2.500.200 2-2zM5.500 10.500L2.500 13.500",
  play: "M5 3.500v9l7-4.500z",
  rate: "M1.500 8.500h3l2-5 3 9 2-4h3",
  search: "M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300l3.200 3.200",
  session: "M2.500 3h11v8h-6L5 13.500V11H2.500z",
  shield: "M8 2l5 1.800V8c0 3-2.200 5-5 6-2.800-1-5-3-5-6V3.800zM5.800 7.800l1.600 1.600 2.900-3",
  split: "M2.500 3h11v10h-11zM8 3v10",
  store:
    "M13 4c0 1.100-2.200 2-5 2s-5-.900-5-2 2.200-2 5-2 5 .900 5 2zM3 4v8c0 1.100 2.200 2 5 2s5-.900 5-2V4M3 8c0 1.100 2.200 2 5 2s5-.900 5-2",
  sun: "M8 10.800a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9",
  trash: "M3 4.500h10M6 4.500V2.500h4v2M4.500 4.500l.5 9h6l.5-9",
  warn: "M8 2.500l6 11H2zM8 6.500v3.500M8 12h.01",
};

export const Icon = ({ name, size = 16 }) => html`<svg
  class="icon"
  width=${size}
  height=${size}
  viewBox="0 0 16 16"
  aria-hidden="true"
><path d=${PATHS[name]} /></svg>`;

/** Somebody else's text: a text node, with marks for what cannot be seen in it. */
export const Said = ({ text, keep, isName }) =>
  marked(text, keep, isName).map((part) =>
    typeof part === "string"
      ? part
      : html`<span class="mark" title=${part.name}>${part.sign}</span>`,
  );

/** A name that somebody else chose, whatever direction it reads in. */
export const Name = ({ text, most = 96 }) =>
  html`<bdi class="name" title=${plain(text)}><${Said} text=${cut(text, most)} isName /></bdi>`;

/** A path: its folders dim, its last part not. */
export function Path({ text, most = 96 }) {
  const short = cut(text, most);
  const at = short.replace(/\/$/, "").lastIndexOf("/") + 1;
  return html`<bdi class="path" title=${plain(text)}
    ><span class="dim"><${Said} text=${short.slice(0, at)} isName /></span
    ><${Said} text=${short.slice(at)} isName /></bdi>`;
}

export const Chip = ({ tone = "plain", icon, title, children }) =>
  html`<span class=${`chip ${tone}`} title=${title}
    >${icon && html`<${Icon} name=${icon} size="12" />`}<span class="chip-text">${children}</span>
      </span>`;

export const Moment = ({ at, long, short }) =>
  html`<time dateTime=${at} title=${exact(at)}>${short ? shortly(at) : long ? moment(at) :
    time(at)}</time>`;

/** A key to press, shown where single letters are on. */
export const Kbd = ({ name }) =>
  letters.value || name.length > 1 ? html`<kbd aria-hidden="true">${name}</kbd>` : null;

export function Button({ icon, kbd, tone = "", label, why, children, busy, ...rest }) {
  // A button that cannot be pressed says why, and can still be reached to hear it.
  const off = Boolean(why) || busy;
  return html`<button
    type="button"
    ...${rest}
    class=${`button ${tone} ${rest.class ?? ""}`}
    aria-label=${label}
    title=${why || rest.title || label}
    aria-disabled=${off ? "true" : undefined}
    onClick=${(event) => !off && rest.onClick?.(event)}
  >${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}${kbd &&
    html`<${Kbd} name=${kbd} />`}</button>`;
}

/** An id that a click copies, or what `text()` returns then. */
export function Copied({ text, children }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setDone(true);
      say("Copied");
      setTimeout(() => setDone(false), 1500);
    } catch (failure) {
      tell(failure, "Not copied");
    }
  };
  return html`<button type="button" class="copied mono" title=${typeof text === "string" ?
    `Copy ${cut(text, 200)}` : "Copy all of it"} onClick=${copy}
    ><${Name} text=${children ?? text} />${done ? html`<${Icon} name="check" size="12" />` :
      html`<${Icon} name="copy" size="12" />`}</button>`;
}

/** What failed, with the request's id and another try. */
export const Failed = ({ failure, again }) => html`<div class="bar bad" role="alert">
  <${Icon} name="warn" />
  <span><${Said} text=${failure.message} /> ${failure.requestId && html`<span class="dim mono">
    ${failure.requestId}</span>`}</span>
  ${again && html`<${Button} onClick=${again}>Try again<//>`}
</div>`;

export const Note = ({ tone = "", icon, children, role }) =>
  html`<div class=${`note ${tone}`} role=${role}><${Icon} name=${icon} /><div>${children}</div>
    </div>`;

export const Waiting = ({ what = "Loading…" }) =>
  html`<p class="waiting" role="status">${what}</p>`;

/** Puts a box below what it was opened with, as far as there is room. */
function hang(box, from) {
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(12, Math.min(from.right - width, innerWidth - width - 12));
  Object.assign(box.style, {
    position: "fixed",
    left: `${left}px`,
    top: `${Math.max(12, Math.min(from.bottom + 8, innerHeight - height - 12))}px`,
  });
}

/**
 * Something small over the page: closes with Esc or a click beside it, and gives the focus back.
 *
 * Ctrl Enter does what its main button does, and nothing on the page below it.
 */
export function Popover({ title, close, children, wide }) {
  const box = useRef(null);
  // At once: what is typed next belongs here.
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement} */ (document.activeElement);
    if (before?.matches?.("button") && innerWidth > 760)
      hang(box.current, before.getBoundingClientRect());
    const first =
      box.current.querySelector("input, textarea, select, .primary, .item") ?? box.current;
    first.focus();
    const beside = (event) => !box.current?.contains(event.target) && close();
    const frame = requestAnimationFrame(() => addEventListener("pointerdown", beside));
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("pointerdown", beside);
      if (before?.isConnected) before.focus();
    };
  }, []);
  const onKeyDown = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.stopPropagation();
      event.preventDefault();
      box.current.querySelector(".ends :is(.primary, .danger)")?.click();
    }
    if (event.key === "Tab") {
      const all = [
        ...box.current.querySelectorAll("button, input, textarea, select, a[href]"),
      ].filter((each) => !each.disabled);
      const edge = event.shiftKey ? all[0] : all.at(-1);
      if (all.length && document.activeElement === edge) {
        event.preventDefault();
        (event.shiftKey ? all.at(-1) : all[0]).focus();
      }
    }
  };
  return html`<div class="shade"><div
    class=${wide ? "popover wide" : "popover"}
    role="dialog"
    aria-modal="true"
    aria-label=${title}
    tabIndex="-1"
    ref=${box}
    onKeyDown=${onKeyDown}
  ><h2>${title}</h2>${children}</div></div>`;
}

/**
 * Keys that act while the one who asks is on the page: `handle` gets the key's name.
 *
 * The one of the last drawing is asked: a key that follows a tick at once must not act on what was
 * there before it.
 */
export function useKeys(handle, { everywhere = false } = {}) {
  const last = useRef(handle);
  last.current = handle;
  // With what is drawn, not after it: whoever sees a screen may press a key.
  useLayoutEffect(() => {
    const onKey = (event) => {
      if (everywhere) return last.current(event.key, event) && event.preventDefault();
      const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
      const within = event.target.closest?.("[role=dialog]");
      if (typing || within || event.altKey || event.defaultPrevented) return undefined;
      const isLetter = event.key.length === 1;
      if (isLetter && (event.ctrlKey || event.metaKey || !letters.value)) return undefined;
      if (last.current(event.key, event)) event.preventDefault();
      return undefined;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

/** Sets the page's title, and the focus on the screen's heading when it is first shown. */
export function useTitle(title, heading) {
  useEffect(() => {
    document.title = title ? `${plain(title)} · Holdfast` : "Holdfast";
  }, [title]);
  useEffect(() => heading?.current?.focus({ preventScroll: true }), []);
}

/** What a server that is not there answers: nothing, or what a proxy says for it. */
const UNREACHED = [0, 502, 503, 504];

/**
 * What an asynchronous question answers: `{value, failure, again, refresh}`; asked anew when `deps`
 * change.
 *
 * Asked by `refresh`, because `turn` changed, or every so many milliseconds while somebody looks,
 * what was answered stays until the next answer, and beside its failure. `again` begins anew. What
 * failed since the server was not there is asked by itself once it is.
 *
 * @param {(stop: AbortSignal) => any} ask
 * @param {unknown[]} deps
 * @param {{ turn?: unknown, everyMs?: number }} [how]
 * @returns {{ value?: any, failure?: any, refresh: () => void, again: () => void }}
 */
export function useAnswer(ask, deps, { turn, everyMs } = {}) {
  const [got, put] = useState(/** @type {{ value?: any, failure?: any }} */ ({}));
  const [tries, setTries] = useState(0);
  const last = useRef(deps);
  useEffect(() => {
    const stop = new AbortController();
    if (deps.some((each, at) => each !== last.current[at])) put({});
    last.current = deps;
    const look = () =>
      Promise.resolve(ask(stop.signal)).then(
        (value) => !stop.signal.aborted && put({ value }),
        (failure) => !stop.signal.aborted && put(({ value }) => ({ value, failure })),
      );
    look();
    const timer =
      everyMs && setInterval(() => !document.hidden && !isAway.value && look(), everyMs);
    return () => (clearInterval(timer), stop.abort());
  }, [...deps, turn, tries]);
  const refresh = () => setTries((was) => was + 1);
  const isUnreached = UNREACHED.includes(got.failure?.status);
  useEffect(() => {
    if (isUnreached && !isAway.value) refresh();
  }, [hearing.value]);
  return { ...got, refresh, again: () => (put({}), refresh()) };
}

/** Whether it is not known what became of what was asked for: nobody refused it. */
export const isUnheard = ({ status }) => !(status >= 400 && status < 500);

/** What was asked for and whose answer did not come: what is there now says whether it was done. */
export const Unheard = ({ failure }) =>
  failure &&
  html`<${Note} tone="bad" icon="warn" role="alert">
    <strong>It is not known whether it was done.</strong> <${Said} text=${failure.message}
    /> This is what would change now. ${failure.requestId && html`<span class="mono">
    ${failure.requestId}</span>`}<//>`;

/** Scrolls a box, if there is one, no further than it takes to see what is at `top`. */
export function reveal(box, top, height) {
  if (!box) return;
  const scroller = scrollerOf(box);
  const start = top + scroller.scrollTop - scrolledBy(box, scroller);
  if (start < scroller.scrollTop) scroller.scrollTop = start;
  else if (start + height > scroller.scrollTop + scroller.clientHeight)
    scroller.scrollTop = start + height - scroller.clientHeight;
}

/** What scrolls a list, as the style says: the list itself or, on a phone, all of its page. */
function scrollerOf(box) {
  let each = box;
  while (each.parentElement && !/auto|scroll/.test(getComputedStyle(each).overflowY))
    each = each.parentElement;
  return each;
}

/** How far the beginning of a list is above what can be seen; below 0, how far down it begins. */
const scrolledBy = (box, scroller) =>
  scroller === box
    ? box.scrollTop
    : scroller.getBoundingClientRect().top - box.getBoundingClientRect().top;

/**
 * A long list of which only what can be seen is there: all rows have one height.
 *
 * `draw(index)` returns a row's content; `reach(index)` is told of the last one that is seen.
 */
export function Rows({ count, height, draw, reach, extra = 6, keep, scroller, ...rest }) {
  const own = useRef(null);
  const box = scroller ?? own;
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(800);
  useLayoutEffect(() => {
    let within = null;
    const look = () => box.current && setTop(Math.max(0, scrolledBy(box.current, within)));
    const measure = () => {
      if (!box.current) return;
      const now = scrollerOf(box.current);
      if (now !== within) {
        within?.removeEventListener("scroll", look);
        now.addEventListener("scroll", look, { passive: true });
        watch.observe(now);
        within = now;
      }
      setRoom(within.clientHeight || 800);
      look();
    };
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    measure();
    return () => {
      watch.disconnect();
      within?.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.max(0, Math.min(Math.floor(top / height), count - 1) - extra);
  const last = Math.min(count, Math.ceil((top + room) / height) + extra);
  useEffect(() => reach?.(last), [last, count]);
  const seen = [];
  // The one that has the focus stays, wherever it is: a reader has to find it.
  if (keep !== undefined && keep >= 0 && keep < first) seen.push(keep);
  for (let index = first; index < last; index += 1) seen.push(index);
  if (keep !== undefined && keep >= last && keep < count) seen.push(keep);
  return html`<div ...${rest} ref=${box}>
    <div class="rows" role="presentation" style=${{ height: `${count * height}px` }}>
      ${seen.map((index) => html`<div key=${index} class="rows-at" role="presentation"
        style=${{ transform: `translateY(${index * height}px)`, height: `${height}px` }}>
        ${draw(index)}</div>`)}
    </div>
  </div>`;
}

/** Names of parts of which one is shown: each with its words, and how many there are or null. */
export function Tabs({ label, name, tabs, tab, choose }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = tabs.map(([each]) => each);
    const next = names[(names.indexOf(tab) + step + names.length) % names.length];
    choose(next);
    document.getElementById(`${name}-${next}`)?.focus();
    event.preventDefault();
  };
  return html`<div class="tablist" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(([each, words, count]) => html`<button type="button" role="tab"
      id=${`${name}-${each}`} aria-controls=${`${name}-panel`} aria-selected=${tab === each ?
      "true" : "false"} tabIndex=${tab === each ? 0 : -1} onClick=${() => choose(each)}>${words}
      ${count !== null ? html` <span class="dim">${count.toLocaleString("en")}</span>` : ""}
      </button>`)}</div>`;
}

/** What the product is known by: something that holds fast to the ground. */
export const Mark = ({
  size = 22,
}) => html`<svg class="logo" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true"
  ><path d="M12 3v18M12 9c-3 0-5-1.500-5-4.500M12 9c3 0 5-1.500 5-4.500M12 15c-2.500 0-4.500 1.500-5.500 5M12 15c2.500 0 4.500 1.500 5.500 5"
    /></svg>`;
