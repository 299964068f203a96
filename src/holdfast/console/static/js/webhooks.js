// Webhooks: whom they tell of what, how that went, and once more.

import { html, useState } from "../vendor/preact.js";
import { Form } from "./acts.js";
import { Answered, Part, Secret, Table, Yes, here } from "./operations.js";
import {
  Button,
  Chip,
  Copied,
  Failed,
  Moment,
  Name,
  Note,
  Popover,
  Said,
  Waiting,
  useAnswer,
} from "./parts.js";
import * as state from "./state.js";
import { cut, exact, many, plain } from "./text.js";

const LOOK_MS = 4000;
const PAGE = 100;
const MOST_BODY = 100000;

export const Webhooks = () => {
  const { id } = state.route.value;
  return id ? html`<${One} id=${id} />` : html`<${All} />`;
};

const SECRET =
  "Receivers check with it that a delivery is from here. Whoever has it can make such deliveries.";
const secretsOf = (made) => [
  ["Signing secret", made.signing_secret],
  ["The same for libraries of Standard Webhooks", made.standard_secret],
];

const Standing = ({ hook }) =>
  hook.enabled
    ? hook.last_delivery_ok === false
      ? html`<${Chip} tone="warn" icon="warn">last one failed<//>`
      : html`<${Chip} tone="live">on<//>`
    : html`<${Chip} tone="failed" icon="cross">off<//>`;

const eventsOf = (hook) =>
  hook.events.length === 0 || hook.events.includes("*") ? "everything" : hook.events.join(", ");

function All() {
  const [asks, setAsks] = useState(false);
  const [made, setMade] = useState(null);
  const answer = useAnswer((stop) => here().webhooks(stop), [], { everyMs: LOOK_MS });
  const make = async (form) => {
    const events = form.get("events").split(/[\s,]+/).filter(Boolean);
    setMade(await here().addWebhook({
      url: form.get("url").trim(),
      events: events.length ? events : undefined,
      namespace: form.get("namespace").trim() || undefined,
      description: form.get("description").trim() || undefined,
    }));
    answer.refresh();
  };
  return html`<${Part} title="Webhooks" words="Who is told of what happens here."
    acts=${html`<${Button} tone="primary" icon="hook" why=${state.away()}
      onClick=${() => setAsks(true)}>New webhook…<//>`}>
    <${Answered} answer=${answer}>${({ webhooks }) => html`<${Table} label="Webhooks"
      head=${["Address", "Told of", "Of", "State", "Last delivery"]}
      empty="Nobody is told: there is no webhook."
      rows=${webhooks.map((hook) => [hook.webhook_id, html`<a class="mono"
        href=${state.to(["operations", "webhooks", hook.webhook_id])}><${Name} text=${hook.url}
        most="60" /></a>${hook.description && html`<div class="quiet"><${Name}
        text=${hook.description} most="120" /></div>`}`, html`<${Name} text=${eventsOf(hook)}
        most="80" />`, hook.namespace === null ? "all namespaces" : html`<${Name}
        text=${hook.namespace} most="40" />`, html`<${Standing} hook=${hook} />`,
        hook.last_delivery_at === null ? html`<span class="dim">none yet</span>` : html`<${Moment}
        at=${hook.last_delivery_at} short /> ${hook.last_delivery_status !== null && html`<span
        class="quiet">${hook.last_delivery_status}</span>`}`])} />`}<//>
    ${asks && html`<${Form} title="New webhook" button="Make it" icon="hook" doing=${make}
      shut=${() => setAsks(false)}>
      <label class="field">Address <input name="url" type="url" required maxlength="2048"
        placeholder="Where events are sent to" autocomplete="off" /></label>
      <label class="field">Events <input name="events" maxlength="2000" autocomplete="off"
        placeholder="All; or snapshot.restored, task.failed, rollbacks.*" /></label>
      <label class="field">Only of this namespace <input name="namespace" maxlength="128"
        placeholder="All" autocomplete="off" spellcheck=${false} /></label>
      <label class="field">What is it for? <input name="description" maxlength="200"
        autocomplete="off" /></label><//>`}
    ${made && html`<${Secret} title="The webhook is made" words=${SECRET} secrets=${secretsOf(made)}
      close=${() => setMade(null)} />`}
  <//>`;
}

