import type { Dataset } from '@hearth/common/resources';
import { type Assessed, assess } from './assessment.ts';
import { namedSecrets } from './named_secrets.ts';
import type { ObservedDataset } from './observation.ts';
import { credentialsDigest, noCredentials, type Registration, withoutMirrors } from './registration.ts';

export type DatasetAction =
  /** Has the origin listed, beside the reconciler. */
  | { kind: 'look'; registration: Registration }
  /** Gives agents the credentials of a dataset that they know. */
  | { kind: 'sendCredentials'; registration: Registration }
  /** Something that people should see though Ready stays what it is. */
  | { kind: 'event'; type: 'Normal' | 'Warning'; reason: string; message: string }
  /** Gives up what is under way: the Dataset is refused now. */
  | { kind: 'giveUp' };

/** Agents that were all restarted at once have forgotten credentials: they are given again after this time. */
export const resendMs = 300_000;
/** Agents that did not take them get them again after this. */
const refusedMs = 10_000;

/** Pure. */
export function plan(dataset: Dataset, observed: ObservedDataset): DatasetAction[] {
  const assessment = assess(dataset, observed);
  switch (assessment.state) {
    case 'refused':
      return observed.attempt?.running === undefined ? [] : [{ kind: 'giveUp' }];
    case 'away':
      return [];
    case 'assessed': {
      const { registration, present, lookAt } = assessment;
      const actions = eventsOf(dataset, assessment);
      if (present !== undefined && credentialsDue(observed, registration)) {
        actions.push({ kind: 'sendCredentials', registration });
      }
      if (lookAt !== undefined && lookAt <= observed.now) actions.push({ kind: 'look', registration });
      return actions;
    }
  }
}

/** Empty credentials go only to agents that had some from this operator. */
function credentialsDue(observed: ObservedDataset, { credentials }: Registration): boolean {
  if (isWithheld(observed)) return false;
  const { sent, now } = observed;
  const digest = credentialsDigest(credentials);
  if (digest === credentialsDigest(noCredentials)) return sent !== undefined && sent.digest !== digest;
  return sent === undefined || sent.digest !== digest || now >= resendAt(sent);
}

/** Just mirrors have credentials, and no agent takes these: that there are none is not sent in their place. */
function isWithheld({ agents, secret }: ObservedDataset): boolean {
  if (agents?.noneTakesMirrors !== true || secret?.kind !== 'found' || secret.credentials.mirrors === undefined)
    return false;
  return credentialsDigest(withoutMirrors(secret.credentials)) === credentialsDigest(noCredentials);
}

function resendAt(sent: NonNullable<ObservedDataset['sent']>): number {
  return sent.at + (sent.refusal === undefined ? resendMs : refusedMs);
}

/** Events beyond changes of Ready: another revision, and an origin that could not be asked for one. */
function eventsOf({ status, spec }: Dataset, { present, registered, failure }: Assessed): DatasetAction[] {
  if (!registered || present === undefined) return [];
  const actions: DatasetAction[] = [];
  const { revision, manifest, files, bytes } = present;
  if (status?.manifest !== undefined && manifest !== '' && manifest !== status.manifest) {
    const name = revision === '' ? manifest.slice(0, 12) : revision;
    const message = `revision ${name} with ${files} files, ${bytes} bytes; pods that run keep the one they began with`;
    actions.push({ kind: 'event', type: 'Normal', reason: 'NewRevision', message });
  }
  const refreshed = status?.conditions?.find((one) => one.type === 'Refreshed');
  if (spec.refresh !== undefined && failure !== undefined && refreshed?.status === 'True') {
    actions.push({ kind: 'event', type: 'Warning', reason: 'RefreshFailed', message: failure.message });
  }
  return actions;
}

/** Pure. When the passing of time alone changes what is to be done, milliseconds from now; undefined: never. */
export function requeueAfterMs(dataset: Dataset, observed: ObservedDataset): number | undefined {
  const { now, sent } = observed;
  const assessment = assess(dataset, observed);
  const times: number[] = [];
  if (namedSecrets(dataset.spec).length > 0 && assessment.cluster !== undefined) {
    times.push(now + observed.secretStaleInMs);
    if (sent !== undefined && !isWithheld(observed)) times.push(resendAt(sent));
  }
  if (observed.holdMs > 0) times.push(now + observed.holdMs);
  if (assessment.state === 'assessed') {
    const { lookAt, settlesAt } = assessment;
    // A look that is due now was begun in this pass, and calls when it ends.
    if (lookAt !== undefined && lookAt > now) times.push(lookAt);
    if (settlesAt !== undefined) times.push(settlesAt);
  }
  // Timers of the runtime are not exact: a second more saves a pass that comes too early.
  return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - now) + 1_000;
}
