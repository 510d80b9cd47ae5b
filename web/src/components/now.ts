import { onScopeDispose, ref, type Ref, watchEffect } from "vue";

/** Milliseconds since 1970, every second while it is needed. */
export function useNow(needed: () => boolean): Ref<number> {
  const now = ref(Date.now());
  let timer: ReturnType<typeof setInterval> | undefined;
  watchEffect(() => {
    clearInterval(timer);
    now.value = Date.now();
    if (needed()) timer = setInterval(() => (now.value = Date.now()), 1000);
  });
  onScopeDispose(() => clearInterval(timer));
  return now;
}
