import type { ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import { HearthError } from '@hearth/common';
import type { EtcdMember } from './etcd_connection.ts';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from './generated/etcd/rpc.ts';
import type { LeaseId } from './store.ts';

/**
 * Keep-alives of all leases over one stream to one member, opened on first use. Answers name their lease and arrive in
 * order, so the next answer about a lease settles all its pending requests.
 */
export class EtcdKeepAlive {
  readonly #waiting = new Map<LeaseId, Set<PromiseWithResolvers<number>>>();
  #stream: ClientDuplexStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse> | undefined;
  #member: EtcdMember | undefined;

  /** Remaining seconds of the lease; 0 when it is gone. Rejects with the stream's error or the signal's reason. */
  async ask(lease: LeaseId, member: EtcdMember, metadata: Metadata, signal: AbortSignal): Promise<number> {
    const stream = this.#open(member, metadata);
    const answer = Promise.withResolvers<number>();
    const askers = this.#waiting.get(lease) ?? new Set();
    this.#waiting.set(lease, askers.add(answer));
    // A stream that does not answer in time may be dead: the next attempt opens another.
    const abandon = (): void => {
      answer.reject(signal.reason);
      if (this.#stream === stream) this.close();
    };
    signal.addEventListener('abort', abandon, { once: true });
    try {
      stream.write({ ID: BigInt(lease) });
      return await answer.promise;
    } finally {
      signal.removeEventListener('abort', abandon);
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
      // An abandoned stream must not fail the requests on its successor.
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
