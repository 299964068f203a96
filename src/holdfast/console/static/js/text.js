// Words, numbers, times and names as people read them.
//
// Everything that somebody else chose passes `marked` on its way to a text node: characters that
// are not seen, or that turn what follows around, become visible marks.

// In a sentence, a variation selector says how the sign before it looks, and blanks part words.
const UNSEEN =
  /(?![\ufe00-\ufe0f])[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

// In a name, whatever looks like nothing or like a space, and a space at either end of a part.
const UNSEEN_IN_NAMES =
  /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800\ufff0-\ufffb\u{e0000}-\u{e0fff}]|(?! )\p{Zs}|(?<=(?:^|\/) *) | (?= *(?:\/|$))/gu;

const NAMES = new Map(
  Object.entries({
    " ": "space",
    "\u00a0": "no-break space",
    "\u00ad": "soft hyphen",
    "\u061c": "Arabic letter mark",
    "\u2003": "em space",
    "\u200b": "zero-width space",
    "\u200c": "zero-width non-joiner",
    "\u200d": "zero-width joiner",
    "\u200e": "left-to-right mark",
    "\u200f": "right-to-left mark",
    "\u2028": "line separator",
    "\u2029": "paragraph separator",
    "\u202a": "left-to-right embedding",
    "\u202b": "right-to-left embedding",
    "\u202c": "end of direction",
    "\u202d": "left-to-right override",
    "\u202e": "right-to-left override",
    "\u202f": "narrow no-break space",
    "\u205f": "mathematical space",
    "\u2060": "word joiner",
    "\u2066": "left-to-right isolate",
    "\u2067": "right-to-left isolate",
    "\u2068": "first strong isolate",
    "\u2069": "end of isolate",
    "\u2800": "blank pattern",
    "\u3000": "ideographic space",
    "\ufe0f": "variation selector",
    "\ufeff": "byte order mark",
  }),
);
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
const UNSEEN_IN_CODE =
  /[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\u{e0000}-\u{e0fff}]/u;

/** Splits a text, or a name, into what can be shown as it is, and marks for what cannot be seen. */
export function marked(text, keep = "", isName = false) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(isName ? UNSEEN_IN_NAMES : UNSEEN)) {
    if (keep.includes(found[0])) continue;
    if (found.index > from) parts.push(text.slice(from, found.index));
    parts.push({ sign: signOf(found[0]), name: nameOf(found[0]) });
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

/** Says the same of a name as one line of text, for a tooltip or a reader. */
export const plain = (text) =>
  marked(text, "", true)
    .map((part) => (typeof part === "string" ? part : part.sign))
    .join("");

/** Whether a text of code holds something that cannot be seen, and may mislead. */
export const misleads = (text) => UNSEEN_IN_CODE.test(text);
export const turns = (text) => TURNING.test(text);

function signOf(character) {
  const code = character.codePointAt(0);
  if (code === 10) return "⏎";
  if (code === 9) return "⇥";
  if (code <= 32) return String.fromCodePoint(0x2400 + code);
  if (code === 127) return "␡";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

const kindOf = (character) =>
  /\p{Zs}/u.test(character)
    ? "blank"
    : /\p{Cc}/u.test(character)
      ? "control character"
      : "character that is not seen";

function nameOf(character) {
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return `${NAMES.get(character) ?? kindOf(character)}, U+${code}`;
}

/** Cuts a long text in its middle: the end of a path says most. */
export function cut(text, most = 96) {
  const letters = [...text];
  if (letters.length <= most) return text;
  const tail = Math.ceil(most * 0.6);
  return `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

export const number = (value) => value.toLocaleString("en");

export const many = (count, one, more = `${one}s`) =>
  `${number(count)} ${count === 1 ? one : more}`;

const UNITS = ["B", "KB", "MB", "GB", "TB"];

export function bytes(size) {
  let value = size ?? 0;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** How the size of a change reads: `66 B → 3.3 KB`, or the one that there is. */
export function sizes(change) {
  const { old_bytes: old, new_bytes: now } = change;
  if (old === null && now === null) return "";
  if (old === null || now === null) return bytes(old ?? now);
  return `${bytes(old)} → ${bytes(now)}`;
}

const clock = new Intl.DateTimeFormat("en", {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const whole = new Intl.DateTimeFormat("en", {
  dateStyle: "medium",
  timeStyle: "medium",
  hourCycle: "h23",
});
const near = new Intl.DateTimeFormat("en", { weekday: "long", day: "numeric", month: "long" });
const far = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });

const brief = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dated = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
const daysBetween = (one, other) => Math.round((other.getTime() - one.getTime()) / 86400000);

export const time = (instant) => clock.format(new Date(instant));

const days = new Map();

/** What a day is called; worked out once for each, as a long list asks for many. */
export function day(instant, now = new Date()) {
  const date = midnight(new Date(instant));
  const today = midnight(now);
  const key = `${date.getTime()} ${today.getTime()}`;
  if (!days.has(key)) days.set(key, dayNamed(date, daysBetween(date, today)));
  return days.get(key);
}

function dayNamed(date, ago) {
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  return (ago > 0 && ago < 200 ? near : far).format(date);
}

export const moment = (instant) => `${day(instant)} ${time(instant)}`;

/** The same in a narrow column: `13 Nov 15:22`, and of other years the day alone. */
export function shortly(instant, now = new Date()) {
  const date = new Date(instant);
  const ago = daysBetween(midnight(date), midnight(now));
  if (ago === 0 || ago === 1) return moment(instant);
  return date.getFullYear() === now.getFullYear()
    ? `${brief.format(date)} ${time(instant)}`
    : dated.format(date);
}

/** Says an instant exactly: here, and in UTC. */
export const exact = (instant) =>
  `${whole.format(new Date(instant))} here, ${instant.replace("T", " ").replace(/\.\d+/,
    "").replace("Z", " UTC")}`;

export function since(instant, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - new Date(instant).getTime()) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400
    ? `${Math.floor(seconds / 3600)} h`
    : many(Math.floor(seconds / 86400), "day");
}

export const PLANES = [
  ["files", "Files", "file", "file"],
  ["store", "Store", "store", "value"],
  ["sessions", "Sessions", "session", "session"],
  ["memories", "Memories", "memory", "memory"],
];

export const SIGNS = { added: "+", removed: "−", changed: "~" };

/** How many of each word there are, in words: `2 added, 1 changed`. */
export function tally(counts) {
  const words = ["added", "changed", "removed"];
  return words
    .filter((word) => counts?.[word])
    .map((word) => `${number(counts[word])} ${word}`)
    .join(", ");
}

export const total = (counts) =>
  counts ? (counts.added ?? 0) + (counts.changed ?? 0) + (counts.removed ?? 0) : 0;
