// Signing a program in: who asks, for what, and a person who decides.
//
// What a program says of itself anybody can say: the code is what tells it from others, and only
// whoever has just started it knows that.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { decideLogin, findLogin } from "./api.js";
import { Button, Moment, Name, Note, Said, useTitle } from "./parts.js";
import { SCOPES } from "./scopes.js";
import { KeyForm } from "./signin.js";
import * as state from "./state.js";
import { plain } from "./text.js";

const LONGEST_NAME = 128;
const DAY = 86400;
const TERMS = [
  ["1 day", DAY],
  ["30 days", 30 * DAY],
  ["90 days", 90 * DAY],
  ["a year", 365 * DAY],
  ["until it is revoked", 0],
];

/** One code after the other: a link that comes into an open page brings another. */
export const Device = () => html`<${OneCode} key=${state.code.value} />`;

function OneCode() {
  const heading = useRef(null);
  const [seen, setSeen] = useState(null);
  const [done, setDone] = useState(null);
  useTitle("Sign a program in", heading);
  const again = () => (setSeen(null), setDone(null), (state.code.value = null));
  const inside = !state.isOperator.value
    ? html`<p>Whoever signs a program in makes a key for it, which takes an operator’s key. Add one to this session.</p>
      <${KeyForm} button="Add" />`
    : done
      ? html`<${Note} tone=${done.tone} icon=${done.icon} role="status"><strong>${done.title}
        </strong> ${done.text}<//><p><${Button} onClick=${again}>Another code<//></p>`
      : seen
        ? html`<${Decide} seen=${seen} decided=${setDone} again=${again} />`
        : html`<${Ask} found=${setSeen} />`;
  return html`<div class="page device"><section class="card-inline">
    <h2 tabIndex="-1" ref=${heading}>Sign a program in</h2>${inside}</section></div>`;
}

const whyNot = (failure) =>
  failure.code === "login_not_found"
    ? "No program that waits shows this code. One is good for ten minutes, and for one decision."
    : state.whyNot(failure, "You are not signed in any more.");

/** The code, typed or out of the address, and who shows it. */
function Ask({ found }) {
  const [code, setCode] = useState(state.code.value ?? "");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(null);
  const look = async (event) => {
    event?.preventDefault();
    if (busy || !code.trim()) return;
    setBusy(true);
    setWrong(null);
    try {
      found(await findLogin(state.session.value.workspace, code.trim()));
    } catch (failure) {
      setWrong(whyNot(failure));
      setBusy(false);
    }
  };
  useEffect(() => {
    if (state.code.value) look();
  }, []);
  return html`<form class="key-form" onSubmit=${look}>
    <label class="field" for="user-code">Code</label>
    <input id="user-code" value=${code} maxlength="32" autocomplete="off" spellcheck=${false}
      placeholder="ABCD-EFGH" autofocus aria-invalid=${wrong ? "true" : undefined}
      aria-describedby="code-why" onInput=${(event) => setCode(event.currentTarget.value)} />
    <p id="code-why" class=${wrong ? "wrong" : "quiet"} role=${wrong ? "alert" : undefined}>${wrong ??
      "The program that you have started shows it."}</p>
    <${Button} tone="primary" type="submit" busy=${busy} why=${code.trim() ? undefined :
      "Type the code"}>${busy ? "Looking…" : "Look who asks"}<//>
  </form>`;
}

