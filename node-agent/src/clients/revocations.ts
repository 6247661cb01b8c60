import { epochMs, HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import { Mirror, RecordTable } from '../records/index.ts';
import type { CallOptions } from '../store/index.ts';
import { checkRevoked, type RevocationKind, type RevocationRecord, revocationId, revocationSchema } from './record.ts';
import { maxTokenLifeMs } from './token.ts';

/** Engines keep the list in memory, and compare it with each connection. */
const maxRevocations = 4096;

/**
 * Tokens of clients that an administrator has revoked. All agents watch the list and give it to their engines, which
 * refuse these tokens and end the connections of their clients.
 */
export class Revocations {
  readonly #context: Pick<AgentContext, 'engine' | 'logger' | 'clock'>;
  readonly #table;
  readonly #mirror;
  /** All that this agent has seen, to be written again after the loss of the store; without those that were permitted again. */
  readonly #seen = new Map<string, RevocationRecord>();
  #pushing: Promise<void> = Promise.resolve();

  constructor(context: Pick<AgentContext, 'store' | 'engine' | 'logger' | 'clock'>) {
    this.#context = context;
    this.#table = new RecordTable(context.store, 'revocations/', revocationSchema);
    this.#mirror = new Mirror(this.#table, context.logger);
    this.#mirror.onChange((changes, { reread }) => {
      for (const { id, after } of changes) {
        if (after !== undefined) this.#seen.set(id, after);
        else if (!reread) this.#seen.delete(id);
      }
      if (changes.length > 0) this.#push();
    });
  }

  /** Resolves when the engine has the list. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#mirror.ready(signal);
    await this.#pushing;
  }

  /**
   * Idempotent. Revocations of tokens are deleted when the tokens must have expired, others by `permit`. Throws
   * `InvalidArgument` for a malformed name, and `TooLarge` when there are too many.
   */
  async revoke(kind: RevocationKind, name: string, options?: CallOptions): Promise<void> {
    checkRevoked(kind, name);
    await this.#deleteExpired(options);
    const record = { kind, name, revokedAt: epochMs(this.#context.clock) };
    const id = revocationId(record);
    if (this.#mirror.get(id) === undefined && this.#mirror.rows().length >= maxRevocations) {
      throw new HearthError(
        'InvalidArgument',
        `${maxRevocations} revocations are in force; revoke a whole namespace, or permit tokens again`,
      );
    }
    await this.#table.update(id, (present) => (present === undefined ? record : undefined), options);
  }

  /** Throws `NotFound` when there is no such revocation. */
  async permit(kind: RevocationKind, name: string, options?: CallOptions): Promise<void> {
    if (await this.#table.delete(revocationId({ kind, name }), options)) return;
    throw new HearthError('NotFound', `the ${kind} ${name} is not revoked; hearth revocation ls lists all revocations`);
  }

  /** Sorted by kind and name; read from the store. */
  async list(options?: CallOptions): Promise<RevocationRecord[]> {
    const { rows } = await this.#table.list((error) => {
      throw error;
    }, options);
    return rows.map(({ value }) => value);
  }

  isRevoked(pod: { namespace: string; uid: string }): boolean {
    const ids = [
      revocationId({ kind: 'namespace', name: pod.namespace }),
      revocationId({ kind: 'pod', name: `${pod.namespace}/${pod.uid}` }),
    ];
    return ids.some((id) => this.#mirror.get(id) !== undefined);
  }

  /** Writes all revocations again, as after the store was emptied. */
  async rewrite(): Promise<void> {
    for (const [id, record] of this.#seen) {
      await this.#table.update(id, (present) => (present === undefined ? record : undefined));
    }
  }

  async close(): Promise<void> {
    await this.#mirror.close();
    await this.#pushing;
  }

  async #deleteExpired(options?: CallOptions): Promise<void> {
    const before = epochMs(this.#context.clock) - maxTokenLifeMs;
    for (const { id, value } of this.#mirror.rows()) {
      if (value.kind === 'token' && value.revokedAt < before) await this.#table.delete(id, options);
    }
  }

  #push(): void {
    const named = (kind: RevocationKind) =>
      this.#mirror.values().flatMap((record) => (record.kind === kind ? [record.name] : []));
    const list = { tokens: named('token'), pods: named('pod'), namespaces: named('namespace') };
    this.#pushing = this.#pushing
      .then(async () => await this.#context.engine.setRevokedTokens(list))
      .catch((thrown) => {
        this.#context.logger.error('failed to revoke tokens of clients', { error: HearthError.from(thrown) });
      });
  }
}
