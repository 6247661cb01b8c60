import { HearthError } from '@hearth/common';
import { type KeyValue as EtcdKeyValue, type Event, Event_EventType } from './generated/etcd/kv.ts';
import { decodeText, encodeText, prefixEnd } from './keys.ts';
import type { KeyValue, StoreEvent } from './store.ts';

/** The agent's part of an etcd: all keys below `/SPACE/data/`, and the identity key that detects a replaced etcd. */
export class EtcdKeys {
  readonly identity: Buffer;
  readonly #root: string;
  readonly #rootBytes: number;

  constructor(space: string) {
    this.#root = `/${space}/data/`;
    this.#rootBytes = encodeText(this.#root).length;
    this.identity = encodeText(`/${space}/identity`);
  }

  encode(key: string): Buffer {
    return encodeText(this.#root + key);
  }

  /** Byte range of all keys that begin with `prefix`; always bounded, because the space is not all of etcd. */
  range(prefix: string): { key: Buffer; rangeEnd: Buffer } {
    const key = this.encode(prefix);
    return { key, rangeEnd: prefixEnd(key) ?? Buffer.of(0) };
  }

  /** Undefined for a foreign key that is not UTF-8. */
  entry(kv: EtcdKeyValue): KeyValue | undefined {
    const key = this.#decode(kv.key);
    if (key === undefined) return undefined;
    return {
      key,
      value: kv.value.toString('utf8'),
      createRevision: toRevision(kv.createRevision),
      modRevision: toRevision(kv.modRevision),
      version: toRevision(kv.version),
      lease: kv.lease === 0n ? undefined : String(kv.lease),
    };
  }

  event({ type, kv }: Event): StoreEvent | undefined {
    if (kv === undefined)
      throw new HearthError('ProtocolError', "etcd sent an event without a key. Look at etcd's log.");
    if (type === Event_EventType.PUT) {
      const entry = this.entry(kv);
      return entry === undefined ? undefined : { kind: 'put', entry };
    }
    const key = this.#decode(kv.key);
    return key === undefined ? undefined : { kind: 'delete', key, revision: toRevision(kv.modRevision) };
  }

  #decode(key: Uint8Array): string | undefined {
    return decodeText(key.subarray(this.#rootBytes));
  }
}

export function toRevision(revision: bigint | undefined): number {
  if (revision === undefined || revision > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new HearthError('ProtocolError', `etcd sent the revision ${revision}. Is this a real etcd?`);
  }
  return Number(revision);
}
