import type { EtcdKeys } from './etcd_keys.ts';
import { toRevision } from './etcd_keys.ts';
import {
  Compare_CompareResult as CompareResult,
  Compare_CompareTarget as CompareTarget,
  type Compare as EtcdCompare,
  type RequestOp,
  type TxnRequest,
  type TxnResponse,
} from './generated/etcd/rpc.ts';
import { encodeText } from './keys.ts';
import type { Compare, Operation, Transaction, TransactionResult } from './store.ts';

/** Converts a transaction to etcd's message. */
export function toTransaction({ compare, success, failure = [] }: Transaction, keys: EtcdKeys): TxnRequest {
  return {
    compare: compare.map((condition) => toCompare(condition, keys)),
    success: success.map((operation) => toOperation(operation, keys)),
    failure: failure.map((operation) => toOperation(operation, keys)),
  };
}

export function fromTransaction({ header, succeeded, responses }: TxnResponse): TransactionResult {
  return {
    succeeded,
    revision: toRevision(header?.revision),
    deleted: responses.map(({ response }) =>
      response?.$case === 'responseDeleteRange' ? Number(response.value.deleted) : 0,
    ),
  };
}

function toCompare(condition: Compare, keys: EtcdKeys): EtcdCompare {
  const key = keys.encode(condition.key);
  const result = CompareResult.EQUAL;
  if ('exists' in condition) {
    // The create revision is 0 exactly when the key is absent.
    const targetUnion = { $case: 'createRevision', value: 0n } as const;
    return {
      result: condition.exists ? CompareResult.NOT_EQUAL : result,
      target: CompareTarget.CREATE,
      key,
      targetUnion,
    };
  }
  if ('modRevision' in condition) {
    const targetUnion = { $case: 'modRevision', value: BigInt(condition.modRevision) } as const;
    return { result, target: CompareTarget.MOD, key, targetUnion };
  }
  if ('createRevision' in condition) {
    const targetUnion = { $case: 'createRevision', value: BigInt(condition.createRevision) } as const;
    return { result, target: CompareTarget.CREATE, key, targetUnion };
  }
  const targetUnion = { $case: 'value', value: encodeText(condition.value) } as const;
  return { result, target: CompareTarget.VALUE, key, targetUnion };
}

function toOperation(operation: Operation, keys: EtcdKeys): RequestOp {
  switch (operation.kind) {
    case 'put': {
      const { key, value, lease = '0' } = operation;
      const put = { key: keys.encode(key), value: encodeText(value), lease: BigInt(lease) };
      return { request: { $case: 'requestPut', value: put } };
    }
    case 'delete': {
      const value = { key: keys.encode(operation.key), rangeEnd: Buffer.alloc(0) };
      return { request: { $case: 'requestDeleteRange', value } };
    }
    case 'deletePrefix':
      return { request: { $case: 'requestDeleteRange', value: keys.range(operation.prefix) } };
  }
}
