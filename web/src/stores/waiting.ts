/** Messages that wait for a running turn: what this page sent, and what the store keeps. */
import { ReceiptState } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import type { QueuedMessage } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";

/** A message that was sent while a turn was running, until it is taken in. */
export interface Waiting {
  readonly requestId: string;
  readonly text: string;
  readonly state: "sending" | "queued" | "missed";
}

/** After a read of the store: what waits there waits, what this page is about to send or missed stays. */
export function withStored(known: readonly Waiting[], stored: readonly QueuedMessage[]): Waiting[] {
  const texts = new Map(known.map(({ requestId, text }) => [requestId, text]));
  const waiting = new Set(stored.map(({ requestId }) => requestId));
  return [
    ...stored.map(({ requestId, text }) => ({
      requestId,
      text: texts.get(requestId) ?? text,
      state: "queued" as const,
    })),
    ...known.filter(({ requestId, state }) => state !== "queued" && !waiting.has(requestId)),
  ];
}

/** After a receipt: taken and retracted messages wait no longer. */
export function withReceipt(known: readonly Waiting[], requestId: string, state: ReceiptState): Waiting[] {
  const word = state === ReceiptState.QUEUED ? "queued" : state === ReceiptState.MISSED ? "missed" : undefined;
  return known.flatMap((message) =>
    message.requestId !== requestId ? [message] : word ? [{ ...message, state: word }] : [],
  );
}
