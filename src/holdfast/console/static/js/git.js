// The copy of a namespace in a git repository: how far it is, what stays here, and what went wrong.

import { html, useState } from "../vendor/preact.js";
import { Form } from "./acts.js";
import { namespaceOf } from "./api.js";
import { Answered, OfOne, Part, spell } from "./operations.js";
import { Button, Chip, Copied, Failed, Moment, Name, Note, Said, Waiting, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { bytes, exact, many, number } from "./text.js";

const LOOK_MS = 4000;
const MOST_ERROR = 1000;
const MOST_PATTERNS = 100;
const MINUTE_S = 60;
const LEAST_MINUTES = 1;
const MOST_MINUTES = 527040; // A year.

export const GitCopy = () => html`<${OfOne} title="Git copy" what="A copy in git is"
  words="Each snapshot as a commit, in a repository of yours." Inside=${Copy} />`;

/** What there is: `{backup, newest}`; no backup where nobody has said where the copy is. */
async function look(asked, stop) {
  const [backup, page] = await Promise.all([
    asked.git(stop).catch((failure) => {
      if (failure.code === "git_backup_not_found") return null;
      throw failure;
    }),
    asked.timeline({ limit: 1 }, stop),
  ]);
  return { backup, newest: page.snapshots[0]?.number ?? 0 };
}

function Copy({ namespace, choice, title, words }) {
  const asked = namespaceOf(namespace);
  const [asks, setAsks] = useState(null);
  const answer = useAnswer((stop) => look(asked, stop), [namespace], { everyMs: LOOK_MS });
  const backup = answer.value?.backup;
  const close = () => setAsks(null);
  const act = async (what, doing, done) => {
    try {
      await doing();
      if (done) state.toast(done);
      answer.refresh();
    } catch (failure) {
      state.tell(failure, what);
    }
  };
  const push = () => act("Not asked for", () => asked.pushGit(), "A push is asked for.");
  const turn = () =>
    act(backup.paused ? "It stays paused" : "Not paused", () =>
      asked.changeGit({ paused: !backup.paused }),
    );
  const remove = async () => {
    await asked.removeGit();
    state.toast("Forgotten; what is there stays there.");
    answer.refresh();
  };
  const away = state.away();
  return html`<${Part} title=${title} words=${words} acts=${html`${choice}${backup && html`<${Button}
    tone="primary" icon="arrow" why=${away || (backup.paused ? "It is paused" : undefined)}
    onClick=${push}>Push now<//><${Button}
    icon=${backup.paused ? "play" : "clock"} why=${away} onClick=${turn}>${backup.paused ? "Go on" :
    "Pause"}<//><${Button} icon="label" why=${away} onClick=${() => setAsks("set")}>Change…<//>
    <${Button} icon="trash" why=${away} label="Forget where the copy is"
    onClick=${() => setAsks("remove")} />`}`}>
    <${Answered} answer=${answer}>${({ newest }) => backup ? html`<${Standing} backup=${backup}
      newest=${newest} confirm=${() => setAsks("host")} />` : html`<div class="empty">
      <h3>No copy yet</h3><p>A repository of yours, on any host that takes a deploy key: whoever has git can look at it.</p>
      <p><${Button} tone="primary" icon="branch" why=${away} onClick=${() => setAsks("set")}>Set it up…<//></p></div>`}<//>
    ${asks === "set" && html`<${Where} asked=${asked} backup=${backup} close=${close}
      done=${answer.refresh} />`}
    ${asks === "host" && html`<${Host} asked=${asked} close=${close} done=${answer.refresh} />`}
    ${asks === "remove" && html`<${Form} title="Forget where the copy is" button="Forget" icon="trash"
      tone="danger" doing=${remove} shut=${close}><p>Nothing is pushed any more, and its key or
      password is gone. What is in the repository stays there.</p><//>`}
  <//>`;
}

const isSsh = (backup) => backup.public_key !== null;
const waitsForHost = (backup) => isSsh(backup) && backup.host_fingerprint === null;

function State({ backup, behind }) {
  if (backup.paused) return html`<${Chip}>paused<//>`;
  if (waitsForHost(backup)) return html`<${Chip} tone="warn" icon="warn">the host is not confirmed<//>`;
  if (backup.failures > 0) return html`<${Chip} tone="failed" icon="cross">failed ${many(
    backup.failures, "time")}<//>`;
  if (backup.asked_at !== null) return html`<${Chip} tone="live" icon="play">will be pushed<//>`;
  return html`<${Chip} tone="live">${behind ? "on" : "up to date"}<//>`;
}

function Standing({ backup, newest, confirm }) {
  const behind = Math.max(0, newest - backup.pushed_number);
  const when = [
    backup.on_tasks && "when a task has ended",
    backup.every_seconds && `every ${spell(backup.every_seconds).replace(/^1 /, "")} if something is new`,
    "when somebody asks for it",
  ].filter(Boolean);
  const rules = [
    `files over ${bytes(backup.file_bytes)}`,
    backup.scan_secrets && "files in which something looks like a secret",
    backup.patterns.length > 0 && "files that are called as below",
  ].filter(Boolean);
  const facts = [
    ["Repository", html`<${Copied} text=${backup.remote} />`],
    ["Branch", html`<span class="mono"><${Name} text=${backup.branch} most="80" /></span>`],
    isSsh(backup)
      ? ["Deploy key", html`<${Copied} text=${backup.public_key} /><div class="quiet">The host has to be given it, with leave to write.</div>`]
      : ["User", html`<${Name} text=${backup.user ?? ""} most="80" />`],
    isSsh(backup) && ["Host key", backup.host_fingerprint === null ? "not confirmed" : html`<${Copied}
      text=${backup.host_fingerprint} />`],
    backup.pushed_commit !== null && ["Last commit", html`<${Copied} text=${backup.pushed_commit} />`],
    backup.tried_at !== null && ["Last tried", exact(backup.tried_at)],
    backup.planes.length > 0 && ["Beside files", backup.planes.join(", ")],
    ["Pushed", when.join("; ")],
    ["Stays here", rules.join("; ")],
    backup.patterns.length > 0 && ["Called", html`<span class="mono"><${Said}
      text=${backup.patterns.slice(0, MOST_PATTERNS).join("  ")} /></span>${backup.patterns.length >
      MOST_PATTERNS ? ` and ${number(backup.patterns.length - MOST_PATTERNS)} more` : ""}`],
  ].filter(Boolean);
  return html`
    <div class="numbers">
      <p class="number"><strong>${backup.pushed_at === null ? "never" : `#${backup.pushed_number}`}
        </strong><span class="quiet">${backup.pushed_at === null ? "pushed" : html`pushed <${Moment}
        at=${backup.pushed_at} short />`}</span><${State} backup=${backup} behind=${behind} /></p>
      <p class="number"><strong>${number(behind)}</strong><span class="quiet">${behind === 1 ?
        "snapshot" : "snapshots"} to go</span></p>
      <p class="number"><strong>${number(backup.withheld)}</strong><span class="quiet">${backup.withheld
        === 1 ? "file" : "files"} held back</span></p></div>
    ${waitsForHost(backup) && html`<${Note} tone="warn" icon="key">
      <strong>Nobody has said yet that the host is the right one.</strong> Until then nothing is pushed.
      <p><${Button} why=${state.away()} onClick=${confirm}>Look which keys it shows…<//></p><//>`}
    ${backup.last_error !== null && html`<${Note} tone="bad" icon="warn" role="alert">
      <strong>The last push failed.</strong> <${Said} text=${backup.last_error.slice(0, MOST_ERROR)} />
      ${" "}${backup.paused ? "" : "It is tried again by itself, later each time."}<//>`}
    ${backup.withheld > 0 && html`<${Note} tone="quiet" icon="shield">
      <strong>${many(backup.withheld, "file")} stay${backup.withheld === 1 ? "s" : ""} here, by the rules below.</strong>
      ${" "}<code>.holdfast/withheld.json</code> in the copy names ${backup.withheld === 1 ? "it" : "them"}, and why.<//>`}
    <dl class="about">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Where the copy is, and when it is pushed; of what is there already, all else stays. */
function Where({ asked, backup, close, done }) {
  const [remote, setRemote] = useState(backup?.remote ?? "");
  const hasPassword = /^https\b/i.test(remote.trim());
  const set = async (form) => {
    const minutes = Number(form.get("minutes"));
    await asked.configureGit({
      remote: remote.trim(),
      branch: form.get("branch").trim() || undefined,
      ...(hasPassword && {
        user: form.get("user").trim() || undefined,
        password: form.get("password") || undefined,
      }),
      on_tasks: form.get("tasks") === "on",
      every_seconds: minutes > 0 ? Math.round(minutes * MINUTE_S) : undefined,
      scan_secrets: form.get("scan") === "on",
      patterns: backup?.patterns,
      file_bytes: backup?.file_bytes,
      planes: backup?.planes,
    });
    done();
  };
  return html`<${Form} title="Where the copy is" button=${backup ? "Save" : "Set it up"} icon="branch"
    doing=${set} shut=${close} why=${remote.trim() ? undefined : "It needs an address"}>
    <label class="field">Address of the repository <input name="remote" required maxlength="2048"
      value=${remote} onInput=${(event) => setRemote(event.currentTarget.value)}
      placeholder="git@host:me/copy.git" autocomplete="off" spellcheck=${false} /></label>
    <label class="field">Branch <input name="branch" maxlength="200" defaultValue=${backup?.branch ??
      "main"} autocomplete="off" spellcheck=${false} /></label>
    ${hasPassword && html`<div class="pair"><label class="field">User <input name="user" maxlength="512"
      defaultValue=${backup?.user ?? ""} autocomplete="off" spellcheck=${false} /></label>
      <label class="field">Password or token <input name="password" type="password" maxlength="512"
      placeholder=${backup && !isSsh(backup) ? "As it is" : ""} autocomplete="off" /></label></div>`}
    <label class="field">Push every so many minutes, if something is new <input name="minutes"
      type="number" min=${LEAST_MINUTES} max=${MOST_MINUTES} placeholder="Never"
      defaultValue=${backup?.every_seconds ? Math.max(1, Math.round(backup.every_seconds / MINUTE_S)) :
      ""} /></label>
    <label class="tick"><input type="checkbox" name="tasks" defaultChecked=${backup?.on_tasks ?? true}
      /> Push when a task has ended</label>
    <label class="tick"><input type="checkbox" name="scan" defaultChecked=${backup?.scan_secrets ?? true}
      /> Files in which something looks like a secret stay here</label>
    ${!hasPassword && html`<p class="quiet">${backup && isSsh(backup) ? "Its deploy key stays." :
      "A deploy key is made, which the host has to be given."}</p>`}
  <//>`;
}

/** Which keys the host shows: one of them is compared with what it publishes, and confirmed. */
function Host({ asked, close, done }) {
  const answer = useAnswer((stop) => asked.gitHostKeys(stop), []);
  const [chosen, choose] = useState(null);
  const confirm = async () => {
    await asked.confirmGitHost(chosen);
    state.toast("The host is confirmed: from now on it has to have this key.");
    done();
  };
  const keys = answer.value?.host_keys;
  return html`<${Form} title="Which keys the host shows" button="It is this one" icon="check"
    doing=${confirm} shut=${close} why=${chosen ? undefined : "Choose the one that the host publishes"}>
    ${answer.failure && html`<${Failed} failure=${answer.failure} again=${answer.again} />`}
    ${!keys && !answer.failure && html`<${Waiting} what="Asking the host…" />`}
    ${keys && html`<p>Compare one with what the host publishes, not with what somebody sent you.</p>
      <fieldset><legend class="hidden">Keys</legend>${keys.map((key) => html`<label class="choice"
      key=${key.fingerprint}><input type="radio" name="fingerprint" checked=${chosen ===
      key.fingerprint} onChange=${() => choose(key.fingerprint)} /><span><b><${Name} text=${key.kind}
      most="40" /></b><span class="mono quiet"><${Name} text=${key.fingerprint} most="80" /></span>
      </span></label>`)}</fieldset>`}
  <//>`;
}
