/** Waits; ends early, without an error, when the signal is aborted. */
export type Sleep = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

export interface BackoffOptions {
  readonly firstMs?: number;
  readonly longestMs?: number;
  /** Tries without any progress before giving up; 0 never gives up. */
  readonly maxAttempts?: number;
  readonly sleep?: Sleep;
  /** From 0 to 1. */
  readonly jitter?: () => number;
}

/** Exponential pauses with full jitter. */
export class Backoff {
  private attempts = 0;

  constructor(private readonly options: BackoffOptions = {}) {}

  /** True when no further try is allowed. */
  get exhausted(): boolean {
    const most = this.options.maxAttempts ?? 0;
    return most > 0 && this.attempts >= most;
  }

  /** Something arrived: the next pause is short again. */
  progress(): void {
    this.attempts = 0;
  }

  /** Wait before the next try, and `atLeastMs` longer where the suite asked for that. */
  async pause(signal?: AbortSignal, atLeastMs = 0): Promise<void> {
    const { firstMs = 100, longestMs = 5_000, sleep = wait, jitter = Math.random } = this.options;
    const longest = Math.min(longestMs, firstMs * 2 ** Math.min(this.attempts, 16));
    this.attempts += 1;
    await sleep(atLeastMs + longest * jitter(), signal);
  }
}

const wait: Sleep = (milliseconds, signal) =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done, { once: true });
  });
