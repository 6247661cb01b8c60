/** Of calls that wait for a server to come back, however long a busy machine takes to start it. */
export const patient = { deadlineMs: 300_000 };
