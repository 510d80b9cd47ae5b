import type { ConnectOptions } from "../client.js";
import type { ToTab, ToWorker } from "./messages.js";

/** A tab's port to a worker. It greets under a lock, by which the worker learns that the tab is gone, however it went. */
export class Link {
  private readonly lock = `netaclaw-${crypto.randomUUID()}`;
  private release: () => void = () => undefined;
  /** What was to be said before the worker knows this tab; undefined afterwards. */
  private early: ToWorker[] | undefined = [];

  constructor(
    private readonly port: MessagePort,
    options: ConnectOptions,
    heard: (message: ToTab) => void,
  ) {
    port.onmessage = ({ data }: MessageEvent<ToTab>) => heard(data);
    const held = new Promise<void>((resolve) => (this.release = resolve));
    const locks = globalThis.navigator?.locks;
    const hello = () => this.greet(options);
    if (locks) void locks.request(this.lock, () => (hello(), held));
    else hello();
  }

  tell(message: ToWorker): void {
    if (this.early) this.early.push(message);
    else this.port.postMessage(message);
  }

  /** Say goodbye, and hear nothing more. */
  close(): void {
    this.tell({ kind: "bye" });
    this.port.onmessage = null;
    this.release();
  }

  /** `hello` comes first; the lock is granted a moment later than the page begins to ask. */
  private greet(options: ConnectOptions): void {
    const early = this.early ?? [];
    this.early = undefined;
    for (const message of [{ kind: "hello" as const, options, lock: this.lock }, ...early]) this.tell(message);
  }
}
