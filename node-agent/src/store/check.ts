import { HearthError } from '@hearth/common';
import { encodeText } from './keys.ts';
import { type LeaseId, type Operation, storeLimits, type Transaction } from './store.ts';

function refuse(sentence: string): never {
  throw new HearthError('InvalidArgument', sentence);
}

/** Length in UTF-8; refuses text with unpaired surrogates, which would not round-trip. */
function bytesOf(what: string, text: string): number {
  if (!text.isWellFormed()) refuse(`${what} holds an unpaired surrogate, which UTF-8 cannot express. Remove it.`);
  return encodeText(text).length;
}

/** All stores make these checks before sending anything, so all refuse the same calls. */
export function checkKey(key: string): number {
  if (key === '') refuse('A key of the store may not be empty. Name one.');
  const bytes = bytesOf('A key of the store', key);
  if (bytes > storeLimits.keyBytes) {
    refuse(`A key of the store has ${bytes} bytes, but at most ${storeLimits.keyBytes} are allowed. Shorten it.`);
  }
  return bytes;
}

export function checkPrefix(prefix: string): number {
  return prefix === '' ? 0 : checkKey(prefix);
}

export function checkLease(lease: LeaseId): void {
  if (!/^[1-9][0-9]{0,18}$/.test(lease)) refuse(`'${lease}' is not the name of a lease. Use what grantLease returned.`);
}

export function checkTtl(ttlSeconds: number): void {
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > storeLimits.leaseSeconds) {
    refuse(`A lease cannot last ${ttlSeconds} seconds; ask for 1 to ${storeLimits.leaseSeconds} whole seconds.`);
  }
}

export function checkRevision(revision: number): void {
  if (!Number.isSafeInteger(revision) || revision < 1) {
    refuse(`${revision} is not a revision of the store. Revisions are whole numbers from 1.`);
  }
}

function checkBranch(operations: readonly Operation[]): number {
  let bytes = 0;
  const puts = new Set<string>();
  const deletes = new Set<string>();
  const prefixes: string[] = [];
  for (const operation of operations) {
    if (operation.kind === 'deletePrefix') {
      bytes += checkPrefix(operation.prefix);
      prefixes.push(operation.prefix);
      continue;
    }
    bytes += checkKey(operation.key);
    if (puts.has(operation.key) || deletes.has(operation.key)) {
      refuse(`A transaction touches the key '${operation.key}' twice. Leave one of the operations out.`);
    }
    (operation.kind === 'put' ? puts : deletes).add(operation.key);
    if (operation.kind === 'put') {
      bytes += bytesOf(`The value of '${operation.key}'`, operation.value);
      if (operation.lease !== undefined) checkLease(operation.lease);
    }
  }
  for (const prefix of prefixes) {
    for (const key of puts) {
      if (key.startsWith(prefix)) {
        refuse(`A transaction puts the key '${key}' and deletes the prefix '${prefix}'. Make it two transactions.`);
      }
    }
  }
  return bytes;
}

export function checkTransaction({ compare, success, failure = [] }: Transaction): void {
  const most = storeLimits.transactionOperations;
  if (compare.length > most || success.length > most || failure.length > most) {
    refuse(`A transaction has more than ${most} compares or operations. Divide it.`);
  }
  let bytes = checkBranch(success) + checkBranch(failure);
  for (const condition of compare) {
    bytes += checkKey(condition.key);
    if ('value' in condition) bytes += bytesOf(`The value compared with '${condition.key}'`, condition.value);
  }
  if (bytes > storeLimits.transactionBytes) {
    refuse(
      `A transaction has ${bytes} bytes of keys and values, but at most ${storeLimits.transactionBytes} are allowed. Divide it.`,
    );
  }
}
