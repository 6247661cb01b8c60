import { HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { Mounts } from '../mounts/mounts.ts';
import type { Requests } from '../requests/index.ts';
import type { Operation } from '../store/store.ts';
import { hasEnded } from '../warm/state.ts';
import type { WarmTables } from '../warm/table.ts';
import type { DatasetTables } from './table.ts';

/** Takes datasets out of the cluster. */
export class Removal {
  readonly #context: AgentContext;
  readonly #tables: DatasetTables;
  readonly #warm: WarmTables;
  readonly #requests: Requests;
  readonly #mounts: Mounts;

  constructor(
    context: AgentContext,
    parts: { tables: DatasetTables; warm: WarmTables; requests: Requests; mounts: Mounts },
  ) {
    this.#context = context;
    this.#tables = parts.tables;
    this.#warm = parts.warm;
    this.#requests = parts.requests;
    this.#mounts = parts.mounts;
  }

  /**
   * Ends the pins of a dataset everywhere, with `evict` drops its bytes, and forgets it; agents delete its
   * manifests when they hear of it. `InUse` while it is mounted or being warmed. An agent that does not answer
   * keeps its bytes until it needs their room; the removal goes on.
   */
  async remove(name: string, evict: boolean, signal: AbortSignal): Promise<void> {
    const dataset = await this.#tables.get(name);
    await this.#refuseInUse(name);
    const drop = { kind: 'drop' as const, dataset: name, manifest: dataset.manifest, paths: [], owner: '', evict };
    const answers = await this.#requests.ask(drop, [], signal);
    for (const { node, message } of answers.filter((answer) => answer.errorCode !== undefined)) {
      this.#context.logger.warn('an agent did not drop a dataset', { dataset: name, agent: node, reason: message });
    }
    const success: Operation[] = [
      { kind: 'delete', key: this.#tables.datasets.key(name) },
      { kind: 'delete', key: `usage/${name}` },
      ...this.#tables.revisionsOf(name).map((revision) => this.#tables.deleteRevision(revision)),
    ];
    const resolving = { key: this.#tables.resolving.key(name), exists: false };
    const result = await this.#context.store.transact({ compare: [resolving], success }, { signal });
    if (!result.succeeded) throw new HearthError('InUse', `dataset ${name} is being listed; wait for it or try again`);
    await this.#tables.mirror.caughtUp(result.revision, signal);
  }

  async #refuseInUse(name: string): Promise<void> {
    const members = this.#context.members.names();
    const jobs = this.#warm.jobsMirror.values().filter((job) => job.dataset === name);
    const running = jobs.filter(
      (job) => !hasEnded(this.#warm.view(job, members, this.#context.pace.goneGraceMs).state),
    );
    if (running.length > 0) {
      const names = running.map((job) => job.name).join(', ');
      throw new HearthError(
        'InUse',
        `dataset ${name} is being warmed by ${names}; wait for it or cancel it (hearth job cancel)`,
      );
    }
    const mounted = await this.#mounts.of(name);
    if (mounted.length > 0) {
      const nodes = [...new Set(mounted.map((mount) => mount.node))].join(', ');
      throw new HearthError('InUse', `dataset ${name} is mounted on ${nodes}; unmount it there first`);
    }
  }
}
