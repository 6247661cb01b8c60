import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { HearthError, serverStream, unaryCall } from '@hearth/common';
import {
  type AddDatasetProgress,
  AddDatasetRequest,
  ControlService,
  CreateWarmJobRequest,
  type WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';

const deadlineMs = 300_000;

/** The control API of an agent, for times that the start of a command would hide. */
export class Control {
  readonly #client: Client;
  readonly #signal = AbortSignal.timeout(deadlineMs);

  constructor(socket: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure());
  }

  /** Lists a path of a volume as a dataset. */
  async addVolume(dataset: string, volume: string, path: string): Promise<void> {
    const source = { kind: { $case: 'volume' as const, value: { name: volume, path } } };
    const request = AddDatasetRequest.fromPartial({ name: dataset, source });
    const progress = serverStream<AddDatasetRequest, AddDatasetProgress>(
      this.#client,
      ControlService.addDataset,
      request,
      { signal: this.#signal },
    );
    for await (const { dataset: added } of progress) if (added !== undefined) return;
    throw new HearthError('ProtocolError', 'the agent ended the listing without a result');
  }

  /** The job that has all of a dataset in the memory of all agents. */
  async warm(dataset: string): Promise<WarmJob> {
    const request = CreateWarmJobRequest.fromPartial({ dataset, verify: 'none', readyWhen: 'memory', priority: 100 });
    const job = await unaryCall<CreateWarmJobRequest, WarmJob>(this.#client, ControlService.createWarmJob, request, {
      metadata: new Metadata(),
      deadlineMs,
      signal: this.#signal,
      callee: 'the agent',
      failure: HearthError.from,
    });
    const named = { name: job.name };
    const states = serverStream<typeof named, WarmJob>(this.#client, ControlService.watchWarmJob, named, {
      signal: this.#signal,
    });
    for await (const state of states) {
      if (state.inMemoryAt !== '') return state;
      if (state.state === 'Failed') throw new HearthError('Unavailable', state.message);
    }
    throw new HearthError('ProtocolError', 'the agent ended the job without a result');
  }

  close(): void {
    this.#client.close();
  }
}
