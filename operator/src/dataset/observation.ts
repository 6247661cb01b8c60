import type { HearthError } from '@hearth/common';
import type { Dataset as AgentDataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CredentialsChoice, SecretReading } from '../secrets/index.ts';
import type { ClusterChoice } from './cluster.ts';
import type { UnusableSecret } from './named_secrets.ts';
import type { Attempt } from './resolutions.ts';

/** The agents' reports on a Dataset. */
export interface AgentsView {
  /** False: no agent answers now, and the rest is what was known before. */
  connected: boolean;
  dataset: AgentDataset | undefined;
  /** Nodes whose agents are of a release that knows no mirrors. */
  withoutMirrors?: readonly string[];
  /** Nodes whose agents are of a release that lists a hub as files, whatever its layout. */
  withoutHubLayout?: readonly string[];
  /** No agent knows mirrors: credentials of mirrors would be lost with whichever of them takes them. */
  noneTakesMirrors?: boolean;
}

/** A Secret as far as it matters here: found ones as the credentials in them. */
export type SecretView = Exclude<SecretReading, { kind: 'found' }> | CredentialsChoice;

/** Everything that a pass over a Dataset needs to know, read once. */
export interface ObservedDataset {
  /** Milliseconds since the epoch. */
  now: number;
  choice: ClusterChoice;
  /** Undefined: the Dataset names no Secret. Else the source's, or what all of them hold together. */
  secret: SecretView | undefined;
  /** Whose Secret `unavailable` is about; absent: the source's. */
  unavailableSecret?: string;
  /** Secrets of mirrors that cannot be used. */
  unusableSecrets?: readonly UnusableSecret[];
  /** Milliseconds until the Secret is read again. */
  secretStaleInMs: number;
  /** By which an administrator allows the Secret to be read. */
  grantCommand: string;
  /** Undefined: no agent of the cluster has answered yet. */
  agents: AgentsView | undefined;
  attempt: Attempt | undefined;
  /** Credentials that the agents were given last by this operator; `refusal`: why they did not take them. */
  sent: { digest: string; at: number; refusal?: HearthError } | undefined;
  /** Milliseconds for which figures that change all the time stay as they were written last. */
  holdMs: number;
}
