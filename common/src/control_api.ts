import { isUnknownCall } from './call_error.ts';
import { HearthError } from './error.ts';

/** Version of the control API on one side. proto/hearth/v1/control.proto defines compatibility between releases. */
export interface ApiOffer {
  /** Increases when the meaning of a message changes. 0: a release older than versioning. */
  apiVersion: number;
  /** Names of additions. A name is never reused. */
  apiFeatures: readonly string[];
}

/** Features by name, each with a sentence on the loss without the feature. */
export const controlFeatures: Readonly<Record<string, string>> = {
  'rebound-times': 'the agent reports a pod only once even if its mounts die again',
  'node-api': 'differences of the API of other agents stay unknown',
  'memory-ready': 'the agent does not report bytes in memory, and bytes are ready only when stored',
  advice: 'hearth advise skips the agent',
  mirrors: 'Datasets with mirrors wait until the agent is upgraded',
  'client-tokens': 'pods with a volume of clientAccess wait until the agent is upgraded',
  'node-reports': 'all agents write their figures to the store until the agent is upgraded',
  'hub-layout': 'Datasets with the layout of a hub cache wait until the agent is upgraded',
  'writable-volumes': 'the agent has no writable volumes',
  'volume-resize': 'writable volumes keep the limits that they were created with until the agent is upgraded',
  'token-revocation': 'revoked tokens are valid at the agent until they expire',
  'volume-datasets': 'Datasets of volumes wait until the agent is upgraded',
};

/** The API of this release: offered by its agents, used by its clients. */
export const controlApi: ApiOffer = { apiVersion: 1, apiFeatures: Object.keys(controlFeatures) };

/** True when the versions of both sides are equal or adjacent. */
export function understandsApi(agent: ApiOffer, own: ApiOffer = controlApi): boolean {
  return Math.abs(agent.apiVersion - own.apiVersion) <= 1;
}

/**
 * Describes how an agent's API differs from the client's, the features that are off and the side to upgrade. Undefined
 * when the agent has everything that the client uses. `agentName`: "the agent on n1"; `client`: "this command".
 */
export function apiDifference(
  agent: ApiOffer,
  agentName: string,
  client: string,
  own = controlApi,
): string | undefined {
  if (agent.apiVersion === own.apiVersion) {
    const lacking = own.apiFeatures.filter((name) => !agent.apiFeatures.includes(name));
    if (lacking.length === 0) return undefined;
    const off = lacking.map((name) => `${name}: ${controlFeatures[name] ?? 'off'}`).join('; ');
    return `${agentName} lacks features of the control API (${off}); upgrade the agent`;
  }
  const both = `${agentName} speaks version ${agent.apiVersion} of the control API, ${client} version ${own.apiVersion}`;
  const older = agent.apiVersion < own.apiVersion;
  const upgrade = older ? 'upgrade the agent' : `upgrade ${client}`;
  if (!understandsApi(agent, own)) return `${both}, and only neighbouring versions understand each other; ${upgrade}`;
  return `${both}: everything newer than version ${Math.min(agent.apiVersion, own.apiVersion)} is off; ${upgrade}`;
}

/** The API fields of a GetStatusResponse. */
export interface ApiStatus extends ApiOffer {
  /** Node of the agent that answered. */
  node: string;
  nodes: readonly (ApiOffer & { node: string; version: string })[];
}

/**
 * The API differences of all agents in a status, by node name; the result does not depend on the agent that answered.
 * Agents without the feature `node-api` report nothing about other agents.
 */
export function apiDifferences(status: ApiStatus, client: string, own = controlApi): string[] {
  const others = status.nodes.filter(({ node, apiVersion }) => node !== status.node && apiVersion !== 0);
  const all = [status, ...others].sort((a, b) => (a.node < b.node ? -1 : 1));
  return all.flatMap((agent) => {
    return apiDifference(agent, nameOf(status, agent.node), client, own) ?? [];
  });
}

/**
 * Returns the error of a failed call. If the agent does not implement the call, the error also describes the API
 * difference, which `status` asks for. Other errors, and errors of agents that give no status, are returned unchanged.
 */
export async function explainUnknownCall(
  error: unknown,
  status: () => Promise<ApiStatus>,
  client: string,
): Promise<unknown> {
  if (!(error instanceof HearthError) || !isUnknownCall(error)) return error;
  const answer = await status().catch(() => undefined);
  if (answer === undefined) return error;
  const agentName = nameOf(answer, answer.node);
  const why = apiDifference(answer, agentName, client) ?? `${agentName} reports the same API as ${client}`;
  return new HearthError(error.code, `${error.message}: ${why}`, { cause: error });
}

function nameOf({ nodes }: ApiStatus, node: string): string {
  const release = nodes.find((one) => one.node === node)?.version ?? '';
  return release === '' ? `the agent on ${node}` : `the agent on ${node} (release ${release})`;
}
