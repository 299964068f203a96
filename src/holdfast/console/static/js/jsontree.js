// JSON as a tree: what is folded is not there, and of the rest only what can be seen.

import { html, useMemo, useState } from "../vendor/preact.js";
import { Button, Copied, Icon, Popover, Rows, Said } from "./parts.js";
import { cut, many, number } from "./text.js";

const HEIGHT = 24;
const MOST_NODES = 20000;
const OPEN_ROWS = 150;
const MOST_ROWS = 50000;
const MOST_INDENT = 24;
const MOST_LETTERS = 160;
const MOST_SHOWN = 100000;

/** What JSON has no word for comes as an object with one name that begins with `$`. */
const MARKS = { $bytes: "bytes in base64", $time: "an instant", $msgpack: "msgpack in base64" };

function markOf(value) {
  let mark = null;
  for (const name in value) {
    if (mark || !Object.hasOwn(MARKS, name) || typeof value[name] !== "string") return null;
    mark = name;
  }
  return mark;
}

const isBranch = (value) => value !== null && typeof value === "object" && !markOf(value);
const namesOf = (value) => (Array.isArray(value) ? [...value.keys()] : Object.keys(value));
const sizeOf = (value) => (Array.isArray(value) ? value.length : Object.keys(value).length);

/** Counts values, up to a limit: whoever only asks whether there are many need not count all. */
function countNodes(value, most = MOST_NODES) {
  let count = 0;
  const left = [value];
  while (left.length && count <= most) {
    const each = left.pop();
    count += 1;
    if (isBranch(each)) {
      if (sizeOf(each) > most) return most + 1;
      for (const name of namesOf(each)) left.push(each[name]);
    }
  }
  return count;
}

/** Which branches are open before anybody chose: level by level, as long as it stays readable. */
function openFirst(value) {
  const open = new Set();
  if (countNodes(value) > MOST_NODES) return open;
  let level = isBranch(value) ? [["", value]] : [];
  let rows = 0;
  while (level.length) {
    const next = [];
    for (const [path, branch] of level) {
      rows += sizeOf(branch);
      if (path && rows > OPEN_ROWS) return open;
      if (path) open.add(path);
      for (const name of namesOf(branch))
        if (isBranch(branch[name])) next.push([`${path}\0${name}`, branch[name]]);
    }
    level = next;
  }
  return open;
}

/** Puts what is open into rows, without recursion: nesting is somebody else's choice. */
function rowsOf(value, open) {
  if (!isBranch(value)) return [{ path: "", name: null, value, depth: 0 }];
  const rows = [];
  const enter = (path, branch, depth) => {
    const names = Array.isArray(branch) ? null : Object.keys(branch);
    return { path, branch, names, size: (names ?? branch).length, at: 0, depth };
  };
  const left = [enter("", value, 0)];
  while (left.length) {
    const top = left.at(-1);
    if (top.at >= top.size) {
      left.pop();
      continue;
    }
    if (rows.length >= MOST_ROWS) {
      rows.push({ path: "", depth: 0, isCut: true });
      break;
    }
    const name = top.names ? top.names[top.at] : top.at;
    top.at += 1;
    const path = `${top.path}\0${name}`;
    const inner = top.branch[name];
    rows.push({ path, name, value: inner, depth: top.depth });
    if (isBranch(inner) && open.has(path))
      left.push(enter(path, inner, top.depth + 1));
  }
  return rows;
}

/** The beginning of a value as JSON: no more of it is looked at than is shown. */
function brief(value, room, depth = 0) {
  if (typeof value === "string") return JSON.stringify(value.slice(0, room));
  if (value === null || typeof value !== "object") return String(value);
  const isList = Array.isArray(value);
  if (depth > 3) return isList ? "[…]" : "{…}";
  const parts = [];
  let length = 2;
  for (const name of isList ? value.keys() : Object.keys(value)) {
    if (length >= room) return isList ? `[${parts.join(", ")}, …]` : `{${parts.join(", ")}, …}`;
    const inner = brief(value[name], room - length, depth + 1);
    parts.push(isList ? inner : `${JSON.stringify(String(name).slice(0, room))}: ${inner}`);
    length += parts.at(-1).length + 2;
  }
  return isList ? `[${parts.join(", ")}]` : `{${parts.join(", ")}}`;
}

/** A value on one line: what it is can be told by its colour, and by its form. */
function Value({ value, most = MOST_LETTERS }) {
  if (isBranch(value))
    return html`<span class="dim"><${Said} text=${brief(value, most)} /></span>`;
  if (typeof value === "string")
    return html`<span class="c-text">"<${Said} text=${cut(value, most)} />"</span>`;
  const mark = markOf(value);
  if (mark)
    return html`<span class="dim">${MARKS[mark]}</span><span class="c-text"><${Said}
      text=${cut(value[mark], most)} /></span>`;
  if (typeof value !== "number") return html`<span class="c-key">${String(value)}</span>`;
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
  return html`<span class="c-number" title=${isRounded ?
    "It has more digits than a browser counts with" : undefined}>${isRounded ? "≈ " : ""}
    ${String(value)}</span>`;
}

