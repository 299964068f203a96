// Colours for code, worked out beside the page: a text that takes too long has none.

const LIMIT_MS = 300;
const START_MS = 4000; // To load it the first time.
const MOST_LETTERS = 200000;
const MOST_PLACES = 1500; // Each is an element of the page.

const LANGUAGES = {
  py: "python",
  pyi: "python",
  js: "javascript",
  mjs: "javascript",
  cjs: "javascript",
  jsx: "javascript",
  ts: "typescript",
  tsx: "typescript",
  json: "json",
  css: "css",
  html: "markup",
  xml: "markup",
  svg: "markup",
  sh: "bash",
  bash: "bash",
  sql: "sql",
  yml: "yaml",
  yaml: "yaml",
  toml: "toml",
  rs: "rust",
  go: "go",
  java: "java",
  c: "c",
  h: "c",
  cc: "cpp",
  cpp: "cpp",
  hpp: "cpp",
};

// A worker's address is a place where scripts come in: this policy lets one through.
const address = new URL("./colouring.js", import.meta.url).href;
const policy = globalThis.trustedTypes?.createPolicy("holdfast-worker", {
  createScriptURL: (url) => {
    if (url !== address) throw new TypeError("not a worker of ours");
    return url;
  },
});

let worker = null;
let isReady = false;

function ask(question) {
  worker ??= new Worker(policy ? policy.createScriptURL(address) : address, { type: "module" });
  return new Promise((resolve) => {
    const end = (answer) => {
      clearTimeout(timer);
      worker?.removeEventListener("message", hear);
      if (answer === null) {
        worker?.terminate();
        worker = null;
        isReady = false;
      }
      resolve(answer);
    };
    const hear = ({ data }) => ((isReady = true), end(data));
    const timer = setTimeout(end, isReady ? LIMIT_MS : START_MS, null);
    worker.addEventListener("message", hear);
    worker.addEventListener("error", () => end(null), { once: true });
    worker.postMessage(question);
  });
}

let before = Promise.resolve();

/** Adds colours to lines; says whether it did. */
export async function colours(name, lines) {
  const language = LANGUAGES[/\.(\w+)$/.exec(name)?.[1]?.toLowerCase()];
  const size = lines.reduce((sum, line) => sum + line.text.length, 0);
  if (!language || size > MOST_LETTERS || typeof Worker === "undefined") return false;
  const sides = ["-", "+"].map((kind) =>
    lines.filter((line) => line.kind === " " || line.kind === kind),
  );
  const mine = before.then(() =>
    ask({
      language,
      texts: sides.map((side) => side.map((line) => line.text.replaceAll("\n", " ")).join("\n")),
    }),
  );
  before = mine.catch(() => null);
  const found = await mine;
  if (!found) return false;
  let room = MOST_PLACES;
  sides.forEach((side, index) =>
    side.forEach((line, at) => {
      const places = found[index][at] ?? [];
      if (line.kind === " " && index === 0) return;
      room -= places.length;
      if (room > 0) line.colours = places;
    }),
  );
  return true;
}
