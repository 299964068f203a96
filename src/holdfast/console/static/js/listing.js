// Lists that come in pages, and the frame of the screens that walk through them: where one is at
// the top, what is there at the left, the one that is chosen at the right.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { At, Then } from "./moments.js";
import { Button, Failed, Icon, Rows, Waiting, reveal, useKeys } from "./parts.js";
import * as state from "./state.js";

const MOST_AGAIN = 1000;
const AFTER_MS = 120; // Among 100,000 names the server looks for 300 ms: 500 is what one waits.

/**
 * A list that is asked for in pages: `{items, hasMore, loading, failure, more, again}`.
 *
 * `ask(last, stop)` returns `{items, hasMore}` of what follows `last`. Where `turn` changes, the
 * list is the same and may have other items: those that are there stay until the new ones came.
 */
export function usePages(ask, { deps, turn }) {
  /** @type {{ items: any[], hasMore: boolean, loading: boolean, failure?: any }} */
  const nothing = { items: [], hasMore: false, loading: true };
  const [got, put] = useState(nothing);
  const [tries, again] = useState(0);
  const of = useRef(null);
  const stop = useRef(null);
  const key = JSON.stringify(deps);
  /** Asks for what follows some items, until there are so many or no more. */
  const load = async (before, count) => {
    stop.current?.abort();
    const own = (stop.current = new AbortController());
    let items = before;
    const end = (fields) => {
      if (own.signal.aborted) return;
      of.current = key;
      put({ items, hasMore: false, loading: false, ...fields });
    };
    try {
      for (let page; ; ) {
        page = await ask(items.at(-1), own.signal);
        items = [...items, ...page.items];
        if (items.length >= count || !page.hasMore || !page.items.length)
          return end({ hasMore: page.hasMore });
      }
    } catch (failure) {
      // Where it was asked again, what was there is still the best that is known.
      return end({ failure, ...(of.current === key && { items: got.items }) });
    }
  };
  useEffect(() => {
    const isSame = of.current === key;
    if (!isSame) put(nothing);
    load([], isSame ? Math.min(MOST_AGAIN, got.items.length) : 1);
    return () => stop.current?.abort();
  }, [key, turn, tries]);
  useEffect(() => {
    if (got.failure && !state.isAway.value) again(tries + 1);
  }, [state.isAway.value]);
  return {
    ...got,
    more: () => {
      if (got.loading || !got.hasMore) return;
      put({ ...got, loading: true });
      load(got.items, got.items.length + 1);
    },
    again: () => again(tries + 1),
  };
}

/** What changes whenever somebody writes: what is shown of now is asked for again then. */
export function nowTurn(at) {
  const known = state.timeline.value;
  return at ? "" : `${known?.position} ${known?.entries} ${known?.size} ${known?.dirty}`;
}

/** Where one is: links, of which each leads a part further up; the last is here. */
const Crumbs = ({ label, parts }) =>
  html`<nav class="crumbs" aria-label=${label}>${parts.map(
    (part, index) => html`${index > 0 && html`<span class="dim">/</span>`}${part}`,
  )}</nav>`;

/** A field that narrows a list down while one types. */
export function Find({ value, find, label, placeholder = label }) {
  const box = useRef(null);
  const typed = useRef(null);
  useKeys((key) => key === "/" && (box.current.focus(), box.current.select(), true));
  useEffect(() => {
    if (document.activeElement !== box.current) box.current.value = value;
  }, [value]);
  // Whoever has gone on is not brought back.
  useEffect(() => () => clearTimeout(typed.current), [value]);
  const later = (text) => {
    clearTimeout(typed.current);
    typed.current = setTimeout(() => find(text), AFTER_MS);
  };
  return html`<label class="box"><${Icon} name="search" /><span class="hidden">${label}</span>
    <input ref=${box} type="search" placeholder=${placeholder} maxlength="400" spellcheck=${false}
      autocomplete="off" onInput=${(event) => later(event.currentTarget.value)}
      onKeyDown=${(event) => event.key === "Escape" && (clearTimeout(typed.current), find(""),
        (event.currentTarget.value = ""), event.currentTarget.blur(), event.stopPropagation())} />
    </label>`;
}

/** Rows of links, of which `j` and `k` reach the next; `here` is the one that is chosen. */
export function Links({ pages, count, draw, label, here = -1, empty }) {
  const box = useRef(null);
  const [at, setAt] = useState(null);
  const height = state.isPhone.value ? 44 : 30;
  const show = (index) => reveal(box.current, index * height, height);
  useEffect(() => {
    if (here >= 0) show(here);
  }, [here >= 0]);
  const reach = (index) => {
    const next = Math.max(0, Math.min(count - 1, index));
    setAt(next);
    show(next);
    requestAnimationFrame(() => box.current?.querySelector(`[data-at="${next}"]`)?.focus());
    return true;
  };
  const keys = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 };
  useKeys((key, event) => {
    const isArrow = key.startsWith("Arrow");
    if (!(key in keys) || !count || (isArrow && !box.current.contains(event.target))) return false;
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    const now = Number(focused?.dataset?.at ?? at ?? here);
    return reach(now + keys[key]);
  });
  return html`<div class="links">
    ${pages.failure && html`<${Failed} failure=${pages.failure} again=${pages.again} />`}
    ${pages.loading && !pages.items.length && html`<${Waiting} />`}
    ${!pages.loading && !pages.items.length && !pages.failure && empty}
    <${Rows} class="scroll" role="group" aria-label=${label} count=${count} height=${height}
      scroller=${box} keep=${at ?? undefined} draw=${(index) => draw(index, { "data-at": index })}
      reach=${(last) => last > count - 40 && pages.more()} />
    <p class="hidden" role="status">${pages.loading ? "" : `${count}${pages.hasMore ?
      " or more" : ""} listed`}</p>
  </div>`;
}

/**
 * The frame: `parts` say where one is, `links` what is there, and the children are what is chosen.
 *
 * `close` takes what is chosen away: on a phone there is room for one of the two.
 */
export function Walk({ title, heading, parts, find, at, choose, links, close, children }) {
  const isOpen = Boolean(close);
  useKeys((key) => key === "Escape" && isOpen && (close(), true));
  return html`<div class="walk">
    <h2 class="hidden" tabIndex="-1" ref=${heading}>${title}</h2>
    <header class="walk-head"><${Crumbs} label=${title} parts=${parts} /><span class="gap"></span>
      ${find}<${At} at=${at} choose=${choose} /></header>
    ${at && html`<${Then} at=${at} choose=${choose} />`}
    <div class=${`halves ${isOpen ? "opened" : ""}`}>
      <${Links} ...${links} />
      ${children}
    </div>
  </div>`;
}

/** What is chosen: its name, what can be done with it, and what it says. */
export function Chosen({ label, name, facts, acts, close, children }) {
  return html`<section class="beside chosen-one" aria-label=${label}>
    <header><div class="named"><span class="mono">${name}</span><span class="quiet facts-line">
      ${facts}</span></div><span class="gap"></span>${acts}${close && state.isPhone.value &&
      html`<${Button} icon="cross" tone="bare" label="Close" onClick=${close} />`}</header>
    <div class="beside-scroll">${children}</div>
  </section>`;
}
