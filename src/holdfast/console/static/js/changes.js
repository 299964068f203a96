// A list of changes: by plane, with folders of which much changed in one line.

import { html } from "../vendor/preact.js";
import { Chip, Icon, Name, Path } from "./parts.js";
import { PLANES, SIGNS, bytes, many, number, plain, sizes, tally, total } from "./text.js";

const FOLD_FROM = 8;

/** What a change is known by: names that are not text have their bytes. */
export const keyOf = (change) =>
  [change.plane, change.name_b64 ?? "", change.namespace ?? "", change.key ?? change.name].join(
    "\0",
  );

const folderOf = (change) =>
  change.name.slice(0, change.name.replace(/\/$/, "").lastIndexOf("/") + 1);

/** How many there are by plane and word; those that are listed where the server did not count. */
export function countsOf(changes, counts) {
  if (counts) return counts;
  const found = {};
  for (const { plane, change } of changes) {
    found[plane] ??= { added: 0, changed: 0, removed: 0 };
    found[plane][change] += 1;
  }
  return found;
}

/**
 * Puts changes into lines: `{plane}`, `{fold, items}` or `{change}`.
 *
 * More than eight of one kind in a folder become one line, which `open` (a set of keys) unfolds.
 */
export function linesOf(changes, counts, open = new Set()) {
  const lines = [];
  for (const [plane, title, icon] of PLANES) {
    const own = changes.filter((change) => change.plane === plane);
    const count = counts[plane];
    if (!own.length && !total(count)) continue;
    lines.push({
      key: plane,
      plane,
      title,
      icon,
      items: own,
      count,
      more: total(count) - own.length,
    });
    const byFolder = new Map();
    for (const change of own) {
      const where = plane === "files" ? `${change.change}\0${folderOf(change)}` : "";
      if (!byFolder.has(where)) byFolder.set(where, []);
      byFolder.get(where).push(change);
    }
    const done = new Set();
    for (const change of own) {
      const where = plane === "files" ? `${change.change}\0${folderOf(change)}` : "";
      const items = byFolder.get(where);
      if (plane !== "files" || items.length <= FOLD_FROM || change.is_executable_config) {
        lines.push({ key: keyOf(change), change });
        continue;
      }
      if (done.has(where)) continue;
      done.add(where);
      const folded = items.filter((each) => !each.is_executable_config);
      const key = `fold\0${where}`;
      lines.push({
        key,
        fold: folderOf(change),
        word: change.change,
        items: folded,
        isOpen: open.has(key),
      });
      if (open.has(key))
        for (const each of folded) lines.push({ key: keyOf(each), change: each, isInside: true });
    }
  }
  return lines;
}

export const Sign = ({ word }) =>
  html`<span class=${`sign ${word}`}><span aria-hidden="true">${SIGNS[word] ?? "?"}</span><span
    class="hidden">${word}</span></span>`;

const isEmptyFolder = (change) => change.plane === "files" && change.name.endsWith("/");

/** What one line says, but for what can be done with it. */
export function LineText({ line }) {
  if (line.plane) return html`<${Icon} name=${line.icon} /><strong>${line.title}</strong>`;
  if (line.items) {
    const size = line.items.reduce((sum, each) => sum + (each.new_bytes ?? each.old_bytes ?? 0), 0);
    return html`<${Sign} word=${line.word} /><span class="mono clip"><${Path} text=${line.fold ||
      "/"} /> <span class="dim">${many(line.items.length, "file")}</span></span><span class="size">
      ${bytes(size)}</span>`;
  }
  const { change } = line;
  return html`<${Sign} word=${change.change} /><span class="mono clip"><${Path} text=${change.name}
    />${isEmptyFolder(change) && html` <span class="dim">empty folder</span>`}</span>
    ${change.is_executable_config && html`<${Chip} tone="warn" icon="warn"
    title="Programs run what this file says, without being asked to">runs code<//>`}<span
    class="size">${sizes(change)}</span>`;
}

/** How many of each word there are, over all planes. */
export function summed(counts) {
  const sums = { added: 0, changed: 0, removed: 0 };
  for (const count of Object.values(counts))
    for (const word of Object.keys(sums)) sums[word] += count[word] ?? 0;
  return sums;
}

const SUMS = [
  ["added", "comes back", "come back"],
  ["changed", "changes", "change"],
  ["removed", "goes away", "go away"],
];

export const Sums = ({ sums }) => html`<p class="sums" role="status">
  ${SUMS.map(([word, one, more], at) => html`${at > 0 && " "}<span><b class=${word}>
  ${number(sums[word])}</b> ${sums[word] === 1 ? one : more}</span>`)}</p>`;

/** Those of `others` that are not among some changes, or not as they were. */
export const newChanges = (some, others) => {
  const mark = (change) =>
    `${keyOf(change)}\0${change.change}\0${change.old_bytes}\0${change.new_bytes}`;
  const known = new Set(some.map(mark));
  return others.filter((change) => !known.has(mark(change)));
};

/** Whether what would change is not what it was when somebody looked. */
export const differs = (seen, now) =>
  newChanges(seen.changes, now.changes).length > 0 ||
  now.changes.length !== seen.changes.length ||
  total(summed(now.counts ?? {})) !== total(summed(seen.counts ?? {}));

/** One line of a listing of files, but for where it leads. */
export const Entry = ({ each, name }) => html`<${Icon} name=${each.kind === "directory" ? "folder" :
  "file"} size="14" /><span class="mono clip"><${Path} text=${name} />${each.kind === "directory" ?
  "/" : ""}${each.target ? html` <span class="dim">→ <${Name} text=${each.target} /></span>` : ""}
  </span>`;

/** What one line is, for a reader. */
export function lineName(line) {
  if (line.plane) return `${line.title}, ${tally(line.count) || many(line.items.length, "change")}`;
  if (line.items)
    return `${line.word}: ${plain(line.fold || "/")}, ${many(line.items.length, "file")}`;
  return `${line.change.change}: ${plain(line.change.name)}`;
}

/** Which of them run code, in a sentence of their own. */
export const running = (changes) => changes.filter((change) => change.is_executable_config);

export const more = (line) => (line.more > 0 ? `${number(line.more)} more are not listed` : "");
