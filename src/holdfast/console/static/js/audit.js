// The audit: whether anybody has touched what was written down, and what that is.

import { html, useState } from "../vendor/preact.js";
import { Answered, Part, Table, here } from "./operations.js";
import { Button, Copied, Icon, Moment, Name, Note, Popover, Said, useAnswer } from "./parts.js";
import { away } from "./state.js";
import { exact, many, number, plain } from "./text.js";

const PAGE = 100;
const LOOK_MS = 10000;
const LISTED = 50;
const LONGEST_ANCHOR = 200;

export function Audit() {
  const asked = here();
  return html`<${Part} title="Audit" words="Everything that was done, in a chain in which nothing can be changed unseen."
    acts=${html`<a class="button" download href=${asked.audit()}><${Icon} name="download" /><span>Export</span></a>`}>
    <${Verify} />
    <h3>What was done</h3>
    <${Traces} />
  <//>`;
}

function Verify() {
  const [found, setFound] = useState(null);
  const [failure, setFailure] = useState(null);
  const [busy, setBusy] = useState(false);
  const verify = async (event) => {
    event.preventDefault();
    const anchor = String(new FormData(event.currentTarget).get("anchor")).trim();
    setBusy(true);
    setFailure(null);
    try {
      setFound({ ...(await here().verifyAudit(anchor || undefined)), against: anchor });
    } catch (error) {
      setFound(null);
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="verify" onSubmit=${verify}>
    <label class="field">An anchor from before, if you have one <input name="anchor"
      class="mono" maxlength=${LONGEST_ANCHOR} autocomplete="off" spellcheck=${false}
      placeholder="what an earlier check gave you" /></label>
    <${Button} type="submit" tone="primary" icon="shield" busy=${busy} why=${away()}>${busy ?
      "Checking…" : "Verify"}<//></form>
    ${failure && html`<${Note} tone="bad" icon="warn" role="alert"><strong>Not verified.</strong>
      ${" "}<${Said} text=${failure.message} /> ${failure.requestId && html`<span class="mono">
      ${failure.requestId}</span>`}<//>`}
    ${found?.ok && html`<${Note} tone="safe" icon="shield" role="status"><strong>Verified:
      ${" "}${many(found.checked, "entry", "entries")}, no gap.</strong> ${found.against ?
      "It goes on from the anchor that you gave." : ""}
      <div>Keep this anchor elsewhere: a later check against it shows whether anything before now was
      changed or cut off.</div><${Copied} text=${found.anchor} /><//>`}
    ${found && !found.ok && html`<div class="unverified" role="alert"><h3>The chain is broken</h3>
      <p>${many(found.problems.length, "entry is", "entries are")} not what was written. Somebody or
      something has changed the catalog: keep it as it is, and compare it with a backup.</p>
      <ul>${found.problems.slice(0, LISTED).map((each) => html`<li><strong>Entry
        ${" "}${number(each.number)}</strong>${each.namespace !== null && html` of <${Name}
        text=${each.namespace} most="60" />`}: <${Said} text=${each.reason.slice(0, 300)} /></li>`)}</ul>
      ${found.problems.length > LISTED && html`<p>and ${number(found.problems.length - LISTED)} more</p>`}
      </div>`}`;
}

const FIELDS = [
  ["action", "What", "state.rolled_back"],
  ["actor", "By", "key-…"],
  ["resource_id", "Of", "an id"],
  ["session_id", "Session", "sess_…"],
];

function Traces() {
  const [wanted, setWanted] = useState({});
  const [after, setAfter] = useState([]);
  const [open, setOpen] = useState(null);
  const answer = useAnswer(
    (stop) => here().traces({ ...wanted, limit: PAGE, starting_after: after.at(-1) }, stop),
    [JSON.stringify(wanted), after.at(-1)],
    { everyMs: after.length ? 0 : LOOK_MS },
  );
  const find = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setAfter([]);
    setWanted(Object.fromEntries(FIELDS.map(([field]) => [field, String(form.get(field)).trim()])));
  };
  return html`<form class="filters" onSubmit=${find}>${FIELDS.map(([field, words,
    example]) => html`<label><span class="quiet">${words}</span><input name=${field} maxlength="200"
    placeholder=${example} autocomplete="off" spellcheck=${false} /></label>`)}<${Button} type="submit"
    icon="search">Find<//></form>
    <${Answered} answer=${answer}>${({ data, has_more: hasMore }) => html`
      <${Table} label="What was done" head=${["What", "When", "By", "Namespace", "Of"]}
        empty="Nothing like that was done."
        rows=${data.map((each) => [each.id, html`<button type="button" class="link-like"
          onClick=${() => setOpen(each)}><${Name} text=${each.action} most="60" /></button>`,
          html`<${Moment} at=${each.created_at} short />`, html`${each.actor ? html`<span
          class="mono"><${Name} text=${each.actor} most="32" /></span>` : html`<span class="dim">—</span>`}${each.via && html` <span class="quiet">by the
          ${" "}${plain(each.via)}</span>`}`, each.namespace === null ? html`<span
          class="dim">—</span>` : html`<${Name} text=${each.namespace} most="40" />`, html`<span
          class="mono"><${Name} text=${each.resource_id ?? ""} most="40" /></span>`])} />
      <div class="pages">${after.length > 0 && html`<${Button} onClick=${() => setAfter(after.slice(0,
        -1))}>Newer<//>`}${hasMore && html`<${Button} onClick=${() => setAfter([...after,
        data.at(-1).id])}>Older<//>`}</div>`}<//>
    ${open && html`<${Trace} each=${open} close=${() => setOpen(null)} />`}`;
}

function Trace({ each, close }) {
  const facts = [
    ["Number", number(each.number)],
    ["When", exact(each.created_at)],
    ["By", each.actor && html`<${Copied} text=${each.actor} />`],
    ["Namespace", each.namespace !== null && html`<${Name} text=${each.namespace} />`],
    ["Of", each.resource_id && html`<${Name} text=${`${each.resource_type ?? ""} ${each.resource_id}`} />`],
    ["Session", each.session_id && html`<${Name} text=${each.session_id} />`],
    ["Agent", each.agent_id && html`<${Name} text=${each.agent_id} />`],
    ["User", each.user_id && html`<${Name} text=${each.user_id} />`],
    ["Request", each.request_id && html`<${Copied} text=${each.request_id} />`],
    ["Hash", html`<${Copied} text=${each.hash} />`],
  ];
  return html`<${Popover} title=${plain(each.action)} wide close=${close}>
    <dl class="about">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>
      ${name}</dt><dd>${value}</dd></div>`)}</dl>
    <pre class="whole" tabIndex="0" aria-label="Details"><${Said} text=${JSON.stringify(each.details,
      null, 2).slice(0, 20000)} keep=${"\n"} /></pre>
    <div class="ends"><${Button} tone="primary" onClick=${close}>Close<//></div><//>`;
}
