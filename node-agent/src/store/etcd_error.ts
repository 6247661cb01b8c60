import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { type ErrorCode, HearthError } from '@hearth/common';

// etcd's messages are part of its interface; its own client distinguishes errors by them
// (api/v3/v3rpc/rpctypes/error.go of etcd).
const compactedMessage = 'etcdserver: mvcc: required revision has been compacted';
const futureMessage = 'etcdserver: mvcc: required revision is a future revision';
const leaseGoneMessage = 'etcdserver: requested lease not found';

/** Refused before the member proposed anything to the cluster: even a write may be sent again. */
const refusedMessages: ReadonlySet<string> = new Set(['etcdserver: no leader', 'etcdserver: too many requests']);
const tokenMessages: ReadonlySet<string> = new Set([
  'etcdserver: invalid auth token',
  'etcdserver: revision of auth store is old',
]);
const byMessage: ReadonlyMap<string, [ErrorCode, string]> = new Map([
  [leaseGoneMessage, ['NotFound', 'The lease has expired or was revoked; ask for a new one.']],
  [
    'etcdserver: authentication failed, invalid user ID or password',
    ['Unauthenticated', 'Check user and passwordFile of --store.'],
  ],
  [
    'etcdserver: user name is empty',
    ['Unauthenticated', 'This etcd wants a user: add user and passwordFile to --store.'],
  ],
  [
    'etcdserver: permission denied',
    ['PermissionDenied', "Grant the user's role all rights on the keys below the space of --store."],
  ],
  [
    'etcdserver: mvcc: database space exceeded',
    ['OutOfSpace', 'Compact and defragment etcd, then disarm its NOSPACE alarm.'],
  ],
  [futureMessage, ['InvalidArgument', 'Name a revision that was returned.']],
]);
const byStatus: ReadonlyMap<status, [ErrorCode, string]> = new Map([
  [status.UNAVAILABLE, ['Unavailable', 'Is etcd running, and does --store name it?']],
  [status.UNAUTHENTICATED, ['Unauthenticated', 'Check user and passwordFile of --store.']],
  [status.PERMISSION_DENIED, ['PermissionDenied', 'Check the rights of the user in --store.']],
  [status.RESOURCE_EXHAUSTED, ['Unavailable', 'etcd is overloaded; try again later.']],
  [status.DEADLINE_EXCEEDED, ['DeadlineExceeded', 'Is etcd overloaded?']],
  [status.CANCELLED, ['Unavailable', 'The member ended the call; try again.']],
  [status.UNIMPLEMENTED, ['Unsupported', 'Hearth needs etcd 3.4 or newer.']],
  [status.INVALID_ARGUMENT, ['InvalidArgument', 'etcd refused the request.']],
]);

export function isServiceError(thrown: unknown): thrown is ServiceError {
  return thrown instanceof Error && 'code' in thrown && 'details' in thrown && typeof thrown.details === 'string';
}

export const isCompacted = (thrown: unknown): boolean => isServiceError(thrown) && thrown.details === compactedMessage;
export const isLeaseGone = (thrown: unknown): boolean => isServiceError(thrown) && thrown.details === leaseGoneMessage;
/** The member no longer knows the token: request a new one. */
export const isTokenRefused = (thrown: unknown): boolean =>
  isServiceError(thrown) && (tokenMessages.has(thrown.details) || thrown.code === status.UNAUTHENTICATED);
export const isRefused = (thrown: unknown): boolean => isServiceError(thrown) && refusedMessages.has(thrown.details);

/**
 * The error that etcd would have returned to a call, from the reason of a cancelled watch: Go prints it as `rpc error:
 * code = NAME desc = MESSAGE`. Other reasons are transient.
 */
export function watchError(reason: string): ServiceError {
  const [, name = 'Unavailable', details = reason || 'the watch was ended'] =
    /^rpc error: code = (\w+) desc = (.*)$/s.exec(reason) ?? [];
  const code = goStatuses.get(name) ?? status.UNAVAILABLE;
  return Object.assign(new Error(details), { code, details, metadata: new Metadata() });
}

const goStatuses: ReadonlyMap<string, status> = new Map([
  ['Unauthenticated', status.UNAUTHENTICATED],
  ['PermissionDenied', status.PERMISSION_DENIED],
  ['InvalidArgument', status.INVALID_ARGUMENT],
]);

/** True when another member may succeed, if the request is repeatable. */
export function isTransient(thrown: unknown): boolean {
  if (!isServiceError(thrown)) return false;
  const { code, details } = thrown;
  if (byMessage.has(details)) return false;
  return (
    code === status.UNAVAILABLE ||
    code === status.CANCELLED ||
    code === status.RESOURCE_EXHAUSTED ||
    // Raft found no majority in time, or the member is stopping.
    (code === status.UNKNOWN && details.startsWith('etcdserver:')) ||
    // HTTP/2 streams reset by a member that goes away.
    code === status.INTERNAL
  );
}

/** Converts an error of etcd to a HearthError. */
export function etcdError(what: string, thrown: unknown): HearthError {
  if (thrown instanceof HearthError) return thrown;
  if (!isServiceError(thrown)) return HearthError.from(thrown).within(what);
  const [code, advice] = byMessage.get(thrown.details) ??
    byStatus.get(thrown.code) ?? ['ProtocolError', "Look at etcd's log."];
  return new HearthError(code, `${what}: ${thrown.details}. ${advice}`, { cause: thrown });
}
