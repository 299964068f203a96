// The files of a namespace, now or at any moment: one folder at a time, and one file beside it.

import { html, useEffect, useRef } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { Entry } from "./changes.js";
import { Content } from "./content.js";
import { Chosen, Find, Walk, nowTurn, usePages } from "./listing.js";
import { Failed, Icon, Moment, Name, Path, Waiting, useAnswer, useTitle } from "./parts.js";
import { filesAt, folderOf, nameOf, partsOf, placeOf, readPlace, samePlace } from "./places.js";
import * as state from "./state.js";
import { bytes, plain } from "./text.js";
import { BringBack, Versions } from "./versions.js";

const ON_PAGE = 500;

/** What is looked for by what was typed: a pattern, or a part of a name. */
const patternOf = (text) =>
  /[*?[]/.test(text) ? text : text.includes("/") ? `**/*${text}*` : `*${text}*`;

export function Files() {
  const { namespace, query } = state.route.value;
  const heading = useRef(null);
  const at = query.get("at");
  const find = query.get("find") ?? "";
  const { place, isFolder } = readPlace(query);
  const folder = isFolder ? place : folderOf(place);
  const isHistory = query.get("show") === "history";
  useTitle(`${place.path || "Files"} · ${namespace}`, heading);
  const asked = namespaceOf(namespace);
  const pages = usePages(
    async (after, stop) => {
      const how = { at, limit: ON_PAGE, after };
      const page = find
        ? await asked.filesNamed(patternOf(find), how, stop)
        : await asked.files(folder, how, stop);
      return { items: page.files, hasMore: page.has_more };
    },
    { deps: [namespace, folder, at, find], turn: nowTurn(at) },
  );
  const keeps = { at, find };
  const up = find || !folder.path ? null : folderOf(folder);
  const above = up ? 1 : 0;
  const listed = isFolder ? null : pages.items.find((each) => samePlace(placeOf(each), place));
  const draw = (index, mark) => {
    if (index < above)
      return html`<a class="change-line" ...${mark} href=${filesAt(namespace, up,
        { isFolder: true, at })}><${Icon} name="folder" size="14" /><span class="mono">..</span>
        <span class="hidden">the folder above</span></a>`;
    const each = pages.items[index - above];
    const isHere = each === listed;
    const name = find || !folder.path ? each.path : each.path.slice(folder.path.length + 1);
    return html`<a class=${`change-line ${isHere ? "here" : ""}`} ...${mark} href=${filesAt(
      namespace, placeOf(each), { isFolder: each.kind === "directory", at,
      find: each.kind === "directory" ? "" : find })} aria-current=${isHere ? "true" : undefined}>
      <${Entry} each=${each} name=${name} />${each.kind === "file" && html`<span class="size">
      ${bytes(each.size_bytes)}</span>`}${each.modified_at ? html`<span class="when">
      <${Moment} at=${each.modified_at} short /></span>` : ""}</a>`;
  };
  const steps = partsOf(place);
  const parts = [
    html`<a href=${filesAt(namespace, { path: "" }, { isFolder: true, at })}>All files</a>`,
    ...steps.map(({ name, place: each }, index) => {
      const isLast = index === steps.length - 1;
      return html`<a href=${filesAt(namespace, each, { isFolder: isFolder || !isLast, at })}
        aria-current=${isLast ? "page" : undefined}><${Name} text=${name} most="40" /></a>`;
    }),
  ];
  const isChosen = !isFolder || isHistory;
  const close = () => state.go(filesAt(namespace, folder, { isFolder: true, ...keeps }));
  return html`<${Walk} title="Files" heading=${heading} parts=${parts} at=${at}
    find=${html`<${Find} value=${find} label="Find files by name" placeholder="Find: cart, *.py"
      find=${(text) => state.go(filesAt(namespace, place, { isFolder, at, find: text.trim() }),
        { replace: true })} />`}
    choose=${(id) => state.go(filesAt(namespace, place, { isFolder, find, at: id, show: isHistory ?
      "history" : "" }))}
    links=${{
      pages,
      count: pages.items.length + above,
      draw,
      here: listed ? pages.items.indexOf(listed) + above : -1,
      label: find ? "Files that were found" : `Files in ${plain(folder.path) || "the root"}`,
      empty: html`<${Nothing} find=${find} at=${at} folder=${folder} />`,
    }}
    close=${isChosen ? close : null}>
    ${
      isChosen
        ? html`<${OneOf} key=${place.bytes ?? place.path} place=${place} isFolder=${isFolder}
          at=${at} find=${find} isHistory=${isHistory} close=${close} listed=${listed} />`
        : html`<p class="quiet pad unchosen">Choose a file to see what it says.${folder.path &&
          html` <a href=${filesAt(namespace, folder, { isFolder: true, at, show: "history" })}
          >What happened in this folder</a>`}</p>`
    }
  <//>`;
}

function Nothing({ find, at, folder }) {
  if (find) return html`<p class="quiet pad" role="status">No file has such a name.</p>`;
  if (at || folder.path)
    return html`<p class="quiet pad">There ${at ? "was" : "is"} nothing here.</p>`;
  return html`<div class="empty"><h3>No files yet</h3>
    <p>Agents write them with <code>agent.files.write</code>, or in an attached directory.</p>
    </div>`;
}

const kindOf = (each) =>
  ({ directory: "folder", link: "link" })[each.kind] ??
  `${bytes(each.size_bytes)}${each.mode & 0o111 ? ", executable" : ""}`;

/** The file that is chosen, or the folder whose history is. */
function OneOf({ place, isFolder, at, find, isHistory, listed, close }) {
  const { namespace } = state.route.value;
  const answer = useAnswer(
    (stop) => (isFolder ? null : (listed ?? namespaceOf(namespace).stat(place, at, stop))),
    [namespace, at, listed?.size_bytes, listed?.modified_at],
  );
  const each = answer.value;
  useEffect(() => {
    // An address without its slash, typed by hand: a folder is walked into.
    if (each?.kind === "directory" && !isFolder)
      state.go(filesAt(namespace, place, { isFolder: true, at }), { replace: true });
  }, [each]);
  const link = (show, words, look) => html`<a ...${look} href=${filesAt(namespace, place,
    { isFolder, at, find, show })}><span>${words}</span></a>`;
  const tab = (show, words) =>
    link(show, words, {
      class: "button",
      "aria-current": isHistory === (show === "history") ? "page" : undefined,
    });
  const isGone = answer.failure?.status === 404;
  const acts = html`
    ${!isFolder && html`<span class="switch">${tab("", "Content")}${tab("history",
      "History")}</span>`}
    ${at && !isHistory && each && html`<${BringBack} at=${at} name=${nameOf(place)}
      words="Bring it back…" />`}
    ${each?.kind === "file" && html`<a class="button" download title="Download"
      aria-label=${`Download ${plain(place.path)}`}
      href=${namespaceOf(namespace).raw(place, at)}><${Icon} name="download" /></a>`}`;
  const facts = isFolder
    ? "folder"
    : each &&
      html`${kindOf(each)}${each.modified_at ? html` · <${Moment} at=${each.modified_at} long />` :
        ""}`;
  return html`<${Chosen} label=${isFolder ? "Folder" : "File"} name=${html`<${Path}
    text=${place.path} />`} facts=${facts} acts=${acts} close=${close}>
    ${
      isHistory
        ? html`<${Versions} name=${nameOf(place)} path=${place.path} isFolder=${isFolder} />`
        : isGone
          ? html`<div class="empty"><h3>${at ? "It was not there then" : "It is not there now"}</h3>
            <p>${link("history", "What happened to it")}</p></div>`
          : answer.failure
            ? html`<${Failed} failure=${answer.failure} again=${answer.again} />`
            : !each
              ? html`<${Waiting} />`
              : html`<${Content} place=${place} at=${at} each=${each} />`
    }
  <//>`;
}
