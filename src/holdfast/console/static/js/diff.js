// One change, line by line: what the server compared, as it stands there.
//
// A line is one element: `ins` and `del` say to a reader what its colour says to the eye, and its
// numbers are drawn by the style sheet. Every large thing is gated before it is drawn.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { NOTHING, namespaceOf } from "./api.js";
import { colours } from "./colour.js";
import {
  Button,
  Failed,
  Icon,
  Note,
  Path,
  Rows,
  Said,
  Waiting,
  useAnswer,
  useKeys,
} from "./parts.js";
import * as state from "./state.js";
import { bytes, misleads, number, plain, turns } from "./text.js";

export const MOST_BYTES = 1 << 20; // The server compares no longer texts.
export const MOST_ANYWAY = 8 << 20;
const MOST_LINES = 5000;
const FIRST_LINES = 200;
const MOST_LETTERS = 20000;
const MOST_PLAIN = 1200; // Beyond, lines that cannot be seen are not there.
const MOST_IN_PLACE = 400; // Among other things there is no second bar to scroll by.
const LINE = 19;

const COARSE = "Too different to compare line by line";

/**
 * Reads a unified diff: `{lines, isCoarse, said}`; `said` where there is a sentence and no diff.
 *
 * The path is known, and may hold line breaks: what stands before the first hunk is cut off by its
 * length, not looked for. Turned around, it leads from the second text to the first.
 */
function readDiff(text, path, { isTurned = false } = {}) {
  let rest = text;
  const isCoarse = rest.startsWith(COARSE);
  if (isCoarse) rest = rest.slice(rest.indexOf("\n") + 1);
  const head = `--- a/${path}\n+++ b/${path}\n`;
  if (rest.startsWith(head)) rest = rest.slice(head.length);
  else if (rest.startsWith("--- ") && rest.includes("\n@@ -"))
    rest = rest.slice(rest.indexOf("\n@@ -") + 1); // No text.
  else if (!rest.startsWith("@@ ")) return { lines: [], isCoarse, said: text.trim() };
  const lines = [];
  let old = 0;
  let now = 0;
  for (const line of rest.split("\n")) {
    const sign = line[0];
    const hunk = sign === "@" && /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      [old, now] = isTurned
        ? [Number(hunk[2]), Number(hunk[1])]
        : [Number(hunk[1]), Number(hunk[2])];
      lines.push({ kind: "@", text: `line ${Math.max(1, now)}` });
    } else if (sign === "\\") {
      lines.push({ kind: "\\", text: "no line break at the end" });
    } else if (sign === " " || sign === "+" || sign === "-") {
      const kind = sign === " " ? " " : (sign === "+") === isTurned ? "-" : "+";
      lines.push({
        kind,
        text: line.slice(1),
        old: kind === "+" ? null : old,
        now: kind === "-" ? null : now,
      });
      if (kind !== "+") old += 1;
      if (kind !== "-") now += 1;
    }
  }
  return { lines: isTurned ? inOrder(lines) : lines, isCoarse, said: null };
}

/** Puts what goes before what comes, in each block. */
function inOrder(lines) {
  const out = [];
  let comes = [];
  for (const line of lines) {
    if (line.kind === "+") comes.push(line);
    else if (line.kind === "-") out.push(line);
    else if (line.kind === "\\") (comes.length ? comes : out).push(line);
    else {
      out.push(...comes, line);
      comes = [];
    }
  }
  return [...out, ...comes];
}

const tight = (text) => text.replace(/\s+/g, "");

/** Takes lines that differ in white space alone for the same. */
function withoutSpace(lines) {
  const out = [];
  for (let at = 0; at < lines.length;) {
    const gone = [];
    const came = [];
    while (lines[at]?.kind === "-") gone.push(lines[at++]);
    while (lines[at]?.kind === "+") came.push(lines[at++]);
    const isSame =
      gone.length === came.length &&
      gone.every((line, index) => tight(line.text) === tight(came[index].text));
    if (isSame)
      came.forEach((line, index) => out.push({ ...line, kind: " ", old: gone[index].old }));
    else out.push(...gone, ...came);
    if (lines[at] && lines[at].kind !== "-" && lines[at].kind !== "+") out.push(lines[at++]);
  }
  return out;
}

