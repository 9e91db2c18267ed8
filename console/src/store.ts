// Values that views show and follow.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

export class Store<T> {
  private followers = new Set<() => void>();

  constructor(public value: T) {}

  set(value: T): void {
    this.value = value;
    for (const follower of [...this.followers]) follower();
  }

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

/** The value of a store; the view is drawn anew when it changes. It follows before anything else can happen:
 * other effects wait for the next frame, and a change until then would never be drawn. */
export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState({});
  useLayoutEffect(() => store.follow(() => draw({})), [store]);
  return store.value;
}

export interface Loaded<T> {
  value: T | null;
  error: string;
  isLoading: boolean;
  again: () => void;
}

/** What `load` finds; it runs again when one of `causes` changes. Late answers to earlier questions are dropped. */
export function useLoaded<T>(load: () => Promise<T>, causes: unknown[]): Loaded<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<{ value: T | null; error: string; isLoading: boolean }>({
    value: null,
    error: "",
    isLoading: true,
  });
  useEffect(() => {
    let isCurrent = true;
    setState((before) => ({ ...before, isLoading: true }));
    load().then(
      (value) => isCurrent && setState({ value, error: "", isLoading: false }),
      (error: Error) =>
        isCurrent &&
        setState((before) => ({
          value: before.value,
          error: error.message,
          isLoading: false,
        })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...causes, round]);
  return { ...state, again: () => setRound((before) => before + 1) };
}

/** Runs `work` now and every `ms` while the page is seen. */
export function useEvery(ms: number, work: () => void, causes: unknown[]): void {
  useEffect(() => {
    work();
    const timer = setInterval(() => {
      if (!document.hidden) work();
    }, ms);
    return () => clearInterval(timer);
  }, causes);
}
