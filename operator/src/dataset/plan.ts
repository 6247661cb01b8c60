import type { Dataset } from '@hearth/common/resources';
import { type Assessed, assess } from './assessment.ts';
import { originAwayOn } from './figures.ts';
import { namedSecrets } from './named_secrets.ts';
import type { ObservedDataset } from './observation.ts';
import { credentialsDigest, noCredentials, type Registration, withoutMirrors } from './registration.ts';

export type DatasetAction =
  /** Has agents list the origin in the background. */
  | { kind: 'list'; registration: Registration }
  | { kind: 'sendCredentials'; registration: Registration }
  | { kind: 'event'; type: 'Normal' | 'Warning'; reason: string; message: string }
  | { kind: 'abort' };

/** Agents forget credentials when all restart, so the operator sends them again after this time, ms. */
export const resendMs = 300_000;
const refusedMs = 10_000;

export function plan(dataset: Dataset, observed: ObservedDataset): DatasetAction[] {
  const assessment = assess(dataset, observed);
  switch (assessment.state) {
    case 'refused':
      return observed.attempt?.running === undefined ? [] : [{ kind: 'abort' }];
    case 'away':
      return [];
    case 'assessed': {
      const { registration, present, listAt } = assessment;
      const actions = eventsOf(dataset, assessment);
      if (present !== undefined && credentialsDue(observed, registration)) {
        actions.push({ kind: 'sendCredentials', registration });
      }
      if (listAt !== undefined && listAt <= observed.now) actions.push({ kind: 'list', registration });
      return actions;
    }
  }
}

/** Sends empty credentials only to replace others. */
function credentialsDue(observed: ObservedDataset, { credentials }: Registration): boolean {
  if (isWithheld(observed)) return false;
  const { sent, now } = observed;
  const digest = credentialsDigest(credentials);
  if (digest === credentialsDigest(noCredentials)) return sent !== undefined && sent.digest !== digest;
  return sent === undefined || sent.digest !== digest || now >= resendAt(sent);
}

/** True when only mirrors have credentials and no agent supports mirrors; sending empty ones instead would be wrong. */
function isWithheld({ agents, secret }: ObservedDataset): boolean {
  if (agents?.noneTakesMirrors !== true || secret?.kind !== 'found' || secret.credentials.mirrors === undefined)
    return false;
  return credentialsDigest(withoutMirrors(secret.credentials)) === credentialsDigest(noCredentials);
}

function resendAt(sent: NonNullable<ObservedDataset['sent']>): number {
  return sent.at + (sent.refusal === undefined ? resendMs : refusedMs);
}

/** Events beside those of Ready: a new revision, a failed refresh, and an origin that reads wait for. */
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
  const answered = status?.conditions?.find((one) => one.type === 'OriginAnswers')?.status !== 'False';
  const away = (spec.mirrors ?? []).length === 0 ? originAwayOn(present) : undefined;
  if (answered && away !== undefined) {
    actions.push({ kind: 'event', type: 'Warning', reason: 'OriginAway', message: away });
  }
  if (!answered && away === undefined) {
    actions.push({ kind: 'event', type: 'Normal', reason: 'OriginAnswers', message: 'no read waits for the origin' });
  }
  return actions;
}

/** Pure. Milliseconds until time alone changes the plan; undefined for never. */
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
    const { listAt, settlesAt } = assessment;
    // This pass starts a due listing, whose end starts another.
    if (listAt !== undefined && listAt > now) times.push(listAt);
    if (settlesAt !== undefined) times.push(settlesAt);
  }
  // Timers may fire early; a second more saves a useless pass.
  return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - now) + 1_000;
}
