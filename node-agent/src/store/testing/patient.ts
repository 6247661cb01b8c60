/** Options of calls that wait for a server to come back on a busy machine. */
export const patient = { deadlineMs: 300_000 };
