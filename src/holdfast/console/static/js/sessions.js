// All sessions of a namespace: whose they are, how far they have come, and which turn in circles.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import {
  Chip,
  Failed,
  Icon,
  Moment,
  Name,
  Rows,
  Waiting,
  useKeys,
  useAnswer,
  useTitle,
} from "./parts.js";
import * as state from "./state.js";
import { many, number, plain } from "./text.js";

const PAGE = 100;
const LOOK_MS = 5000;
const TYPED_MS = 300;

/** Reads what is sought: `agent:` and `user:` are asked of the server, words are looked for in ids. */
function sought(text) {
  const found = { words: [] };
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const [, field, value] = /^(agent|user):(.+)$/.exec(word) ?? [];
    if (field) found[field] = value;
    else found.words.push(word.toLowerCase());
  }
  return found;
}

export function Sessions() {
  const { namespace, query } = state.route.value;
  const heading = useRef(null);
  const typing = useRef(null);
  const search = useRef(null);
  const q = query.get("q") ?? "";
  const { agent, user, words } = sought(q);
  const asked = namespaceOf(namespace);
  useTitle(`Sessions · ${namespace}`, heading);
  const first = useAnswer(
    (stop) => asked.sessions({ limit: PAGE, agent_id: agent, user_id: user,
      include_state: false }, stop),
    [namespace, agent, user],
    { everyMs: LOOK_MS },
  );
  const health = useAnswer((stop) => asked.rollbacks(stop), [namespace], { everyMs: LOOK_MS * 6 });
  const [older, setOlder] = useState({ rows: [], hasMore: null, failure: null });
  useEffect(() => setOlder({ rows: [], hasMore: null, failure: null }), [namespace, agent, user]);
  const newest = first.value?.data ?? [];
  const there = new Set(newest.map((each) => each.id));
  const all = [...newest, ...older.rows.filter((each) => !there.has(each.id))];
  const hasMore = older.hasMore ?? first.value?.has_more ?? false;
  const rows = words.length
    ? all.filter(({ id, agent_id: by, user_id: whose }) =>
        words.every((word) => `${id} ${by} ${whose ?? ""}`.toLowerCase().includes(word)))
    : all;
  const asking = useRef(false);
  const filter = useRef(null);
  filter.current = `${agent} ${user}`;
  const reach = async (last) => {
    if (!hasMore || asking.current || last < rows.length || !all.length) return;
    asking.current = true;
    const asked_of = filter.current;
    try {
      const page = await asked.sessions({ limit: PAGE, agent_id: agent, user_id: user,
        include_state: false, starting_after: all.at(-1).id });
      if (asked_of !== filter.current) return;
      setOlder({ rows: [...older.rows, ...page.data], hasMore: page.has_more, failure: null });
    } catch (failure) {
      setOlder({ ...older, hasMore: false, failure });
    } finally {
      asking.current = false;
    }
  };
  const type = (text) => {
    clearTimeout(typing.current);
    typing.current = setTimeout(
      () => state.go(state.to(["n", namespace, "sessions"], { q: text }), { replace: true }),
      TYPED_MS,
    );
  };
  useEffect(() => () => clearTimeout(typing.current), []);
  useKeys((key) => {
    if (key === "/") return (search.current?.focus(), true);
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
    /** @type {NodeListOf<HTMLElement>} */
    const all = document.querySelectorAll("a.session-row");
    const links = step ? [...all] : [];
    if (!links.length) return false;
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + step))].focus();
    return true;
  });
  const loops = new Map((health.value?.loops ?? []).map((each) => [each.session_id, each]));
  const height = state.isPhone.value ? 66 : 40;
  return html`<div class="page sessions">
    <h2 class="hidden" tabIndex="-1" ref=${heading}>Sessions</h2>
    <div class="search"><label class="box"><${Icon} name="search" /><span
      class="hidden">Search sessions</span><input type="search" ref=${search} defaultValue=${q}
      placeholder="Search by id, agent:desk or user:mira"
      onInput=${(event) => type(event.currentTarget.value)} /><kbd aria-hidden="true">/</kbd></label>
      <span class="quiet" role="status">${first.value ? `${many(rows.length, "session")}${hasMore ?
      " so far" : ""}` : ""}</span></div>
    ${first.failure && html`<${Failed} failure=${first.failure} again=${first.refresh} />`}
    ${older.failure && html`<${Failed} failure=${older.failure}
      again=${() => setOlder({ ...older, hasMore: true, failure: null })} />`}
    ${!first.value && !first.failure && html`<${Waiting} />`}
    ${first.value && !rows.length && html`<div class="empty">${q ? html`<h3>No session is like that</h3>
      <p>Words are looked for in ids, agents and users; <code>agent:</code> and <code>user:</code> have to be exact.</p>` :
      html`<h3>No sessions</h3><p>Agents make them with <code>agent.sessions.create</code>.</p>`}</div>`}
    ${rows.length > 0 && html`<div class="session-head" aria-hidden="true"><span>Session</span>
      <span>Agent</span><span>User</span><span class="right">Version</span><span
      class="right">Turns</span><span class="right">Memories</span><span>Last change</span></div>
      <${Rows} class="scroll" role="list" aria-label="Sessions" count=${rows.length} height=${height}
        reach=${reach} draw=${(index) => html`<${Line} each=${rows[index]} namespace=${namespace}
        loop=${loops.get(rows[index].id)} />`} />`}
  </div>`;
}

function Line({ each, namespace, loop }) {
  const facts = `version ${each.version}, ${many(each.turn_count, "turn")}`;
  return html`<div role="listitem" class="session-line"><a class="session-row" href=${state.to(["n",
    namespace, "sessions", each.id])}>
    <span class="clip"><span class="mono"><${Name} text=${each.id} most="48" /></span>
      ${each.forked_from && html` <${Chip} icon="fork" title=${`From ${plain(each.forked_from)}`}>fork<//>`}
      ${loop && html` <${Chip} tone="warn" icon="warn"
        title=${`Rolled back to version ${loop.version} ${loop.rollbacks} times`}>turns in circles<//>`}
    </span>
    <span class="clip quiet"><${Name} text=${each.agent_id} most="40" /></span>
    <span class="clip quiet who"><${Name} text=${each.user_id ?? ""} most="40" /></span>
    <span class="right count">${number(each.version)}</span>
    <span class="right count">${number(each.turn_count)}</span>
    <span class="right count">${number(each.memory_count)}</span>
    <span class="narrow quiet">${facts}</span>
    <span class="quiet when"><${Moment} at=${each.updated_at} short /></span>
  </a></div>`;
}
