// A worker in another language: docs/worker-protocol.md on standard input and output. Run by the runner, never alone.
import { readFileSync } from "node:fs";

const steering = [], waiting = new Map();
const tools = { read_file: ({ path }) => readFileSync(path, "utf8") };
let task, text = "", toolCallCount = 0, rest = Buffer.alloc(0);

const line = (type, fields) => JSON.stringify({ type, runId: task.runId, ...fields }) + "\n";
const send = (type, fields) => process.stdout.write(line(type, fields));
const end = (type, fields) => process.stdout.write(line(type, { toolCallCount, ...fields }), () => process.exit());
const answer = (key) => new Promise((resolve) => waiting.set(key, resolve));
const user = (said) => ({ role: "MESSAGE_ROLE_USER", parts: [{ text: { text: said } }] });

async function runTool({ callId, toolName, argumentsJson = "" }) {
  const route = task.policy.routes?.find((each) => each.toolName === toolName)?.route;
  toolCallCount++;
  if (route === "TOOL_ROUTE_MAIN_PROCESS_PROXY") {
    send("proxy_tool_call", { callId, toolName, argumentsJson });
    return answer(`proxy_tool_result ${callId}`);
  }
  send("tool_call", { callId, toolName, argumentsJson });
  try {
    if (route !== "TOOL_ROUTE_WORKER_LOCAL" || !tools[toolName]) throw new Error(`${toolName} is not available here`);
    send("tool_result", { callId, content: tools[toolName](JSON.parse(argumentsJson || "{}")) });
  } catch (error) {
    send("tool_result", { callId, content: error.message, isError: true });
  }
}

async function work() {
  send("run_start", { protocolVersion: 1, pid: process.pid });
  let keep = task.history?.length ?? 0, messages = [user(`Goal:\n${task.task.goal}`)];
  for (let requestId = 1; ; requestId++) {
    if (task.budget.maxToolRounds && requestId > task.budget.maxToolRounds)
      return end("run_end", { state: "SUBAGENT_TASK_STATE_PARTIAL", finalOutput: text, error: "no model call is left" });
    for (const { content, message, requestId: receipt } of steering.splice(0)) {
      messages.push(user(content ?? message));
      if (receipt) send("steer_taken", { requestId: receipt });
    }
    send("model_request", { requestId, keep, messages });
    const { message, error } = await answer(`model_response ${requestId}`);
    if (!message) return end("run_error", { error: error ?? "no message came", partialText: text });
    [keep, messages] = [keep + messages.length + 1, []];
    const parts = message.parts ?? [];
    text = parts.map((part) => part.text?.text ?? "").join("") || text;
    const calls = parts.flatMap((part) => part.toolCall ?? []);
    if (!calls.length) return end("run_end", { state: "SUBAGENT_TASK_STATE_COMPLETED", finalOutput: text });
    for (const call of calls) await runTool(call);
  }
}

function take(data) {
  let message;
  try { message = JSON.parse(data); } catch { return; } // noise
  if (!task && message?.type === "task") { task = message; return work(); }
  if (!task || message?.runId !== task.runId) return;
  if (message.type === "cancel") return end("run_error", { error: `stopped: ${message.reason}`, partialText: text });
  if (message.type === "steer" || message.type === "budget_warning") return steering.push(message);
  const key = `${message.type} ${message.requestId ?? message.callId}`;
  waiting.get(key)?.(message); // nobody: a late, stray or doubled answer
  waiting.delete(key);
}

process.stdin.on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  for (let at; (at = rest.indexOf(0x0a)) >= 0; rest = rest.subarray(at + 1)) take(rest.toString("utf8", 0, at));
});
process.stdin.on("end", () => process.exit(3)).on("error", () => process.exit(3));
process.on("SIGTERM", () => process.exit(4));
