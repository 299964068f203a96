// What a row of the timeline is called, and where it hangs: values alone, nothing is drawn here.
//
// A state's origin is what it was made from: the `target` of a whole restore, undo or redo, which
// it then is equal to; what came before an operation that was taken back alone, if it is equal to
// that; else its `parent`. The first lane is the walk from where the head stands along origins: what is true
// now. Everything else was taken back, and hangs beside it.

const WENT_BACK = new Set(["restore", "undo", "redo"]);
const LANES = 3;

const isPart = (row) =>
  ["planes", "paths", "names", "except", "keep"].some((name) => row.detail?.[name] !== undefined);

const wentBack = (row) => WENT_BACK.has(row.kind);

function originOf(row, find) {
  if (!wentBack(row) || isPart(row) || !row.target) return row.parent;
  const aim = find(row.target);
  if (!aim || aim.root === row.root) return row.target;
  const before = row.kind === "undo" && find(aim.parent);
  return before && before.root === row.root ? aim.parent : row.parent;
}

export const failed = (row) =>
  row.kind === "snapshot" &&
  (row.task ? row.task.status === "failed" && !isBefore(row) : /^the task failed\b/.test(row.reason ?? ""));

/** Whether a snapshot keeps what was there before a task began. */
export const isBefore = (row) => row.reason === "before a task";

/** Why a task failed, in its own words. */
export function whyFailed(row) {
  const said = (row.reason ?? "").replace(/^the task failed:?\s*/, "");
  const call = /^(\w+)\((['"])([\s\S]*)\2\)$/.exec(said);
  return call ? `${call[1]}: ${call[3]}` : said;
}

/** What a row is called: its label, or what was done. */
export function titleOf(row, find) {
  const aim = row.target && find(row.target);
  const where = aim ? `#${aim.number}` : "an earlier moment";
  if (row.label) return row.label;
  if (row.kind === "restore" && row.detail?.task) {
    const name = row.task?.name ?? find(row.parent)?.label;
    return `Went back to ${where}${name ? ` · “${name}” failed` : ""}`;
  }
  if (row.kind === "restore") return isPart(row) ? `Brought back part of ${where}` : `Went back to ${where}`;
  if (row.kind === "undo" && row.detail?.task) return `Undid ${row.task?.name ? `“${row.task.name}”` : "a task"}`;
  if (row.kind === "undo") return aim && aim.root !== row.root ? `Undid #${aim.number}${aim.kind === "undo" ? "" : ` · ${titleOf(aim, find)}`}` : "Undid the last change";
  if (row.kind === "redo") return "Redid what was undone";
  if (row.kind === "merge") return `Merged ${row.detail?.merged ?? "a fork"}`;
  if (row.kind === "fork") return `Forked from ${row.detail?.forked_from ?? "another namespace"}`;
  if (row.kind === "import") return "Imported";
  if (row.kind === "safety") return `Kept ${row.reason ?? "before going back"}`;
  return row.reason || "A moment without a name";
}

/** Which shape stands in a row's lane. */
export function shapeOf(row) {
  if (failed(row)) return "cross";
  if (wentBack(row)) return "arrow";
  if (row.kind === "safety") return "square";
  if (row.kind === "fork" || row.kind === "merge" || row.kind === "import") return "diamond";
  return row.task_id ? "filled" : "ring";
}

const SHAPES = {
  cross: "failed task",
  arrow: "went back",
  square: "kept",
  diamond: "branch",
  filled: "task",
  ring: "by hand",
};

/** What a row is, in words for a reader. */
export const kindOf = (row) => SHAPES[shapeOf(row)];

/**
 * Lays rows out, newest first: what to draw of each.
 *
 * A safety snapshot is folded into the row that made it, unless `all` shall be there. Lanes that
 * end in a row are its `joins`, those that go by it are `past`, and those below it are `open`.
 */
export function layOut(rows, { position, all = false, isWhole = false }) {
  const byId = new Map(rows.map((row) => [row.snapshot_id, row]));
  const find = (id) => byId.get(id);
  const kept = new Map();
  const folded = new Set();
  for (const row of rows) {
    const before = wentBack(row) && find(row.parent);
    if (before && before.kind === "safety") {
      kept.set(row.snapshot_id, before);
      folded.add(before.snapshot_id);
    }
  }
  const truth = new Set();
  let from = position ?? rows[0]?.snapshot_id;
  while (from && !truth.has(from)) {
    truth.add(from);
    const row = find(from);
    if (!row) break;
    from = originOf(row, find);
  }
  const shown = rows.filter((row) => all || !folded.has(row.snapshot_id));
  const isThere = new Set(shown.map((row) => row.snapshot_id));
  // Where something hangs that was folded away, what hangs there hangs on what that was made from.
  const hangsOn = (row) => {
    let id = originOf(row, find);
    for (let steps = 0; id && !isThere.has(id) && find(id) && steps < rows.length; steps += 1) {
      id = originOf(find(id), find);
    }
    return id;
  };
  const order = new Map(shown.map((row, index) => [row.snapshot_id, index]));
  const last = shown.findLastIndex((row) => truth.has(row.snapshot_id));
  const first = shown.findIndex((row) => truth.has(row.snapshot_id));
  const lanes = new Array(LANES).fill(null); // What each lane beside the first waits for.
  return shown.map((row, index) => {
    const isTrue = truth.has(row.snapshot_id);
    const ending = [];
    for (let at = 1; at < LANES; at += 1) {
      if (lanes[at] !== row.snapshot_id) continue;
      ending.push(at);
      lanes[at] = null;
    }
    let lane = 0;
    if (!isTrue) lane = ending[0] ?? (lanes.indexOf(null, 1) > 0 ? lanes.indexOf(null, 1) : LANES - 1);
    const past = [1, 2].filter((at) => lanes[at] !== null && at !== lane);
    const below = hangsOn(row);
    const hangs = !isTrue && order.get(below) > index;
    if (!isTrue) lanes[lane] = hangs ? below : null;
    const goesOn = index < last || (index === last && !isWhole);
    return {
      row,
      lane,
      isTrue,
      shape: shapeOf(row),
      kept: kept.get(row.snapshot_id) ?? null,
      joins: ending,
      past,
      hangs,
      open: [1, 2].filter((at) => lanes[at] !== null),
      // The first lane: dashed from now to where the head stands, and then to the end.
      above: index <= first ? "dashed" : index <= last ? "solid" : null,
      below: index < first ? "dashed" : goesOn && first >= 0 ? "solid" : null,
    };
  });
}

/** Namespaces in the order in which they are shown: forks below what they were made from. */
export function asTree(namespaces) {
  const children = new Map();
  const names = new Set(namespaces.map((each) => each.name));
  for (const each of namespaces) {
    const above = names.has(each.forked_from) && each.forked_from !== each.name ? each.forked_from : null;
    children.set(above, [...(children.get(above) ?? []), each]);
  }
  const rows = [];
  const seen = new Set();
  const add = (above, depth) => {
    for (const each of children.get(above) ?? []) {
      if (seen.has(each.name)) continue;
      seen.add(each.name);
      rows.push({ ...each, depth: Math.min(depth, 3) });
      add(each.name, depth + 1);
    }
  };
  add(null, 0);
  // Whoever was forked in a circle, by names that were given again, stands at the end.
  for (const each of namespaces) if (!seen.has(each.name)) rows.push({ ...each, depth: 0 });
  return rows;
}
