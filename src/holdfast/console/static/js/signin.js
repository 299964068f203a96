// Signing in: a key is sent once, and never kept here.

import { html, useRef, useState } from "../vendor/preact.js";
import { Button, Icon, Mark, Note, Said, useTitle } from "./parts.js";
import { isDark, signIn, signedOutWhy, turnTheme, whyNot } from "./state.js";

/** The field for a key, and what happens with it: on the page to sign in, and to add a second key. */
export function KeyForm({ button = "Sign in", done }) {
  const field = useRef(null);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(null);
  const onSubmit = async (event) => {
    event.preventDefault();
    const key = field.current.value.trim();
    if (busy) return;
    if (!key) return setWrong("Type or paste a key.");
    setBusy(true);
    setWrong(null);
    try {
      await signIn({ api_key: key });
      done?.();
    } catch (failure) {
      setWrong(whyNot(failure, "This key is not valid, or no longer."));
      setBusy(false);
      field.current?.focus();
    }
  };
  return html`<form class="key-form" onSubmit=${onSubmit}>
    <label class="field" for="api-key">API key</label>
    <input id="api-key" ref=${field} type="password" autocomplete="off" autofocus
      spellcheck=${false} maxlength="512"
      aria-invalid=${wrong ? "true" : undefined} aria-describedby=${wrong ? "key-wrong" :
        "key-kept"} />
    ${wrong && html`<p id="key-wrong" class="wrong" role="alert"><${Icon} name="warn" /> <${Said}
      text=${wrong} /></p>`}
    <p id="key-kept" class="quiet">Kept in this browser as a cookie that scripts cannot read.</p>
    <${Button} tone="primary" type="submit" busy=${busy} icon="key">${busy ? "Looking…" : button}
      <//>
  </form>`;
}

export function SignIn() {
  const heading = useRef(null);
  useTitle("Sign in");
  return html`<main class="signin">
    <div class="card">
      <div class="brand"><${Mark} size="28" /><h1 ref=${heading}>Holdfast</h1></div>
      <p class="lead">See what your agents did. Go back when it went wrong.</p>
      ${signedOutWhy.value && html`<${Note} tone="warn" icon="warn" role="status">
        ${signedOutWhy.value}<//>`}
      <${KeyForm} />
      <details><summary>Where do I find a key?</summary>
        <p>Whoever runs the server has them: its first keys are in <code>credentials.json</code> beside its vault. A runtime key opens namespaces, an operator’s key lists them all.</p>
          </details>
    </div>
    <${Button} class="corner" icon=${isDark.value ? "moon" : "sun"} tone="bare"
      label=${isDark.value ? "Light colours" : "Dark colours"} onClick=${turnTheme} />
  </main>`;
}
