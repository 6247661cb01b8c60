import { randomUUID } from 'node:crypto';
import { HearthError, within } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import { Mirror, RecordTable } from '../records/index.ts';
import type { Operation } from '../store/index.ts';
import { execute, nothingDone, type WriteAnswer } from './execute.ts';
import { type AnswerRecord, answerSchema, type RequestRecord, requestSchema } from './record.ts';

type Defaulted = 'moreOwners' | 'memoryOnly' | 'keep';
export type Asked = Omit<RequestRecord, 'id' | 'from' | 'nodes' | Defaulted> & Partial<Pick<RequestRecord, Defaulted>>;

/**
 * Requests from agent to agent through the store, so that agents need no connection to each other's control API.
 * Requests and answers are leased, so nothing stays behind when either side goes away.
 */
export class Requests {
  readonly #context: AgentContext;
  readonly #execute: (request: RequestRecord, write: WriteAnswer, signal: AbortSignal) => Promise<void>;
  readonly #requests;
  readonly #answers;
  readonly #requestsMirror;
  readonly #answersMirror;
  readonly #running = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();

  constructor(context: AgentContext, parts: Omit<Parameters<typeof execute>[1], 'node' | 'engine'>) {
    this.#context = context;
    const { node, engine, store, logger } = context;
    this.#execute = (request, write, signal) => execute(request, { node, engine, ...parts }, write, signal);
    this.#requests = new RecordTable(store, 'requests/', requestSchema);
    this.#answers = new RecordTable(store, 'answers/', answerSchema);
    this.#requestsMirror = new Mirror(this.#requests, logger);
    this.#answersMirror = new Mirror(this.#answers, logger);
    this.#requestsMirror.onChange(() => this.#serve());
  }

  /**
   * Sends a request to the given agents (default: all with a cache) and waits for their answers: one for each agent,
   * sorted by name, with an error for agents that went away, have no cache or did not answer in time. Throws `NotFound`
   * for unknown names.
   */
  async ask(asked: Asked, nodes: readonly string[], signal: AbortSignal): Promise<AnswerRecord[]> {
    const targets = this.#targets(nodes);
    const id = randomUUID();
    const request: RequestRecord = {
      moreOwners: [],
      memoryOnly: false,
      keep: [],
      ...asked,
      id,
      from: this.#context.node,
      nodes: targets,
    };
    await this.#answersMirror.ready(signal);
    await this.#requests.put(id, request, { signal, lease: await this.#context.session.lease(signal) });
    const offMembers = this.#context.members.onChange(() => this.#wake());
    const { clock, timings } = this.#context;
    const deadline = clock.timeout(timings.requestMs);
    try {
      await this.#answersMirror
        .waitFor(() => (this.#settled(request) ? true : undefined), AbortSignal.any([signal, deadline]))
        .catch((thrown) => {
          if (!deadline.aborted) throw thrown;
        });
      // Before the request is deleted, because the mirror may then forget the answers at once.
      return targets.map((node) => this.#answerOf(request, node));
    } finally {
      offMembers();
      await this.#forget(id);
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running.values());
    await Promise.all([this.#requestsMirror.close(), this.#answersMirror.close()]);
  }

  #targets(nodes: readonly string[]): string[] {
    const members = this.#context.members.names();
    const unknown = nodes.filter((node) => !members.has(node));
    if (unknown.length > 0) {
      throw new HearthError('NotFound', `there is no agent ${unknown.join(', ')}; hearth status lists all agents`);
    }
    return [...(nodes.length === 0 ? this.#context.members.caching() : new Set(nodes))].sort();
  }

  #settled(request: RequestRecord): boolean {
    const able = this.#context.members.caching();
    return request.nodes.every(
      (node) => this.#answersMirror.get(`${request.id}/${node}`) !== undefined || !able.has(node),
    );
  }

  #answerOf(request: RequestRecord, node: string): AnswerRecord {
    const answer = this.#answersMirror.get(`${request.id}/${node}`);
    if (answer !== undefined) return answer;
    const { members, timings } = this.#context;
    if (members.caching().has(node)) {
      const message = `the agent did not answer in ${timings.requestMs / 1000} s; see its log`;
      return { node, ...nothingDone, errorCode: 'DeadlineExceeded', message };
    }
    const alive = members.all().find((member) => member.node === node);
    const message =
      alive === undefined
        ? 'the agent stopped before it answered; try again when the agent is back'
        : `the agent does not serve: ${alive.reason}`;
    return { node, ...nothingDone, errorCode: 'Unavailable', message };
  }

  /** The departure of a member completes its part, so waiters check again. */
  #wake(): void {
    this.#answersMirror.touch();
  }

  async #forget(id: string): Promise<void> {
    const success = [
      { kind: 'delete', key: this.#requests.key(id) } as const,
      { kind: 'deletePrefix', prefix: this.#answers.key(`${id}/`) } as const,
    ];
    await this.#context.store.transact({ compare: [], success }).catch((thrown) => {
      this.#context.logger.warn('failed to delete a request; it expires with its lease', {
        error: HearthError.from(thrown),
      });
    });
  }

  #serve(): void {
    for (const request of this.#requestsMirror.values()) {
      if (!request.nodes.includes(this.#context.node) || this.#running.has(request.id)) continue;
      if (this.#stop.signal.aborted) return;
      this.#running.set(request.id, this.#run(request));
    }
    for (const id of this.#running.keys()) if (this.#requestsMirror.get(id) === undefined) this.#running.delete(id);
  }

  async #run(request: RequestRecord): Promise<void> {
    const { logger, clock, timings } = this.#context;
    const signal = within(clock, timings.requestMs, this.#stop.signal);
    const about = { kind: request.kind, dataset: request.dataset, from: request.from };
    try {
      await this.#execute(
        request,
        (answer, ...more) => this.#answer(request, { ...answer, message: '' }, more),
        signal,
      );
      logger.info('executed a request of another agent', about);
    } catch (thrown) {
      const { code: errorCode, message } = HearthError.from(thrown);
      logger.info('failed to execute a request of another agent', { ...about, reason: message });
      await this.#answer(request, { ...nothingDone, errorCode, message }, []).catch((error) =>
        logger.warn('failed to answer a request of another agent', { ...about, error: HearthError.from(error) }),
      );
    }
  }

  /** When the request is gone, nobody waits for the answer, and only `more` is written. */
  async #answer(request: RequestRecord, answer: Omit<AnswerRecord, 'node'>, more: Operation[]): Promise<number> {
    const { node, session, store, clock, timings } = this.#context;
    const signal = within(clock, timings.requestMs, this.#stop.signal);
    const lease = await session.lease(signal);
    const put = this.#answers.putOperation(`${request.id}/${node}`, { node, ...answer }, lease);
    const compare = [{ key: this.#requests.key(request.id), exists: true }];
    const { revision } = await store.transact({ compare, success: [put, ...more], failure: more }, { signal });
    return revision;
  }
}
