import { type ErrorCode, fromCallError, HearthError } from '@hearth/common';
import type { AgentEndpoint } from './agent_connection.ts';

/** The agent's own error when it sent one, else what happened to the call. */
export function callError(thrown: unknown, endpoint: AgentEndpoint, signal: AbortSignal): HearthError {
  if (thrown instanceof HearthError) return thrown;
  if (signal.aborted)
    return new HearthError('Cancelled', `a call to the agent on ${endpoint.node} was given up`, { cause: thrown });
  return fromCallError(thrown, (code, details) => explain(code, details, endpoint));
}

/** True when another agent may answer a call that this one did not. */
export function isWorthAnotherAgent(error: HearthError): boolean {
  return isAway(error) || error.code === 'TryElsewhere';
}

function explain(code: ErrorCode, details: string, { node, address }: AgentEndpoint): string {
  switch (code) {
    case 'DeadlineExceeded':
      return `the agent on ${node} did not answer at ${address} in time; look at the log of its pod`;
    case 'Unavailable':
      return `the agent on ${node} cannot be reached at ${address} (${details}); look at its pod and its log`;
    case 'Unsupported':
      return `the agent on ${node} does not know this call (${details}); it may be older than the operator: update its image`;
    default:
      return `the agent on ${node} answered: ${details}`;
  }
}

/** True when no agent can be asked now, rather than something being wrong with the question. */
export function isAway(thrown: unknown): boolean {
  const { code } = HearthError.from(thrown);
  return code === 'Unavailable' || code === 'DeadlineExceeded';
}
