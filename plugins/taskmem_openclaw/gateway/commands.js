// Pass a person's chat commands to the daemon, which carries them out.
const COMMAND_MS = 10_000; // a person would rather wait than not know whether it was done
const PACKET_MS = 60_000; // how long a packet waits for the turn that its command begins
const COMMANDS = {
  tasks: "List this chat's tasks.",
  resume: "Resume a task, with your answer if it asks: /resume [TASK] [ANSWER].",
  cancel: "Cancel a task: /cancel [TASK].",
};

/** Register the commands; `getInstance` returns the started instance; undefined: there is none. */
export function registerCommands(api, getInstance) {
  for (const [name, description] of Object.entries(COMMANDS))
    api.registerCommand({
      name,
      description,
      acceptsArgs: true,
      handler: (ctx) => runCommand(api, getInstance(), name, ctx),
    });
}

/** Run a command and return its reply; if it resumes a task, put the task's packet before the next
 * turn, and have the agent continue instead. */
async function runCommand(api, here, command, { sessionKey, agentId, args }) {
  if (!here) return { text: "The plug-in is just starting; try again." };
  try {
    const asked = {
      command,
      words: args ?? "",
      session_key: sessionKey,
      agent_id: agentId,
      at_work: here.reports.listRunning(sessionKey),
      begins: true,
    };
    const { text, task_id, packet } = await here.daemon.call("command", asked, COMMAND_MS);
    if (!packet) return { text };
    const injection = {
      sessionKey,
      text: packet,
      idempotencyKey: `resume:${task_id}`,
      placement: "prepend_context",
      ttlMs: PACKET_MS,
    };
    const { enqueued } = await api.session.workflow.enqueueNextTurnInjection(injection);
    if (enqueued) here.packetGiven.set(sessionKey, true);
    return { continueAgent: true };
  } catch (error) {
    return { text: error.message };
  }
}
