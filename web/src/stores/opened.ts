import { defineStore } from "pinia";
import { type Ref, computed, shallowReactive } from "vue";

/** What a person opened or closed, by names such as `task 018…`; kept while rows come and go, and while text streams. */
export const useOpened = defineStore("opened", () => {
  const chosen = shallowReactive(new Map<string, boolean>());
  return { chosen };
});

/** Whether something is open: as the person left it, until then as `byDefault` says. */
export function useOpen(name: () => string, byDefault: () => boolean = () => false): Ref<boolean> {
  const { chosen } = useOpened();
  return computed({
    get: () => chosen.get(name()) ?? byDefault(),
    set: (open) => chosen.set(name(), open),
  });
}