/** Who asks, for what, and two buttons. */
function Decide({ seen, decided, again }) {
  const only = state.overview.value?.namespaces ?? [];
  const [scope, setScope] = useState("workspace");
  const [reach, setReach] = useState("one");
  const [namespace, setNamespace] = useState(only.length === 1 ? only[0].name : "");
  const [name, setName] = useState(plain(seen.client).slice(0, LONGEST_NAME));
  const [term, setTerm] = useState(30 * DAY);
  const [busy, setBusy] = useState(null);
  const [wrong, setWrong] = useState(null);
  const isOne = scope !== "admin" && reach === "one";
  const why =
    isOne && !namespace.trim()
      ? "Say which namespace it is for"
      : !name.trim()
        ? "Give the key a name"
        : undefined;
  const decide = async (act, body, told) => {
    if (busy) return;
    setBusy(act);
    setWrong(null);
    try {
      await decideLogin(state.session.value.workspace, act, { user_code: seen.user_code, ...body });
      decided(told);
    } catch (failure) {
      setWrong(whyNot(failure));
      setBusy(null);
    }
  };
  const approve = (event) => {
    event.preventDefault();
    if (why) return;
    decide(
      "approve",
      {
        name: name.trim(),
        admin: scope === "admin",
        add_only: scope === "add-only",
        namespace: isOne ? namespace.trim() : undefined,
        expires_in_seconds: term || undefined,
      },
      {
        tone: "safe",
        icon: "check",
        title: "Approved.",
        text: "The program goes on by itself within a few seconds. Its key is listed with all others, and can be revoked.",
      },
    );
  };
  const refuse = () =>
    decide(
      "deny",
      {},
      { tone: "quiet", icon: "cross", title: "Refused.", text: "The program is told so." },
    );
  return html`<form class="decide" onSubmit=${approve}>
    <p class="user-code mono">${seen.user_code}</p>
    <${Note} tone="warn" icon="warn">
      <strong>Does the program that you have just started show the same code?</strong> If not, or if somebody sent you here, refuse. Whoever waits gets what you choose below.<//>
    <dl class="facts-list">
      <dt>It says it is</dt><dd><${Name} text=${seen.client || "nothing"} most="200" /></dd>
      <dt>It asks from</dt><dd class="mono"><${Name} text=${seen.address} /></dd>
      <dt>It waits</dt><dd>from <${Moment} at=${seen.started_at} /> to <${Moment}
        at=${seen.expires_at} /></dd>
    </dl>
    <fieldset><legend>What it may do</legend>${SCOPES.map(
      ([each, title, text]) => html`<label class="choice" key=${each}><input type="radio"
        name="scope" value=${each} checked=${scope === each} onChange=${() => setScope(each)} />
        <span><b>${title}</b><span class="quiet">${text}</span></span></label>`,
    )}</fieldset>
    ${
      scope !== "admin" &&
      html`<fieldset><legend>Where</legend>
      <div class="choice"><label><input type="radio" name="reach" value="one"
        checked=${reach === "one"} onChange=${() => setReach("one")} /> <b>One namespace</b></label>
        <input class="which" aria-label="Namespace" list="device-namespaces" value=${namespace}
        maxlength="128" autocomplete="off" spellcheck=${false} placeholder="Its name"
        disabled=${reach !== "one"} onInput=${(event) => setNamespace(event.currentTarget.value)} />
        <datalist id="device-namespaces">${only.slice(0, 200).map((each) => html`<option
        key=${each.name} value=${each.name} />`)}</datalist></div>
      <label class="choice"><input type="radio" name="reach" value="all" checked=${reach === "all"}
        onChange=${() => setReach("all")} /><span><b>All namespaces of this workspace</b></span>
        </label></fieldset>`
    }
    <div class="pair"><label class="field">Name of the key <input value=${name}
      maxlength=${LONGEST_NAME} autocomplete="off" onInput=${(event) =>
        setName(event.currentTarget.value)} /></label>
    <label class="field">Good for <select value=${String(term)} onChange=${(event) =>
      setTerm(Number(event.currentTarget.value))}>${TERMS.map(([words, seconds]) => html`<option
      key=${seconds} value=${String(seconds)}>${words}</option>`)}</select></label></div>
    ${wrong && html`<${Note} tone="bad" icon="warn" role="alert"><${Said} text=${wrong} /><//>`}
    <div class="ends"><${Button} tone="bare" onClick=${again}>Another code<//>
      <${Button} busy=${busy === "deny"} onClick=${refuse}>Refuse<//>
      <${Button} tone="primary" type="submit" icon="key" why=${why} busy=${busy === "approve"}>
        Approve<//></div>
  </form>`;
}
