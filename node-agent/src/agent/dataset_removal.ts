import { HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { DatasetTables } from '../datasets/index.ts';
import type { Mounts } from '../mounts/index.ts';
import type { AnswerRecord, Requests } from '../requests/index.ts';
import type { Operation } from '../store/index.ts';
import { hasEnded, type WarmTables } from '../warm/index.ts';

/** Maximum numbers of nodes, and of users of each, in a refusal. */
const maxUsesListed = 5;
const maxNamesListed = 3;

/** Removes datasets from the cluster. */
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
   * Releases all pins of a dataset, with `evict` evicts its bytes, and deletes its record; agents then delete its
   * manifests. Throws `InUse` while the dataset is being warmed or mounted for a user; volume mounts without a pod are
   * unmounted first. `nodes`: all nodes, if known; mounts on other nodes do not count. An agent that does not answer
   * keeps the bytes until it needs their room, without stopping the removal.
   */
  async remove(
    name: string,
    { evict, nodes }: { evict: boolean; nodes?: ReadonlySet<string> },
    signal: AbortSignal,
  ): Promise<void> {
    const dataset = await this.#tables.get(name);
    await this.#refuseInUse(name, nodes, signal);
    const drop = { kind: 'drop' as const, dataset: name, manifest: dataset.manifest, paths: [], owner: '', evict };
    const answers = await this.#requests.ask(drop, [], signal);
    for (const { node, message } of answers.filter((answer) => answer.errorCode !== undefined)) {
      this.#context.logger.warn('an agent failed to drop a dataset', { dataset: name, agent: node, reason: message });
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

  async #refuseInUse(name: string, nodes: ReadonlySet<string> | undefined, signal: AbortSignal): Promise<void> {
    const members = this.#context.members.caching();
    const jobs = this.#warm.jobsMirror.values().filter((job) => job.dataset === name);
    const running = jobs.filter(
      (job) => !hasEnded(this.#warm.view(job, members, this.#context.timings.goneGraceMs).state),
    );
    if (running.length > 0) {
      const names = running.map((job) => job.name).join(', ');
      throw new HearthError(
        'InUse',
        `dataset ${name} is being warmed by ${names}; wait for it or cancel it (hearth job cancel)`,
      );
    }
    const uses = await this.#mountUses(name, nodes, signal);
    if (uses.length > 0) {
      const listed = uses.slice(0, maxUsesListed).join('; ');
      const more = uses.length > maxUsesListed ? `; and on ${uses.length - maxUsesListed} more nodes` : '';
      throw new HearthError('InUse', `dataset ${name} is mounted ${listed}${more}; unmount it or delete the pod first`);
    }
  }

  /** Removes unused mounts, then returns the users of the remaining ones, one text for each node. */
  async #mountUses(name: string, nodes: ReadonlySet<string> | undefined, signal: AbortSignal): Promise<string[]> {
    const manifests = new Set(this.#tables.revisionsOf(name).map(({ manifest }) => manifest));
    // Datasets of the same files share mounts.
    const concerned = [...(await this.#mounts.of(name)), ...(await this.#mounts.showing(manifests))];
    const before = await this.#mounts.withoutDeparted(concerned, nodes);
    const members = this.#context.members.caching();
    const asked = [...new Set(before.map(({ node }) => node))].filter((node) => members.has(node));
    const release = { kind: 'release' as const, dataset: name, manifest: '', paths: [], owner: '', evict: false };
    const answers = asked.length === 0 ? [] : await this.#requests.ask(release, asked, signal);
    const left = await this.#mounts.of(name);
    const users = answers.filter((answer) => answer.users.length > 0);
    return [...new Set([...left, ...users].map(({ node }) => node))].sort().map((node) => {
      const targets = left.filter((mount) => mount.node === node).map(({ target }) => target);
      return describeUse(
        node,
        answers.find((answer) => answer.node === node),
        targets,
      );
    });
  }
}

/** The users on a node: `on n1 by pod team/a and 3 more`. */
function describeUse(node: string, answer: AnswerRecord | undefined, targets: readonly string[]): string {
  if (answer === undefined) return `on ${node}, whose agent is away`;
  if (answer.errorCode !== undefined) return `on ${node}, whose agent cannot name the users: ${answer.message}`;
  if (answer.users.length > 0) return `on ${node} by ${firstOf(answer.users)}`;
  return `on ${node} at ${firstOf(targets)} (hearth unmount)`;
}

function firstOf(texts: readonly string[]): string {
  const more = texts.length > maxNamesListed ? ` and ${texts.length - maxNamesListed} more` : '';
  return `${texts.slice(0, maxNamesListed).join(', ')}${more}`;
}
