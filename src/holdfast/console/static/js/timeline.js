// The timeline: what was kept, newest first, with what is true now in the first lane.

import {
  computed,
  html,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useSignal,
  useState,
} from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { Lanes, NowRow, Row, actorOf, layOut, shapeOf } from "./graph.js";
import { Button, Failed, Icon, Kbd, Rows, Waiting, useKeys, useTitle } from "./parts.js";
import * as state from "./state.js";
import { day, many, number, plain } from "./text.js";

const ROW = 34;
const ROW_TOUCH = 48;
const NOW = "now";
const NONE = [];
const FAR = 200; // Places beyond what is there: so far away, one does not wait for all between.
const IN_SIGHT = 80;
const PASSED = { lane: 0, isTrue: true, above: "solid", below: "solid" };

// Searching: one box, of which some words mean something

const TOKEN = /(?:(path|kind|actor|task|before|after):)?("[^"]*"|\S+)/g;

/** Reads what was typed: `{filters}` for the server, and words for the rest. */
function readSearch(text) {
  const words = [];
  const filters = {};
  const fields = { path: "path", kind: "kind", actor: "actor", task: "task_status" };
  for (const [, field, quoted] of text.matchAll(TOKEN)) {
    const value = quoted.replace(/^"|"$/g, "");
    if (field === "path") filters.path = `workspace/${value}`;
    else if (fields[field]) filters[fields[field]] = value;
    else if (field)
      filters[field === "before" ? "until" : "since"] = /^\d{4}-\d\d-\d\d$/.test(value)
        ? `${value}T00:00:00Z`
        : value;
    else if (value === "pinned") filters.pinned = true;
    else words.push(value);
  }
  if (words.length) filters.q = words.join(" ");
  return filters;
}

const KINDS = [
  ["", "All kinds"],
  ["task:failed", "Failed tasks"],
  ["task:completed", "Finished tasks"],
  ["kind:restore", "Went back"],
  ["kind:undo", "Undone"],
  ["kind:merge", "Merged"],
  ["pinned", "Pinned"],
];

const quoted = (text) => (/\s/.test(text) ? `"${text}"` : text);
const without = (q, pattern) => q.replace(pattern, "").trim();
const KIND_WORDS = /(?:^|\s)(?:task:\w+|kind:\w+|pinned)(?=\s|$)/g;
const ACTOR_WORDS = /(?:^|\s)actor:(?:"[^"]*"|\S+)/g;

function Search({ q, search, actors }) {
  const box = useRef(null);
  const typed = useRef(null);
  useKeys((key) => key === "/" && (box.current.focus(), box.current.select(), true));
  const onInput = (event) => {
    const { value } = event.currentTarget;
    clearTimeout(typed.current);
    typed.current = setTimeout(() => search(value), 250);
  };
  const kind = (q.match(KIND_WORDS) ?? [""]).at(-1).trim();
  const actor = /actor:("[^"]*"|\S+)/.exec(q)?.[1].replace(/^"|"$/g, "") ?? "";
  return html`<div class="search" role="search">
    <label class="box"><${Icon} name="search" /><span class="hidden">Search the timeline</span>
      <input ref=${box} type="search" value=${q}
        placeholder="Search, or path:src/shop/cart.py" maxlength="400"
        spellcheck=${false} autocomplete="off" onInput=${onInput}
        onKeyDown=${(event) => event.key === "Escape" && (search(""),
          (event.currentTarget.value = ""), event.currentTarget.blur())} />
      <${Kbd} name="/" />
    </label>
    <select aria-label="Kind" value=${KINDS.some(([value]) => value === kind) ? kind : ""}
      onChange=${(event) => search(`${without(q,
        KIND_WORDS)} ${event.currentTarget.value}`.trim())}>
      ${KINDS.map(([value, name]) => html`<option value=${value}>${name}</option>`)}
    </select>
    ${
      actors.length > 1 &&
      html`<select class="by" aria-label="Actor" value=${actor}
      onChange=${(event) => search(`${without(q, ACTOR_WORDS)} ${event.currentTarget.value &&
        `actor:${quoted(event.currentTarget.value)}`}`.trim())}>
      <option value="">Every actor</option>
      ${actors.map((name) => html`<option value=${name}>${plain(name)}</option>`)}
    </select>`
    }
  </div>`;
}

// The screen

