import { HearthError } from '@hearth/common';
import type {
  CreateWarmJobRequest,
  GetWarmJobRequest,
  ListWarmJobsResponse,
  MeasureFilesRequest,
  MeasureFilesResponse,
  WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { readyWhens } from '../warm/index.ts';
import { oneOfWords } from './arguments.ts';
import { jobMessage } from './convert.ts';

/** Maximum deadline of a job; a longer one is more likely a mistake. */
const maxDeadlineSeconds = 30 * 24 * 3600;

export class WarmCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  async createWarmJob(request: CreateWarmJobRequest, signal: AbortSignal): Promise<WarmJob> {
    const { dataset, manifest, paths, nodes, replicas, pin, pinOwner, priority, rateLimit, peerRateLimit } = request;
    const { name, ensure } = request;
    const verify = oneOfWords('verify', request.verify || 'checksum', ['none', 'checksum', 'digest']);
    const readyWhen = oneOfWords('ready_when', request.readyWhen || 'stored', readyWhens);
    if (request.deadlineSeconds > maxDeadlineSeconds) {
      throw new HearthError(
        'InvalidArgument',
        `the deadline is ${request.deadlineSeconds} s; at most ${maxDeadlineSeconds} are allowed`,
      );
    }
    const deadlineSeconds = Number(request.deadlineSeconds);
    this.#agent.usage.touched(dataset);
    const where = { nodes, replicas, pin, pinOwner };
    const how = { priority, rateLimit, peerRateLimit, deadlineSeconds, verify, readyWhen, name, ensure };
    return jobMessage(await this.#agent.warmJobs.create({ dataset, manifest, paths, ...where, ...how }, signal));
  }

  async measureFiles(
    { dataset, manifest, paths }: MeasureFilesRequest,
    signal: AbortSignal,
  ): Promise<MeasureFilesResponse> {
    const { files, bytes } = await this.#agent.warmJobs.measureOf(dataset, manifest, paths, signal);
    return { files: BigInt(files), bytes };
  }

  async getWarmJob({ name }: GetWarmJobRequest): Promise<WarmJob> {
    return jobMessage(await this.#agent.warmJobs.get(name));
  }

  async listWarmJobs(): Promise<ListWarmJobsResponse> {
    return { jobs: this.#agent.warmJobs.list().map(jobMessage) };
  }

  async *watchWarmJob({ name }: GetWarmJobRequest, signal: AbortSignal): AsyncGenerator<WarmJob> {
    for await (const seen of this.#agent.warmJobs.watch(name, signal)) yield jobMessage(seen);
  }

  async cancelWarmJob({ name }: GetWarmJobRequest): Promise<WarmJob> {
    return jobMessage(await this.#agent.warmJobs.cancel(name));
  }
}
