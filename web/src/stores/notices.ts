import { FeedError } from "@netaclaw/client";
import { defineStore } from "pinia";
import { ref } from "vue";

/** Codes of gRPC. */
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

export interface Notice {
  readonly id: number;
  /** A reason of the suite's, or UNAVAILABLE; empty where there is no word for it. */
  readonly reason: string;
  readonly detail: string;
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
    const named = reason || (code === UNAVAILABLE ? "UNAVAILABLE" : "");
    notices.value = [...notices.value.slice(-2), { id: next++, reason: named, detail: message }];
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

  function announce(text: string): void {
    announcement.value = text;
  }

  return { notices, keyNeeded, announcement, fail, dismiss, attempt, announce };
});
