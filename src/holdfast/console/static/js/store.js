// The store of a namespace, now or at any moment: namespaces of keys, keys, and one value.

import { html, useRef } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { Tree } from "./jsontree.js";
import { Chosen, Find, Walk, nowTurn, usePages } from "./listing.js";
import { Failed, Icon, Name, Waiting, useAnswer, useTitle } from "./parts.js";
import { storeAt } from "./places.js";
import * as state from "./state.js";
import { plain } from "./text.js";
import { BringBack, Versions } from "./versions.js";

const ON_PAGE = 500;

/** Where one is: `[namespace, key]`, as JSON in the address, since either may be any text. */
function readKey(query) {
  try {
    const [space, key] = JSON.parse(query.get("key") ?? "[]");
    const isText = (each) => each === undefined || typeof each === "string";
    if (isText(space) && isText(key)) return { space, key };
  } catch {
    // What is no key leads to the beginning.
  }
  return {};
}

/** A name that may be empty. */
const Called = ({ text, most = 60 }) =>
  text === ""
    ? html`<em class="dim">without a name</em>`
    : html`<${Name} text=${text} most=${most} />`;

export function Store() {
  const { namespace, query } = state.route.value;
  const heading = useRef(null);
  const at = query.get("at");
  const find = query.get("find") ?? "";
  const isHistory = query.get("show") === "history";
  const { space, key } = readKey(query);
  const isInside = space !== undefined;
  useTitle(`${key ?? space ?? "Store"} · ${namespace}`, heading);
  const asked = namespaceOf(namespace);
  const pages = usePages(
    async (after, stop) => {
      if (!isInside) {
        const { namespaces } = await asked.storeNamespaces({ at, prefix: find }, stop);
        return { items: namespaces, hasMore: false };
      }
      const last = after === undefined ? undefined : [after];
      const page = await asked.storeKeys(
        space,
        { at, limit: ON_PAGE, prefix: find, starting_after: last },
        stop,
      );
      return { items: page.keys, hasMore: page.has_more };
    },
    { deps: [namespace, space, at, find], turn: nowTurn(at) },
  );
  const above = isInside ? 1 : 0;
  const draw = (index, mark) => {
    if (index < above)
      return html`<a class="change-line" ...${mark} href=${storeAt(namespace, [], { at })}><${Icon}
        name="store" size="14" /><span class="mono">..</span><span class="hidden">all of the store
        </span></a>`;
    const each = pages.items[index - above];
    const isHere = isInside && each === key;
    return html`<a class=${`change-line ${isHere ? "here" : ""}`} ...${mark} aria-current=${isHere ?
      "true" : undefined} href=${storeAt(namespace, isInside ? [space, each] : [each],
      { at, find: isInside ? find : "" })}><${Icon} name=${isInside ? "key" : "store"} size="14" />
      <span class="mono clip"><${Called} text=${each} most=${96} /></span></a>`;
  };
  const steps = [space, key].filter((each) => each !== undefined);
  const parts = [
    html`<a href=${storeAt(namespace, [], { at })}>Store</a>`,
    ...steps.map(
      (each, index) => html`<a href=${storeAt(namespace, steps.slice(0, index + 1), { at })}
        aria-current=${index === steps.length - 1 ? "page" : undefined}><${Called} text=${each}
        most=${40} /></a>`,
    ),
  ];
  const close = () => state.go(storeAt(namespace, [space], { at, find }));
  return html`<${Walk} title="Store" heading=${heading} parts=${parts} at=${at}
    find=${html`<${Find} key=${isInside} value=${find} label=${isInside ?
      "Find keys that begin with" : "Find names that begin with"} placeholder="Begins with…"
      find=${(text) => state.go(storeAt(namespace, steps, { at, find: text }),
        { replace: true })} />`}
    choose=${(id) => state.go(storeAt(namespace, steps, { at: id, find, show: isHistory ?
      "history" : "" }))}
    links=${{
      pages,
      count: pages.items.length + above,
      draw,
      here: pages.items.includes(key) ? pages.items.indexOf(key) + above : -1,
      label: isInside ? `Keys of ${plain(space)}` : "Namespaces of the store",
      empty: html`<${Nothing} find=${find} at=${at} isInside=${isInside} />`,
    }}
    close=${key === undefined ? null : close}>
    ${
      key === undefined
        ? html`<p class="quiet pad unchosen">${isInside ? "Choose a key to see its value." :
          "Choose a namespace to see its keys."}</p>`
        : html`<${Value} key=${JSON.stringify([space, key])} space=${space} name=${key} at=${at}
          find=${find} isHistory=${isHistory} close=${close} />`
    }
  <//>`;
}

function Nothing({ find, at, isInside }) {
  if (find) return html`<p class="quiet pad" role="status">Nothing begins with that.</p>`;
  if (at || isInside)
    return html`<p class="quiet pad">There ${at ? "was" : "is"} nothing here.</p>`;
  return html`<div class="empty"><h3>The store is empty</h3>
    <p>Agents keep values in it with <code>agent.store.set</code>.</p></div>`;
}

/** The value of one key, with what happened to it. */
function Value({ space, name, at, find, isHistory, close }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    (stop) => namespaceOf(namespace).value({ namespace: space, key: name, at }, stop),
    [namespace, space, name, at],
    { turn: nowTurn(at) },
  );
  const isGone = answer.failure?.status === 404;
  const about = { plane: "store", namespace: space, key: name };
  const link = (show, words, look) => html`<a ...${look} href=${storeAt(namespace, [space, name],
    { at, find, show })}><span>${words}</span></a>`;
  const tab = (show, words) =>
    link(show, words, {
      class: "button",
      "aria-current": isHistory === (show === "history") ? "page" : undefined,
    });
  const acts = html`<span class="switch">${tab("", "Value")}${tab("history", "History")}</span>
    ${at && !isHistory && answer.value && html`<${BringBack} at=${at} name=${about}
      words="Bring it back…" />`}`;
  const path = `${space}/${name}`;
  return html`<${Chosen} label="Value" name=${html`<${Called} text=${path} most=${96} />`}
    acts=${acts} close=${close}>
    ${
      isHistory
        ? html`<${Versions} name=${about} path=${path} />`
        : isGone
          ? html`<div class="empty"><h3>${at ? "It was not there then" : "It is not there now"}</h3>
            <p>${link("history", "What happened to it")}</p></div>`
          : answer.failure
            ? html`<${Failed} failure=${answer.failure} again=${answer.again} />`
            : !answer.value
              ? html`<${Waiting} />`
              : html`<${Tree} value=${answer.value.value} label=${`Value of ${plain(path)}`} />`
    }
  <//>`;
}