const MOST_PAIRS = 400;
const MOST_PAIR_LETTERS = 600;

/** Marks which words differ in lines that stand for each other. */
async function markWords(lines) {
  if (!lines.some((line) => line.kind === "-")) return;
  const { diffWordsWithSpace } = await import("../vendor/jsdiff.js");
  let pairs = 0;
  for (let at = 0; at < lines.length;) {
    let gone = at;
    while (lines[gone]?.kind === "-") gone += 1;
    let came = gone;
    while (lines[came]?.kind === "+") came += 1;
    const size = gone - at;
    if (size && size === came - gone) {
      for (let index = 0; index < size && pairs < MOST_PAIRS; index += 1, pairs += 1) {
        const [old, now] = [lines[at + index], lines[gone + index]];
        if (old.text.length > MOST_PAIR_LETTERS || now.text.length > MOST_PAIR_LETTERS) continue;
        const parts = diffWordsWithSpace(old.text, now.text, { maxEditLength: 200 });
        if (!parts) continue;
        const same = parts
          .filter((part) => !part.added && !part.removed)
          .reduce((sum, part) => sum + part.value.length, 0);
        if (same * 3 < Math.max(old.text.length, now.text.length)) continue; // Another line, not a changed one.
        old.words = spans(
          parts.filter((part) => !part.added),
          "removed",
        );
        now.words = spans(
          parts.filter((part) => !part.removed),
          "added",
        );
      }
    }
    at = Math.max(came, at + 1);
  }
}

function spans(parts, word) {
  let at = 0;
  const found = [];
  for (const part of parts) {
    if (part[word]) found.push([at, at + part.value.length, "word"]);
    at += part.value.length;
  }
  return found;
}

/** A line's text in pieces: colours and changed words laid over each other, marks for the unseen. */
function Pieces({ line }) {
  const cutOff = line.text.length > MOST_LETTERS;
  const text = cutOff ? line.text.slice(0, 2000) : line.text;
  const layers = [...(line.colours ?? []), ...(line.words ?? [])];
  const edges = [...new Set([0, text.length, ...layers.flatMap(([from, to]) => [from, to])])]
    .filter((at) => at <= text.length)
    .sort((a, b) => a - b);
  const pieces = edges.slice(0, -1).map((from, index) => {
    const part = text.slice(from, edges[index + 1]);
    const names = layers
      .filter(([start, end]) => start <= from && from < end)
      .map(([, , name]) => name);
    const said = html`<${Said} text=${part} keep=${"\t"} />`;
    return names.length ? html`<span class=${names.join(" ")}>${said}</span>` : said;
  });
  return html`${pieces}${cutOff && html`<span
    class="cut">… ${number(line.text.length - 2000)} more letters in this line</span>`}
    ${text === "" && "\n"}`;
}

const pad = (value, width = 5) => String(value ?? "").padStart(width);

function Line({ line, side, paint }) {
  const tag = line.kind === "+" ? "ins" : line.kind === "-" ? "del" : "span";
  const sign = { "+": "+", "-": "−", "@": " ", "\\": " " }[line.kind] ?? " ";
  const mark =
    line.kind === "@"
      ? `${pad("…")}${side ? "" : pad("…")}  `
      : side
        ? `${pad(side === "old" ? line.old : line.now)} ${sign}`
        : `${pad(line.old)}${pad(line.now)} ${sign}`;
  const kinds = { "+": "came", "-": "gone", "@": "hunk", "\\": "hunk", " ": "" };
  return html`<${tag} class=${`l ${kinds[line.kind]}`} data-n=${mark}><${Pieces} line=${line}
    paint=${paint} />${"\n"}<//>`;
}

const FILLER = { kind: " ", text: "", old: null, now: null, isFiller: true };

