// What of Preact, its signals and htm the console's modules use: the vendored file has no types.

type Done = (() => void) | undefined | void;
type Children = unknown;

export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(hear: (value: T) => void): () => void;
}

export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
export function render(what: Children, place: Element): void;
export function signal<T>(value: T): Signal<T>;
export function computed<T>(find: () => T): { readonly value: T; peek(): T };
export function effect(act: () => Done): () => void;
export function batch<T>(act: () => T): T;
export function untracked<T>(act: () => T): T;
export function useSignal<T>(value: T): Signal<T>;
export function useComputed<T>(find: () => T): { readonly value: T };
export function useState<T>(value: T | (() => T)): [T, (next: T | ((was: T) => T)) => void];
export function useRef<T>(value: T): { current: T };
export function useMemo<T>(find: () => T, deps: unknown[]): T;
export function useCallback<T>(act: T, deps: unknown[]): T;
export function useEffect(act: () => Done | boolean, deps: unknown[]): void;
export function useLayoutEffect(act: () => Done, deps: unknown[]): void;