/** Rows and headings of days, in one list of places of the same height. */
function placesOf(entries, hasNow, counts) {
  const places = hasNow ? [{ id: NOW }] : [];
  let before = null;
  for (const entry of entries) {
    const on = entry.day;
    if (on !== before) {
      const above = places.at(-1)?.entry;
      const line = above ? above.below : hasNow ? "dashed" : null;
      places.push({
        id: `day-${on}`,
        day: on,
        count: counts.get(on),
        entry: { past: above?.open ?? [], above: line, below: line },
      });
      before = on;
    }
    places.push({ id: entry.row.snapshot_id, entry, row: entry.row });
  }
  return places;
}

const days = new WeakMap();

function dayOf(row) {
  const today = new Date().getDate();
  if (days.get(row)?.today !== today) days.set(row, { today, name: day(row.created_at) });
  return days.get(row).name;
}

/** All that follows from the rows alone: a choice or a scroll does not work it out again. */
function arrange(rows, { isFound, position, all, isWhole }) {
  const entries = isFound
    ? rows.map((row) => ({ row, lane: 0, isTrue: true, shape: shapeOf(row) }))
    : layOut(rows, { position, all, isWhole });
  const counts = new Map();
  for (const entry of entries) {
    entry.day = dayOf(entry.row);
    counts.set(entry.day, (counts.get(entry.day) ?? 0) + 1);
  }
  const places = placesOf(entries, !isFound, counts);
  const options = places.filter((place) => !place.day);
  options.forEach((place, index) => (place.place = index + 1));
  return { entries, places, options };
}

export const chosenId = computed(() => state.route.value.query.get("sel"));

/** Chooses a row: the address says it, and nothing else changes. */
export function choose(id, { push = false } = {}) {
  const { namespace, query } = state.route.value;
  state.go(state.to(["n", namespace, "timeline"], { q: query.get("q"), sel: id }), {
    replace: !push,
  });
}

function useFound(namespace, q, turn) {
  const [found, put] = useState(null);
  const from = useRef(null);
  useEffect(() => {
    if (!q) return put(null);
    const stop = new AbortController();
    from.current?.abort();
    from.current = stop;
    const filters = readSearch(q);
    const look = async (before, rows) => {
      put((was) => ({ ...was, q, rows, loading: true, failure: null }));
      try {
        const page = await namespaceOf(namespace).timeline(
          { ...filters, limit: 200, before },
          stop.signal,
        );
        const all = [...rows, ...page.snapshots];
        put({
          q,
          rows: all,
          loading: false,
          to: page.searched_to,
          total: page.total,
          more: page.next_before ? () => look(page.next_before, all) : null,
        });
      } catch (failure) {
        if (!stop.signal.aborted) put({ q, rows, loading: false, failure });
      }
    };
    look(undefined, []);
    return () => stop.abort();
  }, [namespace, q, turn]);
  return found;
}