/** Pairs lines for two columns. */
function sideBySide(lines) {
  const rows = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].kind === " " || lines[at].kind === "@" || lines[at].kind === "\\") {
      rows.push([lines[at], lines[at]]);
      at += 1;
      continue;
    }
    const gone = [];
    const came = [];
    while (lines[at]?.kind === "-") gone.push(lines[at++]);
    while (lines[at]?.kind === "+") came.push(lines[at++]);
    for (let index = 0; index < Math.max(gone.length, came.length); index += 1)
      rows.push([gone[index] ?? FILLER, came[index] ?? FILLER]);
  }
  return rows;
}

function Lines({ lines, name, paint, side }) {
  const style = side ? side : state.diffStyle.value;
  const pairs = useMemo(() => (style === "split" ? sideBySide(lines) : null), [lines, style]);
  if (pairs) {
    const seen = pairs.slice(0, MOST_PLAIN / 2);
    return html`<div class="code two" tabIndex="0" role="region"
      aria-label=${`Changes of ${plain(name)}, side by side`}>
      ${["old", "now"].map((side, index) => html`<div class="side">${seen.map((pair,
        at) => html`<${Line} key=${at} line=${pair[index]} side=${side} paint=${paint} />`)}
        </div>`)}
      ${pairs.length > seen.length && html`<p
        class="quiet">The first ${number(seen.length)} lines are side by side; Unified shows all ${number(lines.length)}.</p>`}
    </div>`;
  }
  const about = {
    role: "region",
    tabIndex: "0",
    "aria-label": `${side ? "Content" : "Changes"} of ${plain(name)}`,
  };
  if (lines.length > MOST_PLAIN)
    return html`<${Rows} ...${about} class="code far" count=${lines.length} height=${LINE}
      extra=${20} draw=${(index) => html`<${Line} line=${lines[index]} side=${side} paint=${paint}
        />`} />`;
  return html`<div class="code" ...${about}>${lines.map((line, at) => html`<${Line} key=${at}
    line=${line} side=${side} paint=${paint} />`)}</div>`;
}

/**
 * Shows lines, all of them or the first; with words marked and colours, once those are there.
 *
 * With a `side` they are no changes, but what one file says. Of what has a page of its own there are
 * the first lines; `page` says which comparison that is, and what is chosen there.
 */
