import type { Metadata } from '@grpc/grpc-js';
import { type Bounds, bounded } from './deadline.ts';
import type { EtcdConnection, EtcdMember } from './etcd_connection.ts';
import { etcdError, isCompacted } from './etcd_error.ts';
import { toRevision } from './etcd_keys.ts';
import { unary } from './etcd_unary.ts';
import { type AlarmResponse, AlarmType, type DefragmentResponse, type StatusResponse } from './generated/etcd/rpc.ts';
import type { CallOptions, StoreMaintenance, StoreSpace } from './store.ts';

/** Of etcd before 3.6, which does not tell it; etcd's own default. */
const defaultQuotaBytes = 2 ** 31;
const alarmActions = { get: 0, disarm: 2 } as const;

/**
 * The space of an etcd (https://etcd.io/docs/v3.6/op-guide/maintenance/): its file grows up to the quota, after which
 * etcd refuses writes until somebody has compacted and defragmented it and disarmed the alarm. Behind a Service only the
 * member is defragmented that the connection leads to.
 */
export class EtcdMaintenance implements StoreMaintenance {
  readonly #connection: EtcdConnection;
  readonly #life: AbortSignal;

  constructor(connection: EtcdConnection, life: AbortSignal) {
    this.#connection = connection;
    this.#life = life;
  }

  async space(options?: CallOptions): Promise<StoreSpace> {
    return await this.#bounded('space', options, async (bounds) => {
      const states = await this.#states(bounds);
      const { alarms } = await this.#alarm(bounds, 'get', 0n);
      const [{ dbSizeQuota = 0n } = {}] = states;
      return {
        bytes: Math.max(...states.map(({ dbSize }) => Number(dbSize))),
        quotaBytes: Number(dbSizeQuota) || defaultQuotaBytes,
        full: alarms.some(({ alarm }) => alarm === AlarmType.NOSPACE),
      };
    });
  }

  async reclaim(options?: CallOptions): Promise<void> {
    await this.#bounded('reclaiming of space', options, async (bounds) => {
      const [first] = await this.#states(bounds);
      const request = { revision: BigInt(toRevision(first?.header?.revision)), physical: true };
      await this.#each('compaction', bounds, (member, metadata, signal) =>
        unary(signal, (answer) => member.kv.compact(request, metadata, answer)).catch((thrown) => {
          if (!isCompacted(thrown)) throw thrown;
        }),
      );
      await this.#each('defragmentation', bounds, (member, metadata, signal) =>
        unary<DefragmentResponse>(signal, (answer) => member.maintenance.defragment({}, metadata, answer)),
      );
      const { alarms } = await this.#alarm(bounds, 'get', 0n);
      for (const { memberId } of alarms) await this.#alarm(bounds, 'disarm', memberId);
    });
  }

  #states(bounds: Bounds): Promise<StatusResponse[]> {
    return this.#each('status', bounds, (member, metadata, signal) =>
      unary<StatusResponse>(signal, (answer) => member.maintenance.status({}, metadata, answer)),
    );
  }

  /** `memberId` 0: of all, when they are asked for. */
  async #alarm(bounds: Bounds, action: keyof typeof alarmActions, memberId: bigint): Promise<AlarmResponse> {
    const request = { action: alarmActions[action], memberId, alarm: AlarmType.NOSPACE };
    return await this.#connection.call('alarm', bounds, { repeatable: true }, (member, metadata, signal) =>
      unary<AlarmResponse>(signal, (answer) => member.maintenance.alarm(request, metadata, answer)),
    );
  }

  #each<T>(
    what: string,
    bounds: Bounds,
    attempt: (member: EtcdMember, metadata: Metadata, signal: AbortSignal) => Promise<T>,
  ): Promise<T[]> {
    return this.#connection.each(what, bounds, attempt);
  }

  async #bounded<T>(what: string, options: CallOptions | undefined, body: (bounds: Bounds) => Promise<T>): Promise<T> {
    const named = `${what} of ${this.#connection.description}`;
    try {
      return await bounded(named, options, this.#life, this.#connection.clock, body);
    } catch (thrown) {
      throw etcdError(named, thrown);
    }
  }
}
