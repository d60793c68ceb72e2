// Decide whether a turn of ours may begin in a session. Times are in milliseconds, on one clock.

export const START_MS = 60_000; // after which another turn is started if one did not begin
const ARRIVAL_MS = 30_000; // within which the turn of a message begins, on a busy machine
const COMMAND_MS = 2_000; // the same if the message may be a command, which begins none
export const QUEUED_MS = 3_000; // the same from the end of a turn during which the message came
const LONGEST_YIELD_MS = 120_000; // for messages of which none begins a turn
const LOOK_MS = 100; // after which it is asked again while a turn may begin at any moment

/** Return until when the turn of a message may begin that has come now. */
export const findArrivalEnd = (now, text) => now + (/^\s*\//.test(text) ? COMMAND_MS : ARRIVAL_MS);

/** Return until when our turns yield to the messages that have come without a turn.
 *
 * `arrival.since`: when the first of them came; `arrival.end`: until when the turn of the last one
 * may begin. undefined: none has come. */
export const findYieldEnd = (arrival) =>
  arrival && Math.min(arrival.end, arrival.since + LONGEST_YIELD_MS);

/** Return 0 if a turn may begin now for what waits before the session's next one, else in how many
 * milliseconds to ask again. undefined: at the end of the turn that runs.
 *
 * `runs`: a turn runs; `busy`: the gateway runs or prepares one; `askedAt`: when we asked for one
 * that has not begun; `arrivalEnd`: until when the turn of a message may begin. */
export function decideStart({ now, runs, busy, askedAt, arrivalEnd }) {
  if (runs) return undefined;
  if (askedAt !== undefined && now - askedAt < START_MS) return askedAt + START_MS - now;
  if (busy) return LOOK_MS;
  return arrivalEnd > now ? Math.min(arrivalEnd - now, LOOK_MS) : 0;
}
