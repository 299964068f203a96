// One session: its versions with why, its state, and what was said.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Actor } from "./actors.js";
import { namespaceOf } from "./api.js";
import { MOST_SAID, Turns } from "./conversation.js";
import { Patch, Tree } from "./jsontree.js";
import {
  Button,
  Chip,
  Copied,
  Failed,
  Icon,
  Moment,
  Name,
  Note,
  Said,
  Tabs,
  Waiting,
  useAnswer,
  useKeys,
  useTitle,
} from "./parts.js";
import { ForkFrom, RollBack } from "./sessionacts.js";
import * as state from "./state.js";
import { exact, many, plain } from "./text.js";

const PAGE = 50;
const MOST_PAGES = 20; // The server gives a thousand versions at once.
const LOOK_MS = 4000;

const KINDS = {
  created: "made",
  updated: "changed",
  replaced: "replaced",
  turn: "changed by a turn",
  rollback: "rolled back",
  fork: "forked",
  restore: "came with a restore",
};

export function Session() {
  const { namespace, id, query } = state.route.value;
  const heading = useRef(null);
  const asked = namespaceOf(namespace);
  const [ask, setAsk] = useState(null);
  const [pane, setPane] = useState("state");
  useTitle(`${id} · ${namespace}`);
  const answer = useAnswer((stop) => asked.session(id, stop), [namespace, id]);
  const info = answer.value;
  // What is new since is asked for without its states: they may be large.
  const newer = useAnswer(
    (stop) => (info ? asked.versions(id, { since_version: info.version, limit: 1 }, stop) : null),
    [namespace, id, info?.version],
    { everyMs: LOOK_MS },
  );
  const turned = useAnswer(
    (stop) => (info ? asked.turns(id, { limit: 1 }, stop) : null),
    [namespace, id, info?.version, info?.turn_count],
    { everyMs: LOOK_MS },
  );
  const lastTurn = turned.value?.data[0]?.turn_number ?? info?.turn_count;
  const isOld = newer.value?.data.length > 0 || (info && lastTurn !== info.turn_count);
  useEffect(() => {
    if (isOld) answer.refresh();
  }, [isOld, newer.value?.current_version, lastTurn]);

  useEffect(() => heading.current?.focus({ preventScroll: true }), [Boolean(info)]);
  const wanted = /^\d{1,9}$/.test(query.get("v") ?? "") ? Number(query.get("v")) : info?.version;
  const chosen = wanted > info?.version ? info.version : wanted;
  const at = (v, compared) =>
    state.to(["n", namespace, "sessions", id], {
      v: v === info?.version ? undefined : String(v),
      with: compared === undefined ? undefined : String(compared),
    });
  const choose = (v) => state.go(at(v), { replace: true });
  useKeys((key) => {
    if (key === "m") return (show(setPane, "said"), true);
    if (key === "d") return (show(setPane, "state"), true);
    if (key === "h") return (show(setPane, "versions"), true);
    if (key === "Escape") return (state.go(state.to(["n", namespace, "sessions"])), true);
    const lower = key.toLowerCase();
    if (!info || !["j", "k", "r", "f"].includes(lower)) return false;
    if (lower === "j" || lower === "k") {
      const next = chosen + (lower === "j" ? -1 : 1);
      return (next >= 0 && next <= info.version && choose(next), true);
    }
    if (state.isAway.value) return true;
    if (lower === "f") return (setAsk("fork"), true);
    return (chosen !== info.version && setAsk("rollback"), true);
  });

  if (answer.failure && !info)
    return answer.failure.status === 404
      ? html`<div class="empty"><h2>There is no such session</h2><p>It was deleted, its time is over, or a restore took it away: a moment from before has it still.</p><p><a
          href=${state.to(["n", namespace, "sessions"])}>All sessions</a></p></div>`
      : html`<${Failed} failure=${answer.failure} again=${answer.refresh} />`;
  if (!info) return html`<${Waiting} />`;
  const isNow = chosen === info.version;
  const failure = answer.failure ?? newer.failure;
  const away = state.away();
  const panes = [
    ["versions", "Versions"],
    ["state", "State"],
    ["said", "Conversation"],
  ];
  return html`<div class=${`session on-${pane}`}>
    <header class="head">
      <h2 tabIndex="-1" ref=${heading}><span class="mono"><${Name} text=${id} most="80" /></span></h2>
      <p class="facts"><span><${Name} text=${info.agent_id} most="60" /></span>
        ${info.user_id && html`<span class="quiet">for <${Name} text=${info.user_id} most="60" /></span>`}
        <span class="quiet">version ${info.version}, ${many(info.turn_count, "turn")}</span>
        <span class="quiet">changed <${Moment} at=${info.updated_at} short /></span>
        ${info.ttl_expires_at && html`<span class="quiet" title=${exact(info.ttl_expires_at)}>until${" "}
          <${Moment} at=${info.ttl_expires_at} short /></span>`}</p>
      <div class="acts">
        <${Button} tone="primary" icon="back" kbd="R" why=${away ?? (isNow ?
          "That is how it is now: choose an earlier version" : undefined)}
          onClick=${() => setAsk("rollback")}>Roll back${isNow ? "" : ` to version ${chosen}`}…<//>
        <${Button} icon="fork" kbd="F" why=${away} onClick=${() => setAsk("fork")}>Fork from ${isNow ?
          "here" : `version ${chosen}`}…<//>
        <${MomentThen} namespace=${namespace} id=${id} version=${chosen} />
      </div>
    </header>
    ${failure && html`<${Failed} failure=${failure} again=${answer.refresh} />`}
    <div class="pane-switch" role="group" aria-label="What is shown">${panes.map(([name,
      words]) => html`<button type="button" class="button" aria-pressed=${pane === name ? "true" :
      "false"} onClick=${() => setPane(name)}><span>${words}</span></button>`)}</div>
    <div class="thirds">
      <section class="third versions" aria-label="Versions"><${Versions} info=${info}
        chosen=${chosen} /></section>
      <section class="third state" aria-label="State"><${StateAt} key=${`${chosen} ${info.version}`}
        info=${info} chosen=${chosen} at=${at} /></section>
      <section class="third said" aria-label="Conversation"><${Beside} info=${info}
        chosen=${chosen} /></section>
    </div>
    ${ask === "rollback" && html`<${RollBack} info=${info} version=${chosen} done=${() => (choose(
      info.version), answer.refresh())} again=${answer.refresh} close=${() => setAsk(null)} />`}
    ${ask === "fork" && html`<${ForkFrom} info=${info} version=${chosen}
      close=${() => setAsk(null)} />`}
  </div>`;
}

