// What a key is for: its scope, what that is called, and what whoever has it can do.

export const SCOPES = [
  ["workspace", "An agent", "Reads, writes, keeps and goes back in namespaces."],
  ["add-only", "An agent that only adds", "The same, and takes nothing of the history away."],
  ["admin", "An operator", "Makes keys, sees all namespaces in numbers, and no agent’s data."],
];

/** What a scope is called, and what it can do; one that is not known is called what it is. */
export function scopeOf(scope) {
  const [, title = scope, words] = SCOPES.find(([each]) => each === scope) ?? [];
  return { title, words };
}
