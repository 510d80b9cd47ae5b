/**
 * 服务端说明工具路由的句子。它们以英文到达，供人和模型阅读；这里是其中文。
 *
 * Sentences of the suite about tools, which come in English; what is not here stays as it came.
 */
const SENTENCES: Readonly<Record<string, string>> = {
  "Runs on the main side.": "在主进程一侧运行。",
  "Only reads the workspace, so it runs in the subagent's own process.":
    "只读取工作区，因此在子智能体自己的进程中运行。",
  "Runs in the subagent's sandbox.": "在子智能体的沙箱中运行。",
  "Has effects, so the main side checks it and runs it.": "会产生影响，因此由主进程检查并运行。",
  "A person must agree to each call.": "每次调用都须经人同意。",
  "Only the agent of a conversation has it.": "只有对话中的主智能体拥有它。",
  "Delegation is switched off for this agent.": "此智能体已关闭委派。",
  "A subagent cannot delegate.": "子智能体不能委派。",
  "A subagent cannot ask the person: do what can be done without an answer.":
    "子智能体不能向人提问：请完成无需回答即可完成的部分。",
  "The todo list is the main agent's; a subagent keeps none.": "待办清单属于主智能体；子智能体没有清单。",
  "Not available in subagents.": "在子智能体中不可用。",
  "Not available: the parent does not have it either.": "不可用：父智能体也没有它。",
  "Not available: the agent does not use it.": "不可用：此智能体不使用它。",
  "Not available: the parent gives it to no subagent.": "不可用：父智能体不把它交给任何子智能体。",
  "Nothing may be written: the agent is read-only.": "不得写入：此智能体是只读的。",
  "There is no workspace to work on.": "没有可用的工作区。",
  "Commands may not be run.": "不得运行命令。",
  "Nothing may be written, and only a required sandbox keeps commands from it.":
    "不得写入，而只有强制沙箱才能阻止命令写入。",
  "Tools with data of their own may not be used.": "不得使用自带数据的工具。",
  "The agent is not allowed to use it.": "此智能体不被允许使用它。",
  "It needs a person's approval, which cannot be asked for here.": "它需要人的批准，而这里无法请求批准。",
  "It needs a person's approval, and runs nowhere under the subagent's own restrictions then.":
    "它需要人的批准，因此无法在子智能体自身的限制下运行。",
};
const ASKS = " A person must agree to each call.";
const ELSEWHERE = "not in subagents: ";
const CHANGE = /^change (\S+)$/;
const ANSWER = /^answer "always" in a session, or change (\S+)$/;

/** A sentence of the suite's in the language of the page. */
export function sentence(text: string, language: string): string {
  if (language !== "zh-CN") return text;
  if (text.startsWith(ELSEWHERE)) return `子智能体没有：${sentence(text.slice(ELSEWHERE.length), language)}`;
  if (text.endsWith(ASKS) && text.length > ASKS.length)
    return sentence(text.slice(0, -ASKS.length), language) + SENTENCES[ASKS.trim()];
  return SENTENCES[text] ?? text.replace(ANSWER, "在会话中选择“始终允许”，或修改 $1").replace(CHANGE, "修改 $1");
}