export function Timeline({ Details }) {
  const { namespace, query } = state.route.value;
  const q = query.get("q") ?? "";
  const known = state.timeline.value;
  const heading = useRef(null);
  const list = useRef(null);
  const fresh = useSignal(0);
  const newest = useRef(null);
  const found = useFound(namespace, q, known?.rows[0]?.snapshot_id);
  useTitle(`${namespace} timeline`, heading);
  const height = state.isPhone.value ? ROW_TOUCH : ROW;
  const search = (text) =>
    state.go(state.to(["n", namespace, "timeline"], { q: text, sel: chosenId.value }), {
      replace: true,
    });

  const rows = (found ? found.rows : known?.rows) ?? NONE;
  const ahead = found ? null : known?.ahead;
  const byId = useMemo(
    () =>
      new Map(
        [...(known?.rows ?? NONE), ...(ahead?.rows ?? NONE), ...rows].map((row) => [
          row.snapshot_id,
          row,
        ]),
      ),
    [known?.rows, ahead, rows],
  );
  const find = (id) => byId.get(id);
  const { entries, places, options } = useMemo(
    () =>
      arrange(rows, {
        isFound: Boolean(found),
        position: known?.position,
        all: state.housekeeping.value,
        isWhole: !known?.hasMore,
      }),
    [
      rows,
      Boolean(found),
      known?.position,
      known?.hasMore,
      state.housekeeping.value,
      day(new Date().toISOString()),
    ],
  );
  const asked = chosenId.value ?? (state.isPhone.value ? null : (rows[0]?.snapshot_id ?? NOW));
  const at = places.findIndex((place) => place.id === asked);
  const chosen = asked === NOW ? NOW : find(asked);

  // What stands ahead of the rows that are there, by its place, and the other way round.
  const beyond = (known?.rows.length ?? 0) - places.length;
  const aheadAt = (index) => ahead?.rows[index + beyond - ahead.from];
  const indexOf = (id) => {
    const index = places.findIndex((place) => place.id === id);
    const far = index < 0 && ahead ? ahead.rows.findIndex((row) => row.snapshot_id === id) : -1;
    return far < 0 ? index : Math.max(places.length, far + ahead.from - beyond);
  };

  // What was at the top of the window stays there when rows come in above it.
  const anchor = useRef(/** @type {{ id: string, offset?: number, top?: number }} */ ({ id: null }));
  const note = () => {
    const box = list.current;
    if (!box) return; // It scrolled as it left.
    const first = Math.floor(box.scrollTop / height);
    anchor.current =
      box.scrollTop < height
        ? { id: null }
        : {
            id: places[first]?.id ?? aheadAt(first)?.snapshot_id,
            offset: box.scrollTop - first * height,
            top: box.scrollTop,
          };
    if (box.scrollTop < height) fresh.value = 0;
  };
  const stay = () => {
    const { id, offset, top } = anchor.current;
    // Whoever has scrolled in this very moment goes where they want: the event is on its way.
    if (id && list.current.scrollTop !== top) return true;
    const index = id ? indexOf(id) : -1;
    if (index < 0) return false;
    list.current.scrollTop = index * height + offset;
    anchor.current.top = list.current.scrollTop;
    return true;
  };
  const head = known?.rows[0];
  useLayoutEffect(() => {
    if (!list.current || !head) return;
    const before = newest.current;
    newest.current = { namespace, number: head.number };
    if (before?.namespace !== namespace || head.number <= before.number || found) return;
    const came = known.rows.filter((row) => row.number > before.number).length;
    announce(came);
    if (stay()) fresh.value += came;
  }, [head?.number, namespace]);
  useLayoutEffect(() => {
    // Days and folds are not known before their rows are: who has jumped past them stays there.
    if (list.current && ahead) stay();
  }, [places.length]);
  useLayoutEffect(() => {
    if (list.current && ahead && !anchor.current.id) note();
  }, [ahead]);

  const reveal = (index) => {
    const box = list.current;
    if (!box) return;
    const top = index * height;
    if (top < box.scrollTop) box.scrollTop = Math.max(0, top - height);
    else if (top + height > box.scrollTop + box.clientHeight)
      box.scrollTop = top + height - box.clientHeight;
  };
  const isRead = Boolean(
    known && known.namespace === namespace && !(known.loading && !known.rows.length),
  );
  useEffect(() => {
    // Who comes back to a row finds it where it was, and goes on from there.
    if (!isRead || !list.current || !chosenId.value) return;
    if (at >= 0) reveal(at);
    if (document.activeElement === document.body || document.activeElement === heading.current)
      list.current.focus({ preventScroll: true });
  }, [isRead, namespace]);
  useEffect(() => {
    // Who comes to their directory comes with what they just did in it.
    if (isRead && known.directory && known.dirty && !chosenId.value && !state.isPhone.value)
      choose(NOW);
  }, [isRead, namespace]);
  const move = (step) => {
    const now = options.findIndex((place) => place.id === asked);
    const next = options[Math.max(0, Math.min(options.length - 1, now < 0 ? 0 : now + step))];
    if (!next) return;
    choose(next.id);
    reveal(places.indexOf(next));
  };
  const open = () =>
    chosen &&
    (chosen === NOW
      ? state.go(state.to(["n", namespace, "compare", "@...now"]))
      : state.go(state.to(["n", namespace, "snapshot", chosen.snapshot_id])));
  const page = Math.max(1, Math.floor((list.current?.clientHeight ?? 400) / height) - 1);
  const steps = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: page,
    PageUp: -page,
    Home: -Infinity,
    End: Infinity,
  };
  const onKeyDown = (event) => {
    if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      move(steps[event.key]);
    } else if (event.key === "Enter") {
      if (state.isPhone.value) choose(asked, { push: true });
      else open();
    }
  };
  useKeys((key) => {
    if (key === "j" || key === "k") return (move(key === "j" ? 1 : -1), true);
    return false;
  });

  // What was not asked for yet has its place: the scrollbar is that of the whole timeline.
  const unasked =
    found || !known?.hasMore ? 0 : Math.max(1, (known.total ?? 0) - known.rows.length);
  const reach = (last) => {
    if (!unasked || last <= places.length - 60) return;
    if (last > places.length + FAR) state.lookAhead(Math.max(0, last - IN_SIGHT) + beyond);
    state.loadMore(Math.min(last + 200, known.rows.length + unasked));
  };
  const isOpen = state.isPhone.value && chosenId.value && chosen;
  if (!known || known.namespace !== namespace) return html`<${Waiting} />`;
  const actors = [...new Set(known.rows.map(actorOf).filter(Boolean))].slice(0, 50);
  return html`<div class=${`split ${isOpen ? "opened" : ""}`}>
    <section class="list" aria-label="Timeline">
      <h2 class="hidden" tabIndex="-1" ref=${heading}>Timeline of ${plain(namespace)}</h2>
      <${Search} q=${q} search=${search} actors=${actors} />
      ${known.failure && html`<${Failed} failure=${known.failure} again=${state.refresh} />`}
      ${found && html`<${Answer} found=${found} known=${known} />`}
      ${fresh.value > 0 && html`<button type="button" class="pill"
        onClick=${() => ((list.current.scrollTop = 0), (fresh.value = 0))}>
        ${fresh.value} new</button>`}
      ${
        known.loading && !known.rows.length
          ? html`<${Waiting} what="Reading the timeline…" />`
          : html`<${Rows}
        count=${places.length + unasked} height=${height} scroller=${list} reach=${reach} keep=${at}
        class="scroll" role="listbox" tabIndex="0" aria-label=${found ? "What was found" :
          "Timeline, newest first"}
        aria-activedescendant=${at >= 0 ? (places[at].entry ? `row-${places[at].id}` : "row-now") :
          undefined}
        onKeyDown=${onKeyDown} onScrollCapture=${note}
        draw=${(index) => {
          const place = places[index];
          const row = place ? null : aheadAt(index);
          if (!place && !row) return html`<div class="row unasked" role="presentation"></div>`;
          const pick = () => (
            choose(place?.id ?? row.snapshot_id, { push: state.isPhone.value }),
            list.current.focus({ preventScroll: true })
          );
          if (row)
            return html`<${Row} entry=${{ ...PASSED, row, shape: shapeOf(row), day: dayOf(row) }}
              find=${find} height=${height} isChosen=${row.snapshot_id === asked} choose=${pick}
              open=${open} />`;
          if (place.day)
            return html`<div class="day" role="presentation"><${Lanes} entry=${place.entry}
              height=${height} /><span>${place.day}</span><span class="dim">${many(place.count,
              "snapshot")}${known.hasMore &&
              place.day === places.findLast((each) => each.day)?.day ? " or more" : ""}</span>
              </div>`;
          if (place.id === NOW)
            return html`<${NowRow} known=${known} height=${height} isChosen=${asked === NOW}
              choose=${pick} />`;
          return html`<${Row} entry=${place.entry} find=${find} height=${height}
            place=${place.place} isChosen=${place.id === asked}
            isNew=${place.row.number > (state.firstSeen.value ?? Infinity)} choose=${pick}
              open=${open} />`;
        }} />`
      }
      ${!known.loading && !known.rows.length && !found && html`<${Empty} known=${known} />`}
    </section>
    ${
      (!state.isPhone.value || isOpen) &&
      html`<aside class="pane" aria-label="Details">
      ${isOpen && html`<${Button} class="up" icon="list"
        onClick=${() => history.back()}>Timeline<//>`}
      ${chosen && Details && html`<${Details} key=${chosen === NOW ? NOW : chosen.snapshot_id}
        what=${chosen} find=${find} entry=${entries.find((entry) => entry.row === chosen)} />`}
      ${!chosen && asked && !known.loading && html`<${Elsewhere} id=${asked} />`}
    </aside>`
    }
  </div>`;
}