/** Shows a part of the page on a phone, and puts the focus there wherever it is. */
function show(setPane, name) {
  setPane(name);
  requestAnimationFrame(() => {
    const first = document.querySelector(`.third.${name} :is(button, a, [tabindex="0"])`);
    /** @type {HTMLElement} */ (first)?.focus();
  });
}

/** The way to the moment of the whole namespace that was the last when a version was made. */
function MomentThen({ namespace, id, version }) {
  const open = async () => {
    try {
      const asked = namespaceOf(namespace);
      const { data } = await asked.versions(id, { since_version: version - 1, limit: 1 });
      const { snapshots } = await asked.timeline({ until: data[0]?.created_at, limit: 1 });
      if (snapshots.length)
        state.go(state.to(["n", namespace, "snapshot", snapshots[0].snapshot_id]));
      else state.toast("No moment that is kept is older than this version.");
    } catch (failure) {
      state.tell(failure, "Not found");
    }
  };
  return html`<${Button} icon="camera" onClick=${open}>Moment before it<//>`;
}

// Versions

/**
 * Returns which versions lead to the newest one: others were taken back.
 *
 * What is before the first one that was asked for is not known, and counts as leading.
 */
function leading(versions) {
  const by = new Map(versions.map((each) => [each.version, each]));
  const found = new Set();
  for (let at = versions.at(-1); at;) {
    found.add(at.version);
    const back = at.restored_from_version;
    at = by.get(back !== null && back < at.version ? back : at.version - 1);
  }
  return found;
}

