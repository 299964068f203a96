// What one file says: as text with its lines numbered, as a picture, or how large it is.
//
// Its first bytes decide, never its name. Whatever is large is asked about before it is loaded.

import { html, useMemo, useState } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { Drawn, MOST_ANYWAY, MOST_BYTES, MOST_PICTURE, Shown, pictureType } from "./diff.js";
import { Button, Failed, Name, Waiting, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { bytes as sizeOf, number, plain } from "./text.js";

const FIRST_BYTES = 64 << 10;
const FIRST_LINES = 200;
const LOOKED_AT = 8000;

/** @type {[string, number[]][]} */
const KINDS = [
  ["an ELF program", [0x7f, 0x45, 0x4c, 0x46]],
  ["a ZIP archive", [0x50, 0x4b, 0x03, 0x04]],
  ["gzip", [0x1f, 0x8b]],
  ["a PDF document", [0x25, 0x50, 0x44, 0x46]],
  ["a SQLite database", [0x53, 0x51, 0x4c, 0x69, 0x74, 0x65]],
];

const kindOf = (data) =>
  KINDS.find(([, magic]) => magic.every((byte, index) => data[index] === byte))?.[0];

/** What bytes are: `{type}` of a picture, `{lines}` of a text, else `{kind}`. */
function read(buffer, isPart) {
  const type = pictureType(buffer);
  if (type) return { type };
  const data = new Uint8Array(buffer);
  if (data.subarray(0, LOOKED_AT).includes(0)) return { kind: kindOf(data) ?? "no text" };
  try {
    // Of a part, the last letter may be cut in two.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: isPart });
    const lines = text.replace(/\r?\n$/, "").split("\n");
    const shown = isPart ? lines.slice(0, FIRST_LINES) : lines;
    return {
      lines:
        text === ""
          ? []
          : shown.map((line, index) => ({ kind: " ", text: line, old: null, now: index + 1 })),
    };
  } catch {
    return { kind: kindOf(data) ?? "no text in UTF-8" };
  }
}

export function Content({ place, at, each }) {
  const { namespace } = state.route.value;
  const [anyway, setAnyway] = useState(false);
  const size = each.size_bytes;
  const isPart = size > MOST_BYTES && !anyway;
  const answer = useAnswer(
    (stop) =>
      each.kind === "file"
        ? namespaceOf(namespace).bytes(place, at, {
            signal: stop,
            first: isPart ? FIRST_BYTES : undefined,
          })
        : null,
    [namespace, place.path, at, size, each.modified_at, isPart],
  );
  const what = useMemo(() => answer.value && read(answer.value, isPart), [answer.value]);
  if (each.kind === "link")
    return html`<p class="pad">A link to <span class="mono"><${Name} text=${each.target ?? ""}
      /></span>. <span class="quiet">It is not followed.</span></p>`;
  if (answer.failure) return html`<${Failed} failure=${answer.failure} again=${answer.again} />`;
  if (!what) return html`<${Waiting} />`;
  const load = (most, words) =>
    size <= most && html`<${Button} onClick=${() => setAnyway(true)}>${words}<//>`;
  if (what.type)
    return isPart
      ? html`<div class="facts-box"><p>A picture of ${sizeOf(size)}.</p><p>${load(MOST_PICTURE,
        "Show it")}</p></div>`
      : html`<figure class="pad"><${Drawn} bytes=${answer.value} type=${what.type}
        alt=${plain(place.path)} /><figcaption class="quiet">${what.type}, ${sizeOf(size)}
        </figcaption></figure>`;
  if (what.kind)
    return html`<div class="facts-box"><p>This is ${what.kind}: ${number(size)} bytes.</p></div>`;
  if (!what.lines.length) return html`<p class="quiet pad">It is empty.</p>`;
  return html`${
    isPart &&
    html`<div class="bar"><span>The first ${what.lines.length} lines of ${sizeOf(size)}.</span>
      ${load(MOST_ANYWAY, "Load anyway")}</div>`
  }<${Shown} diff=${what} name=${place.path} side="now" />`;
}
