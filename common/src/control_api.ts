import { isUnknownCall } from './call_error.ts';
import { HearthError } from './error.ts';

/** One side's version of the control API (proto/hearth/v1/control.proto states how releases live together). */
export interface ApiOffer {
  /** Grows when the meaning of something changes. 0: of a release before there were versions. */
  apiVersion: number;
  /** Names of what has been added; never used again for something else. */
  apiFeatures: readonly string[];
}

/** Sentences on the loss where an agent lacks a feature. */
export const controlFeatures: Readonly<Record<string, string>> = {
  'rebound-times': 'a pod whose mounts died again is reported once only',
  'node-api': 'what the API of its other agents lacks is not known',
  'memory-ready': 'what is in memory is not reported, and is ready when it is stored',
  advice: 'hearth advise leaves it out',
  mirrors: 'Datasets with mirrors wait until it is upgraded',
  'client-tokens': 'pods with a volume of clientAccess wait until it is upgraded',
  'hub-layout': 'Datasets with the layout of a hub cache wait until it is upgraded',
};

/** Of this release: what its agents offer and its clients use. */
export const controlApi: ApiOffer = { apiVersion: 1, apiFeatures: Object.keys(controlFeatures) };

/** True when both sides are of neighbouring versions, which understand each other. */
export function understandsApi(agent: ApiOffer, own: ApiOffer = controlApi): boolean {
  return Math.abs(agent.apiVersion - own.apiVersion) <= 1;
}

/**
 * How an agent's API differs from that of a client, what is off, and what to upgrade, in a sentence; undefined when the
 * agent has all that the client uses. `who`: "the agent on n1"; `client`: "this command".
 */
export function apiDifference(agent: ApiOffer, who: string, client: string, own = controlApi): string | undefined {
  if (agent.apiVersion === own.apiVersion) {
    const lacking = own.apiFeatures.filter((name) => !agent.apiFeatures.includes(name));
    if (lacking.length === 0) return undefined;
    const off = lacking.map((name) => `${name}: ${controlFeatures[name] ?? 'off'}`).join('; ');
    return `${who} lacks features of the control API (${off}); upgrade the agent`;
  }
  const both = `${who} speaks version ${agent.apiVersion} of the control API, ${client} version ${own.apiVersion}`;
  const older = agent.apiVersion < own.apiVersion;
  const upgrade = older ? 'upgrade the agent' : `upgrade ${client}`;
  if (!understandsApi(agent, own)) return `${both}, and only neighbouring versions understand each other; ${upgrade}`;
  return `${both}: what is newer than version ${Math.min(agent.apiVersion, own.apiVersion)} is off; ${upgrade}`;
}

/** As a GetStatusResponse has it. */
export interface ApiStatus extends ApiOffer {
  /** The agent that answered. */
  node: string;
  nodes: readonly (ApiOffer & { node: string; version: string })[];
}

/**
 * The differences of all agents in a status, by the names of their nodes, so that they are the same whoever has answered.
 * Of other agents a release before there was the feature `node-api` reports nothing.
 */
export function apiDifferences(status: ApiStatus, client: string, own = controlApi): string[] {
  const others = status.nodes.filter(({ node, apiVersion }) => node !== status.node && apiVersion !== 0);
  const all = [status, ...others].sort((a, b) => (a.node < b.node ? -1 : 1));
  return all.flatMap((agent) => {
    return apiDifference(agent, whoIs(status, agent.node), client, own) ?? [];
  });
}

/**
 * The error of a failed call. Where the agent does not know the call, the error also says how the agent's API differs,
 * as `status` finds out from it. Other errors, and errors of agents that give no status, stay as they are.
 */
export async function explainUnknownCall(
  error: unknown,
  status: () => Promise<ApiStatus>,
  client: string,
): Promise<unknown> {
  if (!(error instanceof HearthError) || !isUnknownCall(error)) return error;
  const answer = await status().catch(() => undefined);
  if (answer === undefined) return error;
  const who = whoIs(answer, answer.node);
  const why = apiDifference(answer, who, client) ?? `${who} says that its API is that of ${client}`;
  return new HearthError(error.code, `${error.message}: ${why}`, { cause: error });
}

function whoIs({ nodes }: ApiStatus, node: string): string {
  const release = nodes.find((one) => one.node === node)?.version ?? '';
  return release === '' ? `the agent on ${node}` : `the agent on ${node} (release ${release})`;
}
