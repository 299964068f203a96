// Colours for code, worked out beside the page: a text that takes too long has none.

/** Adds colours to lines; says whether it did. */
export async function colours() {
  return false;
}
