import { Code, ConnectError } from "@connectrpc/connect";

/** A stream that carries not even heartbeats for so long is dead, though its connection may not know it yet. */
export const SILENT_MS = 45_000;

/**
 * A stream that is given back to the server when its reader leaves, in whatever way. One that carries nothing for
 * `silentMs`, while its reader waits, was cut: UNAVAILABLE is thrown.
 */
export async function* abandonable<T>(
  signal: AbortSignal | undefined,
  open: (signal: AbortSignal) => AsyncIterable<T>,
  silentMs = SILENT_MS,
): AsyncGenerator<T, void, undefined> {
  const leaving = new AbortController();
  const either = signal ? AbortSignal.any([signal, leaving.signal]) : leaving.signal;
  const stream = open(either)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await within(silentMs, stream.next(), leaving);
      if (next.done) return;
      yield next.value;
    }
  } finally {
    leaving.abort();
    await stream.return?.().catch(() => undefined); // it ends by the signal, and says so
  }
}

async function within<T>(silentMs: number, next: Promise<T>, leaving: AbortController): Promise<T> {
  let silent = false;
  const timer = setTimeout(() => {
    silent = true;
    leaving.abort();
  }, silentMs);
  try {
    return await next;
  } catch (error) {
    throw silent ? new ConnectError("nothing came for too long", Code.Unavailable) : error;
  } finally {
    clearTimeout(timer);
  }
}