/** A text in full, up to a bound that is said. */
const Whole = ({ text, label }) => html`<pre class="whole" tabIndex="0" role="region"
    aria-label=${label}><${Said} text=${text.slice(0, MOST_SHOWN)} keep=${"\n\t"} /></pre>
  ${text.length > MOST_SHOWN && html`<p
    class="quiet">The first ${number(MOST_SHOWN)} of ${number(text.length)} letters.</p>`}`;

/** A value as a tree, with its parts folded where they are many; `label` says what it is. */
export function Tree({ value, label }) {
  const [open, setOpen] = useState(() => openFirst(value));
  const [whole, setWhole] = useState(null);
  const rows = useMemo(() => rowsOf(value, open), [value, open]);
  const turn = (path) => {
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  };
  if (!rows.length) return html`<p class="quiet pad">It is empty.</p>`;
  const copied = html`<span class="tree-copy"><${Copied} text=${() => JSON.stringify(value, null, 2)}
    >Copy<//></span>`;
  if (typeof value === "string")
    return html`<div class="tree">${copied}<${Whole} text=${value} label=${label} /></div>`;
  const draw = (index) => {
    const { path, name, value: each, depth, isCut } = rows[index];
    if (isCut)
      return html`<div class="tree-row leaf dim">No more than ${number(MOST_ROWS)} rows are listed.</div>`;
    const indent = { paddingInlineStart: `${12 + Math.min(depth, MOST_INDENT) * 16}px` };
    const key = html`<span class="tree-key"><${Said} text=${cut(String(name ?? ""), 80)} /></span>`;
    if (isBranch(each))
      return html`<button type="button" class="tree-row" style=${indent}
        aria-expanded=${open.has(path) ? "true" : "false"} onClick=${() => turn(path)}><${Icon}
        name="chevron" size="12" />${key}<span class="dim">${Array.isArray(each) ?
        many(each.length, "item") : many(sizeOf(each), "key")}</span>${!open.has(path) &&
        html` <${Value} value=${each} most=${80} />`}</button>`;
    const text = typeof each === "string" ? each : each?.[markOf(each)];
    const isLong = text !== undefined && (text.length > 60 || text.includes("\n"));
    const inner = html`${key}<${Value} value=${each} />`;
    return isLong
      ? html`<button type="button" class="tree-row leaf" style=${indent} title="Show all of it"
        onClick=${() => setWhole({ name, text })}>${inner}</button>`
      : html`<div class="tree-row leaf" style=${indent}>${inner}</div>`;
  };
  return html`<div class="tree">${copied}
    <${Rows} class="tree-rows" role="region" tabIndex="0" aria-label=${label} count=${rows.length}
      height=${HEIGHT} extra=${12} draw=${draw} />
    ${whole && html`<${Popover} title="All of it" wide close=${() => setWhole(null)}>
      <p class="mono quiet"><${Said} text=${cut(String(whole.name ?? ""), 200)} /></p>
      <${Whole} text=${whole.text} label="The text" />
      <div class="ends"><${Copied} text=${whole.text}>copy<//><${Button} tone="primary"
        onClick=${() => setWhole(null)}>Close<//></div><//>`}
  </div>`;
}

const FIRST = 100;
const WORDS = { add: "added", remove: "removed", replace: "changed" };
const SIGNS = { add: "+", remove: "−", replace: "~" };

/**
 * Puts a patch beside the values that were there: `{op, path, old, now}`, the values as JSON text.
 *
 * The text says each change as `- /path: value` and `+ /path: value`. A path may hold line breaks:
 * it is known from the patch and cut off by its length, and a value in JSON has none.
 */
function changesOf({ patch, text }) {
  let at = 0;
  const read = (sign, path) => {
    const head = `${sign} ${path}: `;
    if (!text.startsWith(head, at)) return null;
    const end = text.indexOf("\n", at + head.length);
    const value = text.slice(at + head.length, end < 0 ? undefined : end);
    at = end < 0 ? text.length : end + 1;
    return value;
  };
  return patch.map(({ op, path, value }) => ({
    op,
    path,
    old: op === "add" ? null : read("-", path),
    now: op === "remove" ? null : (read("+", path), JSON.stringify(value)),
  }));
}

const nameOf = (path) =>
  path
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(" › ");

/** What leads from one state to another, one change after the other. */
export function Patch({ diff, first = FIRST }) {
  const [most, setMost] = useState(first);
  const changes = useMemo(() => changesOf(diff), [diff]);
  if (!changes.length) return html`<p class="quiet pad">Nothing differs between these two.</p>`;
  return html`<ul class="patch">${changes.slice(0, most).map(
    ({ op, path, old, now }) => html`<li key=${path}>
      <p class="patch-path"><span class=${`sign ${WORDS[op] ?? "changed"}`}><span
        aria-hidden="true">${SIGNS[op] ?? "~"}</span><span class="hidden">${WORDS[op] ?? op}</span>
        </span><bdi class="mono"><${Said} text=${cut(nameOf(path) || "everything", 160)} /></bdi></p>
      ${old !== null && html`<del class="patch-value gone"><${Said} text=${cut(old, 1200)} /></del>`}
      ${now !== null && html`<ins class="patch-value came"><${Said} text=${cut(now, 1200)} /></ins>`}
    </li>`,
  )}</ul>
  ${changes.length > most && html`<div class="bar"><span>
    ${number(changes.length - most)} more changes</span><${Button}
    onClick=${() => setMost(most + FIRST)}>Show more<//></div>`}`;
}
