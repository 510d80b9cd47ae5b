/** States as the page shows them: one word, one shape, one colour each. Values of a later version are `unknown`,
 * shown as failed: a person should look, and nothing seems to go on. */
import { ToolCallState } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import { SubagentTaskState } from "@netaclaw/client/gen/netaclaw/session/v1/subagent_pb";
import { ToolRoute } from "@netaclaw/client/gen/netaclaw/tool/v1/tool_pb";

export type TaskWord =
  "queued" | "running" | "completed" | "partial" | "timedOut" | "failed" | "cancelled" | "inDoubt" | "unknown";
export type CallWord =
  "pending" | "waiting" | "running" | "completed" | "failed" | "refused" | "cancelled" | "inDoubt" | "unknown";
export type RouteWord = "local" | "proxy" | "disabled" | "unknown";

const TASKS: Readonly<Record<number, TaskWord>> = {
  [SubagentTaskState.QUEUED]: "queued",
  [SubagentTaskState.RUNNING]: "running",
  [SubagentTaskState.COMPLETED]: "completed",
  [SubagentTaskState.PARTIAL]: "partial",
  [SubagentTaskState.TIMED_OUT]: "timedOut",
  [SubagentTaskState.FAILED]: "failed",
  [SubagentTaskState.CANCELLED]: "cancelled",
  [SubagentTaskState.IN_DOUBT]: "inDoubt",
};

const CALLS: Readonly<Record<number, CallWord>> = {
  [ToolCallState.PENDING]: "pending",
  [ToolCallState.WAITING]: "waiting",
  [ToolCallState.RUNNING]: "running",
  [ToolCallState.COMPLETED]: "completed",
  [ToolCallState.FAILED]: "failed",
  [ToolCallState.REFUSED]: "refused",
  [ToolCallState.CANCELLED]: "cancelled",
  [ToolCallState.IN_DOUBT]: "inDoubt",
};

const ROUTES: Readonly<Record<number, RouteWord>> = {
  [ToolRoute.WORKER_LOCAL]: "local",
  [ToolRoute.MAIN_PROCESS_PROXY]: "proxy",
  [ToolRoute.DISABLED]: "disabled",
};

export const taskWord = (state: SubagentTaskState): TaskWord => TASKS[state] ?? "unknown";
export const callWord = (state: ToolCallState): CallWord => CALLS[state] ?? "unknown";
export const routeWord = (route: ToolRoute | undefined): RouteWord => ROUTES[route ?? 0] ?? "unknown";

/** Whether a task can still change. */
export const isOpen = (word: TaskWord): boolean => word === "queued" || word === "running";
/** Whether a person should look at it. */
export const isBroken = (word: TaskWord): boolean => ["failed", "timedOut", "inDoubt", "unknown"].includes(word);
