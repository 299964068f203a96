// A worker: finds what to colour in a text. It gives back places and names, never HTML.

import Prism from "../vendor/prism.js";

const NAMES = {
  keyword: "c-key",
  boolean: "c-key",
  tag: "c-key",
  selector: "c-key",
  atrule: "c-key",
  property: "c-key",
  decorator: "c-key",
  annotation: "c-key",
  string: "c-text",
  char: "c-text",
  "template-string": "c-text",
  "attr-value": "c-text",
  regex: "c-text",
  "triple-quoted-string": "c-text",
  "string-interpolation": "c-text",
  number: "c-number",
  constant: "c-number",
  builtin: "c-number",
  comment: "c-comment",
  prolog: "c-comment",
  doctype: "c-comment",
  shebang: "c-comment",
};

/** Returns the places of each line: `[from, to, name]`. */
function places(text, language) {
  const lines = [[]];
  let at = 0;
  const walk = (tokens, name) => {
    for (const token of tokens) {
      if (typeof token !== "string") {
        walk(
          Array.isArray(token.content) ? token.content : [token.content],
          name ?? NAMES[token.type],
        );
        continue;
      }
      token.split("\n").forEach((part, index) => {
        if (index) {
          lines.push([]);
          at = 0;
        }
        if (name && part.trim()) lines.at(-1).push([at, at + part.length, name]);
        at += part.length;
      });
    }
  };
  walk(Prism.tokenize(text, Prism.languages[language]));
  return lines;
}

addEventListener("message", ({ data }) => {
  postMessage(data.texts.map((text) => places(text, data.language)));
});
