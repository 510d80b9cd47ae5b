import type { Code } from "@connectrpc/connect";

import type { ConnectOptions } from "../client.js";

/** What a tab tells the worker. The first message is `hello`. */
export type ToWorker =
  | { readonly kind: "hello"; readonly options: ConnectOptions; readonly lock: string }
  | { readonly kind: "subscribe"; readonly id: number; readonly sessionId: string; readonly afterSeq: bigint }
  | { readonly kind: "list"; readonly id: number }
  | { readonly kind: "unsubscribe"; readonly id: number }
  | { readonly kind: "alive" }
  | { readonly kind: "bye" };

/** What the worker tells a tab; events as protobuf bytes. `gone`: it takes the tab for gone, and hears it no more. */
export type ToTab =
  | { readonly kind: "alive" }
  | { readonly kind: "gone" }
  | { readonly kind: "event"; readonly id: number; readonly event: Uint8Array }
  | { readonly kind: "reset"; readonly id: number }
  | { readonly kind: "listening"; readonly id: number }
  | { readonly kind: "connected"; readonly id: number; readonly connected: boolean }
  | {
      readonly kind: "failed";
      readonly id: number;
      readonly code: Code;
      readonly message: string;
      readonly reason: string;
    };

/** A tab says that it lives this often, and is answered; timers of hidden tabs may be late by a minute. */
export const ALIVE_EVERY_MS = 20_000;
/** A tab that was not heard of for so long is gone. */
export const GONE_AFTER_MS = 180_000;
