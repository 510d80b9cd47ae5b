import { createI18n } from "vue-i18n";

import { stored, store } from "../model/storage";
import { en } from "./en";
import { zh } from "./zh";

export const LANGUAGES = { en: "English", "zh-CN": "中文" } as const;
export type Language = keyof typeof LANGUAGES;

function first(): Language {
  const chosen = stored("language");
  if (chosen === "en" || chosen === "zh-CN") return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

export const i18n = createI18n({
  legacy: false,
  locale: first() as Language,
  fallbackLocale: "en",
  messages: { en, "zh-CN": zh },
});

document.documentElement.lang = i18n.global.locale.value;

export function setLanguage(language: Language): void {
  i18n.global.locale.value = language;
  document.documentElement.lang = language;
  store("language", language);
}
