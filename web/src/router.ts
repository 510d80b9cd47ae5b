import { createRouter, createWebHistory } from "vue-router";

import ChatView from "./views/ChatView.vue";

export const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: "/", name: "new", component: ChatView, props: ({ query }) => ({ agentId: String(query.agent ?? "") }) },
    { path: "/s/:sessionId", name: "session", component: ChatView, props: true },
    { path: "/agents/:agentId?", name: "agents", component: () => import("./views/AgentsView.vue"), props: true },
    { path: "/tools", name: "tools", component: () => import("./views/ToolsView.vue") },
    { path: "/:rest(.*)", redirect: "/" },
  ],
});