function One({ id }) {
  const [asks, setAsks] = useState(null);
  const [made, setMade] = useState(null);
  const answer = useAnswer((stop) => here().webhook(id, stop), [id], { everyMs: LOOK_MS });
  const hook = answer.value;
  if (answer.failure?.status === 404)
    return html`<div class="empty"><h2>There is no such webhook</h2><p><a
      href=${state.to(["operations", "webhooks"])}>All webhooks</a></p></div>`;
  if (!hook)
    return html`<${Part} title="Webhook"><${Answered} answer=${answer}>${() => null}<//><//>`;
  const close = () => setAsks(null);
  const act = async (what, doing) => {
    try {
      await doing();
      answer.refresh();
    } catch (failure) {
      state.tell(failure, what);
    }
  };
  const test = () =>
    act("Not tested", async () => {
      const done = await here().testWebhook(id);
      state.toast(done.ok ? `The test was taken: ${done.status}.` :
        `The test was not taken: ${plain(cut(done.error ?? String(done.status), 200))}`,
        { bad: !done.ok });
    });
  const rotate = async () => {
    setMade(await here().rotateWebhook(id));
    answer.refresh();
  };
  const remove = async () => {
    await here().removeWebhook(id);
    state.toast("The webhook is gone.");
    state.go(state.to(["operations", "webhooks"]));
  };
  return html`<${Part} title="Webhook" words=${html`<span class="mono"><${Name} text=${hook.url}
    most="120" /></span>`} acts=${html`<${Button} icon="play" why=${state.away()} onClick=${test}>Test<//>
    ${hook.enabled && html`<${Button} icon="away" why=${state.away()} onClick=${() => act("Not turned off",
      () => here().changeWebhook(id, { enabled: false }))}>Turn off<//>`}
    <${Button} icon="key" why=${state.away()} onClick=${() => setAsks("rotate")}>New secret…<//>
    <${Button} icon="trash" why=${state.away()} onClick=${() => setAsks("delete")}>Delete…<//>`}>
    ${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.refresh} />`}
    ${!hook.enabled && html`<${Note} tone="warn" icon="warn"><strong>It is off.</strong>
      ${" "}${hook.disabled_reason ? html`<${Said} text=${hook.disabled_reason.slice(0, 500)} />${" "}` : ""}
      Turned on, it is told what it missed, as far as that is still kept (30 days).
      <p><${Button} icon="check" why=${state.away()} onClick=${() => act("Not turned on",
      () => here().changeWebhook(id, { enabled: true }))}>Turn on<//></p><//>`}
    <dl class="about">
      <div><dt>Told of</dt><dd><${Name} text=${eventsOf(hook)} most="400" /></dd></div>
      <div><dt>Of</dt><dd>${hook.namespace === null ? "all namespaces" : html`<${Name}
        text=${hook.namespace} />`}</dd></div>
      ${hook.description && html`<div><dt>What for</dt><dd><${Name} text=${hook.description}
        most="400" /></dd></div>`}
      <div><dt>Made</dt><dd>${exact(hook.created_at)}</dd></div>
      <div><dt>Id</dt><dd><${Copied} text=${id} /></dd></div>
    </dl>
    <h3>Deliveries of the last 7 days</h3>
    <${Deliveries} id=${id} />
    ${asks === "rotate" && html`<${Form} title="A new secret" button="Make it" icon="key"
      doing=${rotate} shut=${close}><p>The next delivery is signed with it: receivers that only know
      the old one will refuse it.</p><//>`}
    ${asks === "delete" && html`<${Form} title="Delete the webhook" button="Delete" icon="trash"
      tone="danger" doing=${remove} shut=${close}><p>Nothing is sent to this address any more, and
      what is on its way is dropped. It cannot be brought back, only made anew.</p><//>`}
    ${made && html`<${Secret} title="The new secret" words=${SECRET} secrets=${secretsOf(made)}
      close=${() => setMade(null)} />`}
  <//>`;
}

