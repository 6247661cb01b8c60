import { isDeepStrictEqual } from 'node:util';
import { epochMs, HearthError, type Logger } from '@hearth/common';
import type { VolumeOptions } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { mayLead } from './election.ts';
import { Leadership } from './leadership.ts';
import type { VolumeLeaderRecord, WritableVolumeRecord } from './record.ts';
import type { WritableVolumeTables } from './tables.ts';

/** Time for which an absent agent may miss the deletion of a volume. */
const deletedMs = 30 * 24 * 3_600_000;
const firstRetryMs = 200;
const maxRetryMs = 5_000;

/**
 * Brings the engine to the state that the store shows: all volumes, the leader of each, and the files of deleted ones
 * gone. Leads the volumes whose log, or a copy of it, this agent has. One pass at a time, again after each change, and after a failure
 * with growing pauses.
 *
 * A volume that vanishes from the store without a record of its deletion was lost with the store: it stays open, and
 * the agent that has its log writes the record again.
 */
export class VolumeReconciler {
  readonly #context: AgentContext;
  readonly #tables: WritableVolumeTables;
  readonly #logger: Logger;
  readonly #leaderships = new Map<string, Leadership>();
  /** By id. */
  readonly #lost = new Map<string, WritableVolumeRecord>();
  readonly #detach: (() => void)[];
  /** As of the start, when the engine knows none. */
  #pushed: VolumeOptions[] = [];
  readonly #leaders = new Map<string, VolumeLeaderRecord>();
  readonly #removed = new Set<string>();
  #stale = false;
  #failures = 0;
  #pass: Promise<void> | undefined;
  #cancelRetry: (() => void) | undefined;
  #closed = false;

  constructor(context: AgentContext, tables: WritableVolumeTables) {
    this.#context = context;
    this.#tables = tables;
    this.#logger = context.logger;
    this.#detach = [
      tables.volumesMirror.onChange((changes) => {
        for (const { before, after } of changes) this.#note(before, after);
      }),
      tables.onChange(() => this.#begin()),
    ];
  }

  /** Resolves after the first pass, even if it failed. The tables must be ready. */
  async start(): Promise<void> {
    this.#begin();
    await this.#pass;
  }

  /** Resolves when the engine knows the volume, which may have been created a moment ago on another agent. */
  async known(id: string, signal: AbortSignal): Promise<void> {
    const pushed = () => (this.#pushed.some((volume) => volume.id === id) ? true : undefined);
    await this.#tables.volumesMirror.waitFor(pushed, signal);
  }

  /** The reason why this agent, which led the volume last, does not lead it; empty: it leads, or another one did. */
  reasonOf(id: string): string {
    const record = this.#tables.list().find((volume) => volume.id === id);
    return record !== undefined && this.#hasLog(record) ? (this.#leaderships.get(id)?.reason ?? '') : '';
  }

  /** Resigns as the leader of all volumes. Never throws. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const detach of this.#detach) detach();
    this.#cancelRetry?.();
    await this.#pass;
    await Promise.all([...this.#leaderships.values()].map((one) => one.close()));
  }

  #note(before: WritableVolumeRecord | undefined, after: WritableVolumeRecord | undefined): void {
    if (after !== undefined) this.#lost.delete(after.id);
    if (before === undefined || before.id === after?.id) return;
    if (this.#tables.deletedMirror.get(before.id) === undefined) this.#lost.set(before.id, before);
  }

  #begin(): void {
    if (this.#closed) return;
    this.#stale = true;
    this.#pass ??= this.#run().finally(() => {
      this.#pass = undefined;
    });
  }

  async #run(): Promise<void> {
    this.#cancelRetry?.();
    while (this.#stale && !this.#closed) {
      this.#stale = false;
      try {
        await this.#reconcile();
        this.#failures = 0;
      } catch (thrown) {
        this.#logger.error('failed to give the engine the volumes; retrying', { error: HearthError.from(thrown) });
        const pauseMs = Math.min(maxRetryMs, firstRetryMs * 2 ** this.#failures++);
        this.#cancelRetry = this.#context.clock.schedule(pauseMs, () => this.#begin());
        return;
      }
    }
  }

  async #reconcile(): Promise<void> {
    const volumes = this.#present();
    const own = volumes.filter((volume) => mayLead(volume, this.#context));
    // A volume must not be closed under its leader.
    await this.#endLeaderships(new Set(own.map(({ id }) => id)));
    await this.#pushVolumes(volumes);
    for (const { id } of volumes) this.#pushLeader(id);
    for (const { id, name } of own) {
      if (!this.#leaderships.has(id)) {
        this.#leaderships.set(id, new Leadership(this.#context, this.#tables, { id, name }));
      }
    }
    await this.#removeDeleted();
    for (const volume of own) if (this.#lost.has(volume.id) && this.#hasLog(volume)) await this.#restore(volume);
  }

  #hasLog({ logInstallation }: WritableVolumeRecord): boolean {
    return logInstallation === this.#context.installation;
  }

  /** Volumes in the store, and those that it lost. */
  #present(): WritableVolumeRecord[] {
    for (const id of [...this.#lost.keys()])
      if (this.#tables.deletedMirror.get(id) !== undefined) this.#lost.delete(id);
    return [...this.#tables.list(), ...this.#lost.values()];
  }

  async #endLeaderships(kept: ReadonlySet<string>): Promise<void> {
    for (const [id, leadership] of [...this.#leaderships]) {
      if (kept.has(id)) continue;
      this.#leaderships.delete(id);
      await leadership.close();
    }
  }

  async #pushVolumes(volumes: readonly WritableVolumeRecord[]): Promise<void> {
    const options = volumes.map(({ id, store, name, deadlineMs, maxBytes, maxFiles }) => {
      return { id, store, name, deadlineMs, maxBytes, maxInodes: maxFiles };
    });
    if (isDeepStrictEqual(options, this.#pushed)) return;
    await this.#context.engine.setVolumes(options);
    this.#pushed = options;
    this.#tables.volumesMirror.touch();
    const present = new Set(options.map(({ id }) => id));
    for (const id of [...this.#leaders.keys()]) if (!present.has(id)) this.#leaders.delete(id);
  }

  #pushLeader(id: string): void {
    const leader = this.#tables.leaderOf(id);
    if (isDeepStrictEqual(leader, this.#leaders.get(id))) return;
    const { engine } = this.#context;
    engine.setVolumeLeader(id, leader && { node: leader.node, epoch: BigInt(leader.epoch) });
    if (leader === undefined) this.#leaders.delete(id);
    else this.#leaders.set(id, leader);
  }

  async #removeDeleted(): Promise<void> {
    const before = epochMs(this.#context.clock) - deletedMs;
    for (const { id, name, deletedAt } of this.#tables.deletedMirror.values()) {
      if (!this.#removed.has(id)) {
        await this.#context.engine.removeVolume(id);
        this.#removed.add(id);
        this.#logger.info('removed the files of a deleted volume', { volume: name, id });
      }
      if (deletedAt < before) await this.#tables.deleted.delete(id);
    }
  }

  /** Writes the record of a volume again whose log is here; its next term counts on from the last one. */
  async #restore(volume: WritableVolumeRecord): Promise<void> {
    const { volumes, deleted, store } = this.#tables;
    const compare = [
      { key: volumes.key(volume.name), exists: false },
      { key: deleted.key(volume.id), exists: false },
    ];
    const success = [volumes.putOperation(volume.name, volume)];
    const { succeeded } = await store.transact({ compare, success });
    if (!succeeded) return;
    this.#logger.warn('the store had lost the record of a volume; wrote it again', { volume: volume.name });
  }
}
