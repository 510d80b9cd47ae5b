import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vitest/config";

import { feedWorker, modernFonts } from "./build-plugins.ts";

export default defineConfig({
  plugins: [vue(), feedWorker(), modernFonts()],
  define: {
    // Messages are interpreted, never compiled: the content security policy allows no code from text.
    __INTLIFY_JIT_COMPILATION__: true,
    __INTLIFY_DROP_MESSAGE_COMPILER__: false,
    __VUE_I18N_LEGACY_API__: false,
    __VUE_I18N_FULL_INSTALL__: false,
    __VUE_OPTIONS_API__: false,
  },
  resolve: { dedupe: ["@bufbuild/protobuf"] },
  build: {
    outDir: "../services/gateway/netaclaw_gateway/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the policy allows no data: fonts or scripts
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // What page and worker share has no part that needs a document.
        codeSplitting: {
          groups: [
            {
              name: "client",
              test: /[\\/](@bufbuild|@connectrpc)[\\/]|[\\/]clients[\\/]typescript[\\/]dist[\\/](?!shared[\\/]worker)/,
            },
          ],
        },
      },
    },
  },
  server: { proxy: { "^/netaclaw\\.": process.env.NETACLAW_WEB ?? "http://127.0.0.1:7405" } },
  test: { environment: "jsdom", include: ["tests/**/*.test.ts"] },
});
