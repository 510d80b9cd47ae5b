// A chat in a terminal: sends one message, prints the answer live, and survives a cut connection.
//
//   npm run chat -- 127.0.0.1:7400 "in parallel: count the files; find the 3 largest files"
//
// Options: --session ID goes on with a session; --json prints a report as the last line. NETACLAW_API_KEY is shown
// where the gateway asks for one.
import process from "node:process";
import { parseArgs } from "node:util";

import { loadSession, runTurn, SessionView } from "../dist/index.js";
import { connectNode } from "../dist/node.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { session: { type: "string", default: "" }, json: { type: "boolean", default: false } },
});
const [address, ...words] = positionals;
if (!address || !words.length) {
  console.error("usage: chat [--session ID] [--json] HOST:PORT MESSAGE");
  process.exit(2);
}

const apiKey = process.env.NETACLAW_API_KEY;
const client = connectNode({ baseUrl: `http://${address}`, ...(apiKey ? { apiKey } : {}) });
const view = values.session ? await loadSession(client, values.session) : new SessionView();

/** How much of each answer is on the screen. */
const shown = new Map();
/** What the screen says of each subagent. */
const tasks = new Map();

function print(event) {
  for (const entry of view.path()) {
    if (entry.turnId !== event.turnId || entry.body.case !== "assistant") continue;
    const [before, text] = [shown.get(entry.entryId) ?? "", view.textOf(entry.entryId)];
    if (text === before) continue;
    // Another attempt has begun where the text does not go on from what is shown.
    process.stdout.write(text.startsWith(before) ? text.slice(before.length) : `\n${text}`);
    shown.set(entry.entryId, text);
  }
  if (event.event.case === "subagentEvent") {
    const { item } = event.event.value;
    if (item && tasks.get(item.taskId) !== item.state) console.error(`  [${item.name}: state ${item.state}]`);
    if (item) tasks.set(item.taskId, item.state);
  }
}

const options = { connected: (connected) => connected || console.error("  [connection lost; trying again]") };
for await (const event of runTurn(client, { sessionId: values.session, content: words.join(" ") }, view.seq, options)) {
  view.apply(event);
  print(event);
}
process.stdout.write("\n");

const end = view.turnEnd?.event;
if (values.json) {
  const report = { session_id: view.sessionId, seq: Number(view.seq), text: view.textOf(view.leafEntryId) };
  console.log(JSON.stringify({ ...report, outcome: end?.case === "done" ? end.value.outcome : 0 }));
}
process.exit(end?.case === "done" ? 0 : 1);
