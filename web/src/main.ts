import "@fontsource-variable/inter/wght.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/prose.css";
import "./styles/direction.css";

import { createPinia } from "pinia";
import { createApp } from "vue";

import App from "./App.vue";
import { i18n } from "./i18n";
import { tellWhatIsMissing } from "./outdated";
import { router } from "./router";
import { useChat } from "./stores/chat";
import { useNotices } from "./stores/notices";

const pinia = createPinia();
// The session is asked for before anything is drawn: it is what takes the longest.
const shown = /^\/s\/([\w-]+)$/.exec(location.pathname)?.[1];
if (shown) void useChat(pinia).show(shown);
tellWhatIsMissing(import.meta.url, router, useNotices(pinia));
createApp(App).use(pinia).use(router).use(i18n).mount("#app");