const HOW = { delivered: ["taken", "live"], failed: ["failed", "failed"], pending: ["waits", "warn"] };

function Deliveries({ id }) {
  const [below, setBelow] = useState([]);
  const [open, setOpen] = useState(null);
  const answer = useAnswer(
    (stop) => here().deliveries(id, { limit: PAGE, below: below.at(-1) }, stop),
    [id, below.at(-1)],
    { everyMs: LOOK_MS },
  );
  const redeliver = async (each) => {
    try {
      await here().redeliver(id, each.delivery_id);
      state.toast(`${plain(each.event_type)} is sent once more.`);
      answer.refresh();
    } catch (failure) {
      state.tell(failure, "Not sent");
    }
  };
  return html`<${Answered} answer=${answer}>${({ deliveries, has_more: hasMore }) => html`
    <${Table} label="Deliveries" head=${["Event", "How it went", "Attempts", "When", "Answer", ""]}
      empty="Nothing was sent yet."
      rows=${deliveries.map((each) => {
        const [words, tone] = HOW[each.state] ?? [each.state, "plain"];
        return [each.delivery_id, html`<button type="button" class="link-like mono"
          onClick=${() => setOpen(each)}><${Name} text=${each.event_type} most="40" /></button>`,
          html`<${Chip} tone=${tone}>${words}<//>`, many(each.attempts, "try", "tries"),
          html`<${Moment} at=${each.finished_at ?? each.created_at} short />${each.next_at &&
          each.state === "pending" && html`<div class="quiet">next <${Moment} at=${each.next_at}
          short /></div>`}`, html`${each.status ?? ""} ${each.error && html`<span class="quiet"><${Name}
          text=${each.error} most="120" /></span>`}`, html`<${Button} icon="back" why=${state.away()}
          label=${`Redeliver ${plain(each.event_type)}`}
          onClick=${() => redeliver(each)}>Redeliver<//>`];
      })} />
    <div class="pages">${below.length > 0 && html`<${Button} onClick=${() => setBelow(below.slice(0,
      -1))}>Newer<//>`}${hasMore && html`<${Button} onClick=${() => setBelow([...below,
      deliveries.at(-1).event_number])}>Older<//>`}</div>
    ${open && html`<${Sent} id=${id} delivery=${open} close=${() => setOpen(null)} />`}`}<//>`;
}

/** What is sent, to the letter. */
function Sent({ id, delivery, close }) {
  const answer = useAnswer((stop) => here().delivery(id, delivery.delivery_id, stop), [id,
    delivery.delivery_id]);
  const sent = answer.value;
  return html`<${Popover} title="What is sent" wide close=${close}>
    ${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.again} />`}
    ${!sent && !answer.failure && html`<${Waiting} />`}
    ${sent && html`<p><${Yes} is=${sent.state === "delivered"} yes="taken" no=${sent.state ===
      "pending" ? "not yet" : "not taken"} /> <span class="quiet">${many(sent.attempts, "try", "tries")}</span></p>
      ${sent.error && html`<${Note} tone="bad" icon="warn"><${Said} text=${sent.error.slice(0, 1000)} /><//>`}
      ${sent.body === null ? html`<p class="quiet">The event is no longer kept.</p>` : html`<pre
        class="whole" tabIndex="0" aria-label="Body"><${Said} text=${sent.body.slice(0, MOST_BODY)}
        keep=${"\n\t"} /></pre>`}`}
    <div class="ends">${sent?.body && html`<${Copied} text=${sent.body}>copy<//>`}<${Button}
      tone="primary" onClick=${close}>Close<//></div><//>`;
}
