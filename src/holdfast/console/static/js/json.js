// A value as JSON, folded: what is opened is drawn, and of what is long a part at a time.

import { html, useState } from "../vendor/preact.js";
import { Button, Copied, Name, Said } from "./parts.js";
import { many, number } from "./text.js";

const ALL_OPEN = 150; // Values with fewer parts need no folding.
const AT_ONCE = 100;
const MOST_LETTERS = 600;
const MOST_COPIED = 1 << 20;

const isMany = (value) => value !== null && typeof value === "object";
const partsOf = (value) => (Array.isArray(value) ? value.length : Object.keys(value).length);

/** Counts the parts of a value, up to `most`. */
function countOf(value, most) {
  let count = 0;
  const left = [value];
  while (left.length && count < most) {
    const each = left.pop();
    count += 1;
    if (!isMany(each)) continue;
    const inside = Array.isArray(each) ? each : Object.values(each);
    left.push(...inside.slice(0, most));
    if (inside.length > most) return most;
  }
  return count;
}

/** What JSON has no word for comes as an object with one name that begins with `$`. */
const MARKS = { $bytes: "bytes in base64", $time: "an instant", $msgpack: "msgpack in base64" };
const markOf = (value) => {
  if (!isMany(value) || Array.isArray(value) || partsOf(value) !== 1) return null;
  const [name, inside] = Object.entries(value)[0];
  return Object.hasOwn(MARKS, name) && typeof inside === "string" ? [MARKS[name], inside] : null;
};

function Text({ text, tone = "c-text", isQuoted = true }) {
  const [most, setMost] = useState(MOST_LETTERS);
  const quote = isQuoted ? "“" : "";
  return html`<span class=${tone}>${quote}<${Said} text=${text.slice(0, most)} />${text.length <=
    most ? quote && "”" : ""}</span>${text.length > most && html` <${Button} class="small"
    onClick=${() => setMost(most * 10)}>${number(text.length - most)} more letters<//>`}`;
}

function Plain({ value }) {
  const marked = markOf(value);
  if (marked) return html`<span class="dim">${marked[0]}</span> <${Text} text=${marked[1]}
    isQuoted=${false} />`;
  if (typeof value === "string") return html`<${Text} text=${value} />`;
  const tone = typeof value === "number" ? "c-number" : "c-key";
  return html`<span class=${tone}>${String(value)}</span>`;
}

const Label = ({ name }) =>
  typeof name === "number"
    ? html`<span class="dim">${name}</span>`
    : html`<${Name} text=${name} most="120" />`;

function Part({ name, value, isOpen: opens, depth }) {
  const [isOpen, open] = useState(opens || depth === 0);
  const [most, setMost] = useState(AT_ONCE);
  const label =
    name !== undefined && html`<span class="json-name"><${Label} name=${name} /></span>`;
  if (!isMany(value) || markOf(value))
    return html`<div class="json-line">${label}<span class="json-value"><${Plain} value=${value}
      /></span></div>`;
  const isList = Array.isArray(value);
  const size = partsOf(value);
  const words = isList ? many(size, "item") : many(size, "field");
  if (!size)
    return html`<div class="json-line">${label}<span class="dim">${isList ? "empty list" :
      "empty object"}</span></div>`;
  const inside = isOpen
    ? isList
      ? value.slice(0, most).map((each, index) => [index, each])
      : Object.entries(value).slice(0, most)
    : [];
  return html`<div class="json-line"><button type="button" class="fold" aria-expanded=${isOpen ?
    "true" : "false"} onClick=${() => open(!isOpen)}><span class="fold-mark" aria-hidden="true">
    ${isOpen ? "▾" : "▸"}</span>${label}<span class="dim">${words}</span></button></div>
    ${isOpen && html`<ul>${inside.map(([key, each]) => html`<li key=${key}><${Part} name=${key}
      value=${each} isOpen=${opens} depth=${depth + 1} /></li>`)}
      ${size > most && html`<li><${Button} class="small"
        onClick=${() => setMost(most + AT_ONCE)}>${number(size - most)} more<//></li>`}</ul>`}`;
}

/** A value with its parts folded, but where there are few; `what` says what it is. */
export function Json({ value, what }) {
  const isSmall = countOf(value, ALL_OPEN) < ALL_OPEN;
  const text = JSON.stringify(value, null, 2);
  return html`<div class="json mono" role="group" aria-label=${what}>
    ${text.length <= MOST_COPIED && html`<span class="json-copy"><${Copied} text=${text}>Copy<//>
      </span>`}<${Part} value=${value} isOpen=${isSmall} depth=${0} /></div>`;
}
