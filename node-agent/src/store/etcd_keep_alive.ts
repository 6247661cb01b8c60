import type { ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import { HearthError } from '@hearth/common';
import type { EtcdMember } from './etcd_connection.ts';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from './generated/etcd/rpc.ts';
import type { LeaseId } from './store.ts';

/**
 * Keep-alives of all our leases over one stream to one member, opened when first needed. Answers name their lease and
 * come in order; every asker of a lease is answered by the next answer about it, which is at least as new.
 */
export class EtcdKeepAlive {
  readonly #waiting = new Map<LeaseId, Set<PromiseWithResolvers<number>>>();
  #stream: ClientDuplexStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse> | undefined;
  #member: EtcdMember | undefined;

  /** Seconds that the lease now lives; 0 when it is gone. Rejects with the stream's error, or the signal's reason. */
  async ask(lease: LeaseId, member: EtcdMember, metadata: Metadata, signal: AbortSignal): Promise<number> {
    const stream = this.#open(member, metadata);
    const answer = Promise.withResolvers<number>();
    const askers = this.#waiting.get(lease) ?? new Set();
    this.#waiting.set(lease, askers.add(answer));
    // A stream that does not answer in time may never again: the next try makes a new one.
    const giveUp = (): void => {
      answer.reject(signal.reason);
      if (this.#stream === stream) this.close();
    };
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      stream.write({ ID: BigInt(lease) });
      return await answer.promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
      askers.delete(answer);
    }
  }

  close(): void {
    this.#stream?.cancel();
    this.#stream = undefined;
  }

  #open(member: EtcdMember, metadata: Metadata): ClientDuplexStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse> {
    if (this.#stream !== undefined && this.#member === member) return this.#stream;
    this.close();
    const stream = member.lease.leaseKeepAlive(metadata);
    this.#stream = stream;
    this.#member = member;
    stream.on('data', ({ ID, TTL }: LeaseKeepAliveResponse) => {
      for (const asker of this.#take(String(ID))) asker.resolve(Number(TTL));
    });
    const fail = (error: Error): void => {
      // A stream that was left already must not take down the askers of its successor.
      if (this.#stream !== undefined && this.#stream !== stream) return;
      this.#stream = undefined;
      for (const lease of [...this.#waiting.keys()]) {
        for (const asker of this.#take(lease)) asker.reject(error);
      }
    };
    stream.on('error', fail);
    stream.on('end', () =>
      fail(new HearthError('Unavailable', `${member.endpoint} ended the keep-alives. Try again.`)),
    );
    return stream;
  }

  #take(lease: LeaseId): PromiseWithResolvers<number>[] {
    const askers = [...(this.#waiting.get(lease) ?? [])];
    this.#waiting.delete(lease);
    return askers;
  }
}
