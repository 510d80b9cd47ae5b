/** What was written and not sent, by session; "" is the one that is not made yet. */
import { store, stored } from "./storage";

const nameOf = (sessionId: string) => `draft-${sessionId}`;

export const written = (sessionId: string): string => stored(nameOf(sessionId));

export function keepWritten(sessionId: string, text: string): void {
  store(nameOf(sessionId), text);
}

/** Words that were not accepted are where they came from, unless something else has been written there meanwhile. */
export function giveBack(sessionId: string, text: string): void {
  if (!written(sessionId)) keepWritten(sessionId, text);
}
