// Where something lies: among the files its path, and its bytes where that is no text; in the store
// a namespace and a key.

import { to } from "./state.js";

/** @typedef {{ path: string, bytes?: string }} Place */

const lastSlash = (text) => text.lastIndexOf("/");

/**
 * What `parts` of a place there are, from the first folder to itself; none for the root.
 * @param {Place} place
 */
export function partsOf({ path, bytes }) {
  const names = path ? path.split("/") : [];
  const raw = bytes ? atob(bytes).split("/") : null;
  return names.map((name, index) => ({
    name,
    place: {
      path: names.slice(0, index + 1).join("/"),
      bytes: raw ? btoa(raw.slice(0, index + 1).join("/")) : undefined,
    },
  }));
}

/** The folder that a place lies in. */
export const folderOf = (place) =>
  lastSlash(place.path) < 0 ? { path: "" } : partsOf(place).at(-2).place;

/** What one thing of a listing is at. */
export const placeOf = ({ path, path_b64: bytes }) => ({ path, bytes: bytes ?? undefined });

export const samePlace = (one, other) => one.path === other.path && one.bytes === other.bytes;

/**
 * How a restore and a history call a file.
 * @param {Place} place
 */
export const nameOf = ({ path, bytes }) =>
  bytes ? { plane: "files", name_b64: bytes } : { plane: "files", name: path };

/**
 * The place that a restore and a history call so.
 * @param {{ name?: string, name_b64?: string }} name
 * @returns {Place}
 */
export const placeNamed = ({ name, name_b64: bytes }) =>
  bytes === undefined
    ? { path: name ?? "" }
    : {
        path: new TextDecoder().decode(Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))),
        bytes,
      };

/**
 * The address of a file, or with `isFolder` of what lies in a folder.
 * @param {string} namespace
 * @param {Place} place
 * @param {{ isFolder?: boolean, [name: string]: any }} [how]
 */
export const filesAt = (namespace, { path, bytes }, { isFolder = false, ...query } = {}) =>
  to(["n", namespace, "files"], {
    path: isFolder && path ? `${path}/` : path,
    b64: bytes,
    ...query,
  });

/**
 * What an address says: which place, and whether it is a folder.
 * @param {URLSearchParams} query
 * @returns {{ isFolder: boolean, place: Place }}
 */
export function readPlace(query) {
  const asked = query.get("path") ?? "";
  const isFolder = asked === "" || asked.endsWith("/");
  const path = asked.replace(/\/+$/, "");
  const bytes = query.get("b64") ?? undefined;
  return { isFolder, place: isBytesOf(bytes, path) ? { path, bytes } : { path } };
}

/** Whether bytes in base64 have as many parts as a path that stands for them. */
function isBytesOf(bytes, path) {
  try {
    return bytes !== undefined && atob(bytes).split("/").length === path.split("/").length;
  } catch {
    return false;
  }
}

/** The address of a key of the store (`[namespace, key]`), of a namespace, or of all of it. */
export const storeAt = (namespace, parts, query = {}) =>
  to(["n", namespace, "store"], {
    key: parts.length ? JSON.stringify(parts) : "",
    ...query,
  });
