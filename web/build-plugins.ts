import { fileURLToPath } from "node:url";

import type { Plugin } from "vite";

const NAME = "virtual:feed-worker";

/**
 * The worker as one more entry of the page's own build: `import url from "virtual:feed-worker"`.
 *
 * Vite builds `new SharedWorker(new URL(…))` apart, with a second copy of the stubs; as an entry it shares their chunk
 * with the page, which the browser has by then.
 */
export function feedWorker(): Plugin {
  const source = fileURLToPath(new URL("../clients/typescript/dist/shared/worker.js", import.meta.url));
  let serving = false;
  return {
    name: "feed-worker",
    configResolved: (config) => void (serving = config.command === "serve"),
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load(id) {
      if (id !== `\0${NAME}`) return undefined;
      if (serving) return `export default ${JSON.stringify(`/@fs${source}`)};`;
      const emitted = this.emitFile({ type: "chunk", id: source, name: "worker" });
      return `export default import.meta.ROLLUP_FILE_URL_${emitted};`;
    },
  };
}

/** KaTeX's fonts in the one format that every browser of today reads; its style sheet names two older ones as well. */
export function modernFonts(): Plugin {
  return {
    name: "modern-fonts",
    enforce: "pre",
    transform(code, id) {
      if (!/katex[\\/]dist[\\/]katex.*\.css$/.test(id)) return undefined;
      return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\(["']?\w+["']?\)/g, "");
    },
  };
}
