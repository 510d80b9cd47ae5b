import { ref } from "vue";

import { store, stored } from "./storage";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const theme = ref<Theme>(THEMES.find((name) => name === stored("theme")) ?? "system");

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  store("theme", chosen === "system" ? "" : chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
