import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { AgentSchema } from "@netaclaw/client/gen/netaclaw/agent/v1/agent_pb";
import { ToolApproval } from "@netaclaw/client/gen/netaclaw/tool/v1/tool_pb";
import { describe, expect, it } from "vitest";

import { formOf, writtenOf } from "../src/model/agent-form";

const saved = (form: ReturnType<typeof formOf>) => {
  const agent = create(AgentSchema, writtenOf(form));
  return fromBinary(AgentSchema, toBinary(AgentSchema, agent));
};

describe("an agent's form", () => {
  it("leaves open what an agent leaves open", () => {
    const agent = saved(formOf(undefined));
    expect(agent.toolNames).toBeUndefined();
    expect(agent.subagentConfig?.allowedToolNames).toBeUndefined();
    expect(agent.subagentConfig?.timeoutSeconds).toBeUndefined();
    expect(agent.approvals).toEqual({});
  });

  it("tells no tools from all tools", () => {
    const agent = saved({ ...formOf(undefined), allTools: false, allChildTools: false });
    expect(agent.toolNames?.names).toEqual([]);
    expect(agent.subagentConfig?.allowedToolNames?.names).toEqual([]);
  });

  it("comes back as it was written", () => {
    const form = {
      ...formOf(undefined),
      name: "Reader",
      allTools: false,
      tools: ["read_file"],
      approvals: { run_shell: ToolApproval.ASK, write_file: ToolApproval.DENY },
      allChildTools: false,
      childTools: ["read_file"],
      allPresets: false,
      presets: ["one"],
      timeoutSeconds: 30,
      maxToolRounds: 4,
      thinkingLevel: 2,
    };
    expect(formOf(saved(form))).toEqual(form);
  });

  it("forgets an approval that is the tool's default", () => {
    const form = { ...formOf(undefined), approvals: { run_shell: ToolApproval.UNSPECIFIED } };
    expect(saved(form).approvals).toEqual({});
  });
});
