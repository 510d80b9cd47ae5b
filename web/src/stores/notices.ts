import { Backoff, FeedError, isCut } from "@netaclaw/client";
import { defineStore } from "pinia";
import { nextTick, ref } from "vue";

/** Of gRPC. */
const UNAUTHENTICATED = 16;

/** With the pauses between them, longer than a service takes to be started again. */
const MOST_TRIES = 12;

export interface Notice {
  readonly id: number;
  /** A reason of the suite's; empty where it gave none. */
  readonly reason: string;
  readonly detail: string;
  /** Of gRPC. */
  readonly code: number;
}

/** What went wrong with something that a person asked for, and what is said to screen readers. */
export const useNotices = defineStore("notices", () => {
  const notices = ref<Notice[]>([]);
  const keyNeeded = ref(false);
  const announcement = ref("");
  let next = 1;

  function fail(error: unknown): void {
    const { code, message, reason } = FeedError.from(error);
    if (code === UNAUTHENTICATED) keyNeeded.value = true;
    notices.value = [...notices.value.slice(-2), { id: next++, reason, detail: message, code }];
  }

  function dismiss(id: number): void {
    notices.value = notices.value.filter((notice) => notice.id !== id);
  }

  /** Do something; true when it went well. A failure becomes a notice. */
  async function attempt(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      fail(error);
      return false;
    }
  }

  /** Do what may be done twice, for a while again and again when the suite cannot be reached. */
  function persist(work: () => Promise<unknown>): Promise<boolean> {
    const backoff = new Backoff({ maxAttempts: MOST_TRIES });
    return attempt(async () => {
      for (;;) {
        try {
          return await work();
        } catch (error) {
          if (!isCut(error) || backoff.exhausted) throw error;
          await backoff.pause();
        }
      }
    });
  }

  /** Read something, again and again while the suite cannot be reached and it is wanted. Other failures become notices. */
  async function read(work: () => Promise<unknown>, wanted: () => boolean = () => true): Promise<void> {
    const backoff = new Backoff();
    for (let told = false; wanted();) {
      try {
        return void (await work());
      } catch (error) {
        if (!wanted()) return;
        if (!isCut(error)) return fail(error);
        if (!told) fail(error);
        told = true;
        await backoff.pause();
      }
    }
  }

  /** Said to screen readers, a second time as well. */
  function announce(text: string): void {
    announcement.value = "";
    void nextTick(() => (announcement.value = text));
  }

  return { notices, keyNeeded, announcement, fail, dismiss, attempt, persist, read, announce };
});