export function Shown({ diff, name, side, page }) {
  const { namespace } = state.route.value;
  const [all, setAll] = useState(false);
  const [paint, painted] = useState(0);
  const first = page ? MOST_IN_PLACE : FIRST_LINES;
  const isMuch = diff.lines.length > (page ? MOST_IN_PLACE : MOST_LINES) && !all;
  const isCalm = state.ignoresSpace.value;
  const lines = useMemo(() => {
    const some = isMuch ? diff.lines.slice(0, first) : diff.lines;
    return isCalm ? withoutSpace(some) : some;
  }, [diff, isMuch, isCalm]);
  useEffect(() => {
    let isGone = false;
    // Lines are marked as they stand: `paint` says that there is something new to draw.
    const draw = () => !isGone && painted((turn) => turn + 1);
    markWords(lines).then(draw, () => {});
    colours(name, lines).then(
      (done) => done && draw(),
      () => {},
    );
    return () => (isGone = true);
  }, [lines]);
  const hidden = useMemo(() => diff.lines.some((line) => misleads(line.text)), [diff]);
  const turned = hidden && diff.lines.some((line) => turns(line.text));
  return html`
    ${diff.isCoarse && html`<${Note} tone="warn" icon="warn">
      ${COARSE}: what was not compared is shown as replaced.<//>`}
    ${hidden && html`<${Note} tone="warn" icon="warn">
      <strong>There are characters here that cannot be seen${turned ?
      ", and some that turn text around" :
      ""}.</strong> They are shown as marks: it may read otherwise in an editor.<//>`}
    <${Lines} lines=${lines} name=${name} paint=${paint} side=${side} />
    ${isMuch && html`<div class="bar">
      <span>The first ${first} of ${number(diff.lines.length)} lines.</span>${page ? html`<a
      class="button" href=${state.to(["n", namespace, "compare", page.way], { sel: page.sel })}><span>All
      on a page</span></a>` : html`<${Button} onClick=${() => setAll(true)}>Show all<//>`}</div>`}`;
}

/** Two values as JSON, compared here: what a server has no text diff for. */
async function compareValues(older, newer) {
  const { diffLines } = await import("../vendor/jsdiff.js");
  const written = (value) => (value === undefined ? "" : `${JSON.stringify(value, null, 2)}\n`);
  const [old, now] = [written(older), written(newer)];
  const parts = diffLines(old, now, { maxEditLength: 3000 }) ?? [
    { removed: true, value: old },
    { added: true, value: now },
  ];
  const lines = [];
  let [o, n] = [1, 1];
  for (const part of parts) {
    const kind = part.added ? "+" : part.removed ? "-" : " ";
    for (const text of part.value.replace(/\n$/, "").split("\n")) {
      if (part.value === "") continue;
      lines.push({ kind, text, old: kind === "+" ? null : o, now: kind === "-" ? null : n });
      if (kind !== "+") o += 1;
      if (kind !== "-") n += 1;
    }
  }
  return { lines, isCoarse: false, said: null };
}

const fileOf = (change) => ({ path: change.name, bytes: change.name_b64 });

const missing = (failure) => {
  if (failure.status === 404) return undefined;
  throw failure;
};

async function ask(namespace, change, { from, to, isTurned }, stop) {
  const asked = namespaceOf(namespace);
  if (change.plane === "files") {
    const got = await asked.textDiff(fileOf(change), { from, to }, stop);
    return readDiff(got.diff, change.name, { isTurned });
  }
  const read = {
    store: (at) =>
      asked
        .value({ namespace: change.namespace, key: change.key, at }, stop)
        .then((got) => got.value, missing),
    sessions: (at) =>
      asked.state(change.name, { at }, stop).then((got) => got.state ?? got, missing),
  }[change.plane];
  if (!read) return { lines: [], said: "What it remembers is not shown here." };
  const [old, now] = await Promise.all([from === NOTHING ? undefined : read(from), read(to)]);
  return isTurned ? compareValues(now, old) : compareValues(old, now);
}

/** What a change is called in an address. */
export const calledIn = ({ plane, name }) => `${plane}:${name}`;

/**
 * What one change is: from one moment to another, `to` undefined for now.
 *
 * `isTurned` shows the way back: the server compares with what is there now in one direction alone.
 * `isInPlace`, it stands among other things: there is as much of it as fits there.
 */
export function Diff({ change, from, to, isTurned = false, isInPlace = false }) {
  const { namespace } = state.route.value;
  const most = Math.max(change.old_bytes ?? 0, change.new_bytes ?? 0);
  const [anyway, setAnyway] = useState(false);
  const isGated = most > MOST_BYTES && !anyway;
  // What is no file is compared here.
  const mayLoad = change.plane !== "files" && most <= MOST_ANYWAY;
  const answer = useAnswer(
    (stop) => (isGated ? null : ask(namespace, change, { from, to, isTurned }, stop)),
    [namespace, change.plane, change.name, from, to, isTurned, isGated],
  );
  if (isGated)
    return html`<${Facts} change=${change} from=${from} to=${to}>${mayLoad ?
      html`<${Button} onClick=${() => setAnyway(true)}>Load anyway<//>` : html`<span
      class="quiet">Too large to compare: ${number(most)} bytes.</span>`}<//>`;
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!answer.value) return html`<${Waiting} what="Comparing…" />`;
  const diff = answer.value;
  if (diff.said)
    return html`<${Facts} change=${change} from=${from} to=${to}><span class="quiet"><${Said}
      text=${diff.said} /></span><//>`;
  if (!diff.lines.length)
    return html`<p
      class="quiet pad">The content is the same: its mode or its times changed, or it is empty.</p>`;
  const page = isInPlace ? { way: `${from ?? NOTHING}...${to ?? "now"}`, sel: calledIn(change) } : null;
  return html`<${Shown} diff=${diff} name=${change.name} page=${page} />`;
}