function Elsewhere({ id }) {
  const { namespace } = state.route.value;
  return html`<div class="empty"><p>That moment is not among those that are listed here.</p>
    <p><a href=${state.to(["n", namespace, "snapshot", id])}>Look for it by its id</a></p></div>`;
}

function Empty({ known }) {
  return html`<div class="empty"><h3>No snapshots yet</h3>
    <p>${known.dirty ? "There is something here that no snapshot holds yet." :
      "Nothing was ever kept here."} Keep this moment, and you can always come back to it.</p>
      </div>`;
}

function Answer({ found, known }) {
  const all = found.total ?? known.total;
  const how = found.loading
    ? "Looking…"
    : `${number(found.rows.length)} found${found.more ? ` so far, looked back to #${found.to}` :
      all ? ` in ${many(all, "snapshot")}` : ""}`;
  return html`<div class="bar" role="status"><span>${how}</span>
    ${found.failure && html`<${Failed} failure=${found.failure} />`}
    ${found.more && html`<${Button} onClick=${found.more}>Look further back<//>`}</div>`;
}

let lastSaid = 0;
let unsaid = 0;

/** Says that rows came, at most once in ten seconds. */
function announce(count) {
  unsaid += count;
  if (Date.now() - lastSaid < 10000) return;
  lastSaid = Date.now();
  state.say(many(unsaid, "new snapshot"));
  unsaid = 0;
}
