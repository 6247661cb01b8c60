import { HearthError } from '@hearth/common';
import { z } from 'zod';
import type { CallOptions, KeyValue, LeaseId, Operation, Store } from '../store/index.ts';
import { checkFormat, recordFormat, unknownFields } from './format.ts';

/** A record with its store metadata. */
export interface Row<T> {
  /** The key without the table's prefix. */
  id: string;
  value: T;
  createRevision: number;
  modRevision: number;
  lease: LeaseId | undefined;
}

/** Maximum number of attempts to update a record under concurrent writes. */
const updateAttempts = 20;

/**
 * Records of one kind in the store: `prefix` + id -> JSON accepted by the schema, with a version header (format.ts).
 * Fields that the schema lacks are ignored, and kept by `update`, so that agents of two versions can share a store.
 */
export class RecordTable<S extends z.ZodObject> {
  readonly store: Store;
  readonly prefix: string;
  readonly #schema: S;

  constructor(store: Store, prefix: string, schema: S) {
    this.store = store;
    this.prefix = prefix;
    this.#schema = schema;
  }

  key(id: string): string {
    return `${this.prefix}${id}`;
  }

  /**
   * Undefined when there is none. Throws `Corrupt` with the key of an unreadable record, `Unsupported` for one of a
   * later release.
   */
  async read(id: string, options?: CallOptions): Promise<Row<z.output<S>> | undefined> {
    const entry = await this.store.get(this.key(id), options);
    return entry === undefined ? undefined : this.decode(entry);
  }

  /** All readable records by key, and the revision to watch from; `malformed` receives the errors of others. */
  async list(
    malformed: (error: HearthError) => void,
    options?: CallOptions,
  ): Promise<{ rows: Row<z.output<S>>[]; revision: number }> {
    const { entries, revision } = await this.store.range(this.prefix, options);
    return { rows: this.readable(entries, malformed), revision };
  }

  /** Readable entries; `malformed` receives the errors of others. */
  readable(entries: readonly KeyValue[], malformed: (error: HearthError) => void): Row<z.output<S>>[] {
    return entries.flatMap((entry) => {
      try {
        return [this.decode(entry)];
      } catch (thrown) {
        malformed(HearthError.from(thrown));
        return [];
      }
    });
  }

  /** Returns the store's revision. */
  async put(id: string, value: z.output<S>, options?: CallOptions & { lease?: LeaseId }): Promise<number> {
    return await this.store.put(this.key(id), this.encode(value), options);
  }

  putOperation(id: string, value: z.output<S>, lease?: LeaseId): Operation {
    return { kind: 'put', key: this.key(id), value: this.encode(value), ...(lease === undefined ? {} : { lease }) };
  }

  /** Replaces a record by `value` and keeps fields that a later release wrote; for a transaction that compares `present`. */
  replaceOperation(present: KeyValue, value: z.output<S>): Operation {
    const { record } = this.#parse(present);
    const kept = unknownFields(record, Object.keys(this.#schema.shape));
    return { kind: 'put', key: present.key, value: JSON.stringify({ ...this.#encoded(value), ...kept }) };
  }

  async delete(id: string, options?: CallOptions): Promise<boolean> {
    return await this.store.delete(this.key(id), options);
  }

  /**
   * Atomically replaces a record by `change` of the current one; calls `change` again after a concurrent write.
   * Undefined keeps the record. Returns the resulting record, which has no lease. Keeps fields written by a later
   * release.
   */
  async update(
    id: string,
    change: (present: z.output<S> | undefined) => z.output<S> | undefined,
    options?: CallOptions,
  ): Promise<z.output<S> | undefined> {
    for (let attempt = 0; attempt < updateAttempts; attempt++) {
      const key = this.key(id);
      const entry = await this.store.get(key, options);
      const present = entry === undefined ? undefined : this.#parse(entry);
      const value = change(present?.value);
      if (value === undefined) return present?.value;
      const kept = unknownFields(present?.record, Object.keys(this.#schema.shape));
      const text = JSON.stringify({ ...this.#encoded(value), ...kept });
      const compare = [{ key, modRevision: entry?.modRevision ?? 0 }];
      const result = await this.store.transact({ compare, success: [{ kind: 'put', key, value: text }] }, options);
      if (result.succeeded) return value;
    }
    throw new HearthError('Unavailable', `the record ${this.key(id)} has too many concurrent writers; try again`);
  }

  encode(value: z.output<S>): string {
    return JSON.stringify(this.#encoded(value));
  }

  #encoded(value: z.output<S>): object {
    return { format: recordFormat, ...z.encode(this.#schema, value) };
  }

  decode(entry: KeyValue): Row<z.output<S>> {
    const { value } = this.#parse(entry);
    const { createRevision, modRevision, lease } = entry;
    return { id: entry.key.slice(this.prefix.length), value, createRevision, modRevision, lease };
  }

  /** `record`: includes fields that the schema lacks. */
  #parse(entry: KeyValue): { record: unknown; value: z.output<S> } {
    try {
      const record: unknown = JSON.parse(entry.value);
      checkFormat(entry.key, record);
      return { record, value: z.decode(this.#schema, record as z.input<S>) };
    } catch (thrown) {
      if (thrown instanceof HearthError) throw thrown;
      const reason = thrown instanceof z.ZodError ? z.prettifyError(thrown) : 'it is not JSON';
      throw new HearthError(
        'Corrupt',
        `the record ${entry.key} cannot be read (${reason}); delete it or upgrade this agent`,
      );
    }
  }
}
