"use strict";

// Is loaded into OpenClaw's command. The text of a wake comes from the environment, which only this
// user can read, in place of the brief one in the arguments, which every user can. If the command
// starts itself once more, with its own arguments, these are the brief ones again.
const processes = require("node:child_process");
const { syncBuiltinESMExports } = require("node:module");

const { argv, env } = process;
const at = argv.indexOf("--text") + 1;
const text = env.TASKMEM_WAKE_TEXT;
if (text && at > 0 && argv[2] === "system" && argv[3] === "event") {
  const brief = argv[at];
  const { spawn } = processes;
  processes.spawn = (command, args, ...rest) =>
    spawn(command, Array.isArray(args) ? args.map((a) => (a === text ? brief : a)) : args, ...rest);
  syncBuiltinESMExports();
  argv[at] = text;
}