export const MOST_PICTURE = 10 << 20;
/** @type {[string, number[]][]} */
const MAGIC = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

/** What kind of picture bytes are, by the first of them: never what a name says alone. */
export function pictureType(bytes) {
  const first = new Uint8Array(bytes, 0, Math.min(4, bytes.byteLength));
  return MAGIC.find(([, magic]) => magic.every((byte, index) => first[index] === byte))?.[0];
}

/** Bytes as a picture; `alt` says what it is. */
export function Drawn({ bytes, type, alt }) {
  const url = useMemo(() => URL.createObjectURL(new Blob([bytes], { type })), [bytes, type]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return html`<img ref=${(image) => image && image.src !== url && (image.src = url)} alt=${alt} />`;
}

function Picture({ change, at, words }) {
  const { namespace } = state.route.value;
  const { value, failure } = useAnswer(
    (stop) => namespaceOf(namespace).bytes(fileOf(change), at, { signal: stop }),
    [namespace, change, at],
  );
  if (failure) return html`<p class="quiet">The picture ${words} could not be read.</p>`;
  if (!value) return html`<${Waiting} />`;
  const type = pictureType(value);
  return html`<figure>${type ? html`<${Drawn} bytes=${value} type=${type}
    alt=${`${plain(change.name)} ${words}`} />` : html`<p
    class="quiet">Not a picture, whatever its name says.</p>`}<figcaption class="quiet">${words}
    </figcaption></figure>`;
}

/** What is known of something too large, or no text. */
function Facts({ change, from, to, children }) {
  const { namespace } = state.route.value;
  const asked = namespaceOf(namespace);
  const isFile = change.plane === "files";
  const get = (at, words) =>
    html`<a class="button" download href=${asked.raw(fileOf(change), at)}><${Icon} name="download"
      /><span>${words}</span></a>`;
  const isPicture =
    isFile &&
    Math.max(change.old_bytes ?? 0, change.new_bytes ?? 0) <= MOST_PICTURE &&
    /\.(png|jpe?g|gif|webp)$/i.test(change.name);
  return html`<div class="facts-box"><p><${Path} text=${change.name}
    />: ${change.old_bytes === null ? "was not there" :
    bytes(change.old_bytes)} → ${change.new_bytes === null ? "not there" : bytes(change.new_bytes)}
    </p>
    ${children}
    ${isPicture && html`<div class="pictures">${change.old_bytes !== null && from &&
      html`<${Picture} change=${change} at=${from} words="before" />`}
      ${change.new_bytes !== null && html`<${Picture} change=${change} at=${to} words="after" />`}
      </div>`}
    ${isFile && html`<p class="ends">${from && change.old_bytes !== null && get(from,
      "Download as it was")} ${change.new_bytes !== null && get(to, "Download as it is then")}</p>`}
      </div>`;
}

/** Unified or side by side; `v` turns it. */
export function StyleSwitch() {
  useKeys(
    (key) =>
      key === "v" &&
      (state.setDiffStyle(state.diffStyle.value === "split" ? "unified" : "split"), true),
  );
  return html`<span class="switch" role="group" aria-label="How changes are shown"><button
    type="button" class="button" title="Lines that differ in white space alone count as the same"
    aria-pressed=${state.ignoresSpace.value ? "true" : "false"}
    onClick=${() => (state.ignoresSpace.value = !state.ignoresSpace.value)}>
    <span>Ignore white space</span></button>${[
    ["split", "Side by side"],
    ["unified", "Unified"],
  ].map(
    ([value, words]) =>
      html`<button type="button" class="button" aria-pressed=${state.diffStyle.value === value ?
        "true" : "false"} onClick=${() => state.setDiffStyle(value)}><span>${words}</span>
        </button>`,
  )}</span>`;
}
