/** Keys of the page. A key that is being typed, or chosen from an input method, is no command. */
import { onBeforeUnmount, onMounted } from "vue";

/** By name: `mod+k` is Ctrl or Command with K; others stand alone. A handler that returns false leaves the key alone. */
export type Bindings = Readonly<Record<string, (event: KeyboardEvent) => unknown>>;

/** As the names of bindings have it; undefined for what is no command. */
export function nameOf(event: KeyboardEvent): string | undefined {
  if (event.isComposing || event.keyCode === 229 || event.altKey || event.defaultPrevented) return undefined;
  const mod = event.ctrlKey || event.metaKey;
  if (mod) return event.key.length === 1 ? `mod+${event.key.toLowerCase()}` : undefined;
  return event.key;
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as Element | null;
  return Boolean(target?.closest?.("input, textarea, select, [contenteditable=true]"));
}

const inDialog = () => document.querySelector("[role=dialog], [role=alertdialog], [role=menu]") !== null;

/** Whether a name of one letter or sign stands for itself where text is written. */
const isText = (name: string) => name.length === 1;

/** Listen for keys while the component lives. Single letters are left to fields and to dialogs. */
export function useKeys(bindings: Bindings): void {
  function onKey(event: KeyboardEvent): void {
    const name = nameOf(event);
    const handler = name === undefined ? undefined : bindings[name];
    if (!name || !handler) return;
    if (isText(name) && (isTyping(event) || inDialog())) return;
    if (name === "Escape" && inDialog()) return; // it closes what is open
    if (handler(event) !== false) event.preventDefault();
  }
  onMounted(() => addEventListener("keydown", onKey));
  onBeforeUnmount(() => removeEventListener("keydown", onKey));
}

/** Move the focus to the next region of the page that is there: sessions, conversation, composer. */
export function nextRegion(back: boolean): void {
  const regions = [...document.querySelectorAll<HTMLElement>("[data-region]")].filter((each) => each.offsetParent);
  const at = regions.findIndex((each) => each.contains(document.activeElement));
  const step = back ? -1 : 1;
  const next = regions[(at < 0 ? 0 : at + step + regions.length) % regions.length];
  const target = next?.matches("[tabindex]") ? next : next?.querySelector<HTMLElement>("textarea, a, button, input");
  target?.focus();
}

/** Every key with its name in the languages' `keys`, for the list that `?` shows. */
export const KEYS = [
  ["Enter", "send"],
  ["Shift Enter", "newline"],
  ["mod K", "palette"],
  ["mod B", "rail"],
  ["F6", "region"],
  ["↑", "editLast"],
  ["j k", "message"],
  ["o", "open"],
  ["[ ]", "sibling"],
  ["c", "continueHere"],
  ["t", "tree"],
  ["1–9", "choice"],
  ["Esc", "escape"],
  ["?", "help"],
] as const;

export const MOD = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";
