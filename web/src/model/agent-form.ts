/** An agent as its form has it: every choice has a value here, where the agent itself may leave it open. */
import type { Agent } from "@netaclaw/client/gen/netaclaw/agent/v1/agent_pb";
import { ToolApproval, type ToolProfileItem, ToolEffect } from "@netaclaw/client/gen/netaclaw/tool/v1/tool_pb";

export interface AgentForm {
  name: string;
  description: string;
  systemPrompt: string;
  model: string;
  /** A value of ThinkingLevel. */
  thinkingLevel: number;
  workspaceEnabled: boolean;
  shellEnabled: boolean;
  readOnly: boolean;
  localStorageEnabled: boolean;
  /** All tools that policy allows; else those in `tools`. */
  allTools: boolean;
  tools: string[];
  /** Values of ToolApproval by tool; a tool that is not named has its default. */
  approvals: Record<string, number>;
  enabled: boolean;
  maxConcurrent: number;
  allPresets: boolean;
  presets: string[];
  /** The parent's tools; else at most those in `childTools`. */
  allChildTools: boolean;
  childTools: string[];
  /** Seconds; 0: the suite's own. */
  timeoutSeconds: number;
  /** Model calls of a child; 0: the suite's own. */
  maxToolRounds: number;
}

/** The floors that the contract states. */
const MAX_CONCURRENT = 3;

export function formOf(agent: Agent | undefined): AgentForm {
  const config = agent?.subagentConfig;
  return {
    name: agent?.name ?? "",
    description: agent?.description ?? "",
    systemPrompt: agent?.systemPrompt ?? "",
    model: agent?.model ?? "",
    thinkingLevel: agent?.thinkingLevel ?? 0,
    workspaceEnabled: agent?.workspaceEnabled ?? true,
    shellEnabled: agent?.shellEnabled ?? false,
    readOnly: agent?.readOnly ?? false,
    localStorageEnabled: agent?.localStorageEnabled ?? true,
    allTools: !agent?.toolNames,
    tools: [...(agent?.toolNames?.names ?? [])],
    approvals: { ...agent?.approvals },
    enabled: config?.enabled ?? true,
    maxConcurrent: config?.maxConcurrent ?? MAX_CONCURRENT,
    allPresets: !config?.allowedPresetAgentIds,
    presets: [...(config?.allowedPresetAgentIds?.names ?? [])],
    allChildTools: !config?.allowedToolNames,
    childTools: [...(config?.allowedToolNames?.names ?? [])],
    timeoutSeconds: config?.timeoutSeconds ?? 0,
    maxToolRounds: config?.maxToolRounds ?? 0,
  };
}

/** What a save writes: what is left open in the form is left open in the agent. */
export function writtenOf(form: AgentForm) {
  const { name, description, systemPrompt, model, thinkingLevel } = form;
  const { workspaceEnabled, shellEnabled, readOnly, localStorageEnabled } = form;
  return {
    ...{ name, description, systemPrompt, model, thinkingLevel },
    ...{ workspaceEnabled, shellEnabled, readOnly, localStorageEnabled },
    ...(form.allTools ? {} : { toolNames: { names: [...form.tools] } }),
    approvals: Object.fromEntries(
      Object.entries(form.approvals).filter(([, approval]) => approval !== ToolApproval.UNSPECIFIED),
    ),
    subagentConfig: {
      enabled: form.enabled,
      maxConcurrent: form.maxConcurrent,
      ...(form.allPresets ? {} : { allowedPresetAgentIds: { names: [...form.presets] } }),
      ...(form.allChildTools ? {} : { allowedToolNames: { names: [...form.childTools] } }),
      ...(form.timeoutSeconds ? { timeoutSeconds: form.timeoutSeconds } : {}),
      ...(form.maxToolRounds ? { maxToolRounds: form.maxToolRounds } : {}),
    },
  };
}

/** The fields that a save writes, as an update mask names them. */
export const PATHS = [
  ...["name", "description", "system_prompt", "model", "thinking_level"],
  ...["workspace_enabled", "shell_enabled", "read_only", "local_storage_enabled"],
  ...["tool_names", "approvals", "subagent_config"],
];

/** Whether a person's word can be asked for before a tool runs. */
export function canAsk(item: ToolProfileItem): boolean {
  const effect = item.manifest?.effect ?? ToolEffect.UNSPECIFIED;
  return effect === ToolEffect.EFFECTFUL || effect === ToolEffect.UNSPECIFIED;
}