function Versions({ info, chosen }) {
  const { namespace } = state.route.value;
  const [pages, setPages] = useState(0);
  const from = Math.max(-1, info.version - PAGE * (pages + 1));
  const answer = useAnswer(
    (stop) => namespaceOf(namespace).versions(info.id, { since_version: from,
      limit: PAGE * (pages + 1) }, stop),
    [namespace, info.id, pages],
    { turn: info.version },
  );
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!answer.value) return html`<${Waiting} />`;
  const versions = answer.value.data;
  const lead = leading(versions);
  const seen = [...versions].reverse().slice(pages > 3 ? PAGE * (pages - 3) : 0);
  return html`<ol class="version-list">${seen.map((each) => html`<${Version} key=${each.version}
    each=${each} isChosen=${each.version === chosen} isTrue=${lead.has(each.version)}
    isNow=${each.version === info.version} />`)}</ol>
    ${seen.length < versions.length && html`<p
      class="quiet pad">Newer ones are left out: <${Button} onClick=${() => setPages(0)}>Newest<//></p>`}
    ${versions.length >= PAGE * (pages + 1) && from >= 0 && pages + 1 < MOST_PAGES ?
      html`<div class="bar"><${Button} onClick=${() => setPages(pages + 1)}>Older versions<//></div>` :
      html`<p class="dim pad">This list reaches back to version ${versions[0]?.version ?? 0}.</p>`}`;
}

function Version({ each, isChosen, isTrue, isNow }) {
  const { namespace, id } = state.route.value;
  const link = useRef(null);
  useEffect(() => {
    if (isChosen) link.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  const back = each.restored_from_version;
  return html`<li class=${`version ${isTrue ? "leads" : "aside"} ${isChosen ? "chosen" : ""}`}>
    <a ref=${link} href=${state.to(["n", namespace, "sessions", id], { v: isNow ? undefined :
      String(each.version) })} aria-current=${isChosen ? "true" : undefined}>
      <span class="version-line"><${Icon} name=${back !== null ? "back" : each.kind === "fork" ?
        "fork" : "check"} size="13" /><strong>Version ${each.version}</strong>
        <span class="quiet">${KINDS[each.kind] ?? plain(each.kind)}${back !== null ?
        ` to ${back}` : ""}</span><span class="gap"></span><span class="dim"><${Moment}
        at=${each.created_at} short /></span></span>
      ${each.reasoning && html`<span class="why"><${Said} text=${each.reasoning.slice(0, MOST_SAID)}
        keep=${"\n"} />${each.reasoning.length > MOST_SAID ? "…" : ""}</span>`}
      <span class="version-line">${isNow && html`<${Chip} tone="live">now<//>`}${!isTrue &&
        html`<${Chip}>taken back<//>`}<span class="dim">${many(each.turn_count, "turn")}</span>
        ${each.updated_by && html`<span class="dim clip"><${Actor} id=${each.updated_by} most="32"
        /></span>`}</span>
    </a></li>`;
}

// The state

function StateAt({ info, chosen, at }) {
  const { namespace, query } = state.route.value;
  const compared = query.get("with");
  const asked = namespaceOf(namespace);
  const isNow = chosen === info.version;
  const answer = useAnswer(
    (stop) => (isNow ? { state: info.state } : asked.state(info.id, { version: chosen }, stop)),
    [namespace, info.id, chosen],
  );
  const other = compared === null ? null : Number(compared);
  const diff = useAnswer(
    (stop) => (other === null ? null : asked.stateDiff(info.id, { from: other, to: chosen }, stop)),
    [namespace, info.id, chosen, other],
  );
  const before = Math.max(0, chosen - 1);
  const choices = [...new Set([before, info.version, 0, other ?? before])]
    .filter((each) => each !== chosen)
    .sort((one, two) => two - one);
  const pick = (event) => {
    const value = event.currentTarget.value;
    state.go(at(chosen, value === "" ? undefined : Number(value)), { replace: true });
  };
  const typed = (event) => {
    event.preventDefault();
    const value = Number(new FormData(event.currentTarget).get("other"));
    if (Number.isInteger(value) && value >= 0) state.go(at(chosen, value), { replace: true });
  };
  return html`
    <header class="third-head"><h3>State at version ${chosen}</h3><span class="gap"></span>
      <label class="quiet">Compare with <select value=${compared ?? ""} onChange=${pick}>
        <option value="">nothing</option>${choices.map((each) => html`<option
        value=${String(each)}>${each === before ? `version ${each}, before it` : each ===
        info.version ? `version ${each}, now` : `version ${each}`}</option>`)}</select></label></header>
    ${other !== null
      ? html`<form class="other" onSubmit=${typed}><label>What leads from version <input name="other"
          key=${other} defaultValue=${other} inputmode="numeric" pattern="[0-9]+" required maxlength="9"
          autocomplete="off" onChange=${(event) => event.currentTarget.form.requestSubmit()} /></label>
          <span>to version ${chosen}</span></form>
        ${diff.failure ? html`<${Failed} failure=${diff.failure} again=${diff.again} />` :
        diff.value ? html`<${Patch} diff=${diff.value} />` : html`<${Waiting} what="Comparing…" />`}`
      : answer.failure
        ? html`<${Failed} failure=${answer.failure} again=${answer.again} />`
        : answer.value
          ? html`<${Tree} value=${answer.value.state} label=${`State at version ${chosen}`} />`
          : html`<${Waiting} />`}`;
}

// What was said, what is remembered, and where it comes from

function Beside({ info, chosen }) {
  const [tab, setTab] = useState("turns");
  const tabs = [
    ["turns", "Conversation", info.turn_count],
    ["memories", "Memories", info.memory_count],
    ["lineage", "Lineage", null],
    ["about", "About", null],
  ];
  return html`<${Tabs} label="About this session" name="beside" tabs=${tabs} tab=${tab} choose=${setTab} />
    <div role="tabpanel" id="beside-panel" class="panel" aria-labelledby=${`beside-${tab}`}>
      ${tab === "turns" && html`<${Turns} info=${info} chosen=${chosen} />`}
      ${tab === "memories" && html`<${Memories} info=${info} />`}
      ${tab === "lineage" && html`<${Lineage} info=${info} />`}
      ${tab === "about" && html`<${About} info=${info} />`}
    </div>`;
}

function Memories({ info }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    (stop) => namespaceOf(namespace).memories({ session_id: info.id, limit: 100 }, stop),
    [namespace, info.id, info.memory_count],
  );
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!answer.value) return html`<${Waiting} />`;
  const { data } = answer.value;
  if (!data.length) return html`<p class="quiet">Nothing is remembered.</p>`;
  return html`<ul class="memories">${data.map((each) => html`<li key=${each.id}>
    <p class="said-text"><${Said} text=${each.content.slice(0, MOST_SAID)} keep=${"\n"} /></p>
    <p class="turn-line dim"><${Chip}><${Said} text=${each.type.slice(0, 40)} /><//>
      ${each.tags.slice(0, 8).map((tag) => html`<${Chip}><${Said} text=${tag.slice(0, 40)} /><//>`)}
      <${Moment} at=${each.created_at} short /></p></li>`)}</ul>
    ${answer.value.has_more && html`<p class="quiet">The newest 100.</p>`}`;
}

const MOST_FORKS = 100;

function Lineage({ info }) {
  const { namespace } = state.route.value;
  const answer = useAnswer((stop) => namespaceOf(namespace).lineage(info.id, stop), [namespace,
    info.id]);
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!answer.value) return html`<${Waiting} />`;
  const { ancestors, forks, forked_version: version } = answer.value;
  const rows = ancestors.map((id, depth) => ({ id, depth }));
  rows.push({ id: info.id, depth: ancestors.length, version, isHere: true });
  const left = [...forks].reverse().map((fork) => ({ fork, depth: ancestors.length + 1 }));
  while (left.length && rows.length < MOST_FORKS) {
    const { fork, depth } = left.pop();
    rows.push({ id: fork.session_id, depth, version: fork.forked_version });
    for (const each of [...fork.forks].reverse()) left.push({ fork: each, depth: depth + 1 });
  }
  return html`<ul class="lineage">${rows.map((each) => html`<li key=${each.id}
    style=${{ paddingInlineStart: `${Math.min(each.depth, 8) * 16}px` }}><${Icon} name=${each.depth ?
    "fork" : "session"} size="13" />${each.isHere ? html`<strong class="mono"><${Name}
    text=${each.id} most="40" /></strong>` : html`<a class="mono" href=${state.to(["n", namespace,
    "sessions", each.id])}><${Name} text=${each.id} most="40" /></a>`}
    ${each.version !== null && each.version !== undefined && html`<span
    class="quiet">from version ${each.version}</span>`}</li>`)}</ul>
    ${left.length > 0 && html`<p class="quiet">The first ${MOST_FORKS}.</p>`}
    ${rows.length === 1 && html`<p class="quiet">It comes from no other, and no other comes from it.</p>`}`;
}

function About({ info }) {
  const facts = [
    ["Id", html`<${Copied} text=${info.id} />`],
    ["Made", exact(info.created_at)],
    ["Ends", info.ttl_expires_at ? exact(info.ttl_expires_at) : "when somebody ends it"],
    ...Object.entries(info.metadata).slice(0, 50).map(([name, value]) => [
      html`<${Name} text=${name} most="40" />`,
      html`<${Name} text=${typeof value === "string" ? value : JSON.stringify(value)} most="400" />`,
    ]),
  ];
  return html`<dl class="about">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>
    ${value}</dd></div>`)}</dl>
    ${info.turn_count > 0 && html`<${Note} tone="quiet"
      icon="session">Turns that were taken back are struck through, as far as a moment from before has them.<//>`}`;
}
