import type { HearthError } from '@hearth/common';
import type { Dataset as AgentDataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CredentialsChoice, SecretReading } from '../secrets/index.ts';
import type { ClusterChoice } from './cluster.ts';
import type { UnusableSecret } from './named_secrets.ts';
import type { Attempt } from './resolutions.ts';
import type { SourceVolume } from './source_volume.ts';

export interface AgentsView {
  /** False while no agent answers; the rest is the last report. */
  connected: boolean;
  dataset: AgentDataset | undefined;
  withoutMirrors?: readonly string[];
  withoutHubLayout?: readonly string[];
  withoutVolumes?: readonly string[];
  /** True when every agent would drop credentials of mirrors. */
  noneTakesMirrors?: boolean;
}

export type SecretView = Exclude<SecretReading, { kind: 'found' }> | CredentialsChoice;

/** Everything that one pass reads. Times are milliseconds since the epoch. */
export interface ObservedDataset {
  now: number;
  choice: ClusterChoice;
  /** Undefined for a source that is no volume. */
  volume?: SourceVolume | undefined;
  /** Undefined without named Secrets; else the source's Secret, or all credentials together. */
  secret: SecretView | undefined;
  /** The Secret that `unavailable` is about; absent for the source's. */
  unavailableSecret?: string;
  unusableSecrets?: readonly UnusableSecret[];
  secretStaleInMs: number;
  grantCommand: string;
  /** Undefined before the first answer. */
  agents: AgentsView | undefined;
  attempt: Attempt | undefined;
  /** The last credentials sent; `refusal` holds the agents' error. */
  sent: { digest: string; at: number; refusal?: HearthError } | undefined;
  /** How long changing figures stay as written, ms. */
  holdMs: number;
}
