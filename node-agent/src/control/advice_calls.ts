import { HearthError } from '@hearth/common';
import type { AdvisedNode, AdviseRequest, AdviseResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { PathFilter } from '@hearth/engine';
import type { DontNeedAnswer } from '../advice/index.ts';
import type { Agent } from '../agent/index.ts';
import { oneOfWords } from './arguments.ts';
import { jobMessage } from './convert.ts';

/** Maximum number of kept files that an answer names. */
const maxPaths = 10;

/** WILLNEED and DONTNEED calls of operators, commands and programs. */
export class AdviceCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  async advise(request: AdviseRequest, signal: AbortSignal): Promise<AdviseResponse> {
    const { dataset, manifest, paths, nodes, memoryOnly, force } = request;
    const advice = oneOfWords('advice', request.advice, ['willneed', 'dontneed']);
    const scope = oneOfWords('scope', request.scope || 'node', ['node', 'cluster']);
    new PathFilter(paths);
    if (scope === 'cluster' && nodes.length > 0) {
      throw new HearthError('InvalidArgument', 'the scope cluster means all nodes; name none');
    }
    if (advice === 'willneed' && (memoryOnly || force)) {
      throw new HearthError('InvalidArgument', 'memory_only and force require dontneed; omit them');
    }
    const what = { dataset, manifest, paths, scope, nodes };
    if (advice === 'dontneed') {
      return answerMessage(await this.#agent.advice.dontNeed({ ...what, memoryOnly, force }, signal));
    }
    this.#agent.usage.touched(dataset);
    const job = jobMessage(await this.#agent.advice.willNeed(what, signal));
    return { ...nothing, job };
  }
}

const nothing = {
  job: undefined,
  nodes: [],
  filesNotInOrigin: 0n,
  bytesNotInOrigin: 0n,
  pathsNotInOrigin: [],
  cancelledJobs: [],
};

function answerMessage({ answers, notInOrigin, cancelledJobs }: DontNeedAnswer): AdviseResponse {
  return {
    job: undefined,
    nodes: answers.map(nodeMessage),
    filesNotInOrigin: BigInt(notInOrigin.length),
    bytesNotInOrigin: notInOrigin.reduce((sum, { size }) => sum + size, 0n),
    pathsNotInOrigin: notInOrigin.slice(0, maxPaths).map(({ path }) => path),
    cancelledJobs,
  };
}

function nodeMessage(answer: DontNeedAnswer['answers'][number]): AdvisedNode {
  const { node, bytesFreed, memoryBytesFreed, errorCode = '' } = answer;
  return {
    node,
    filesFreed: BigInt(answer.filesFreed),
    bytesFreed,
    memoryBytesFreed,
    filesKept: BigInt(answer.filesKept),
    filesPinned: BigInt(answer.filesPinned),
    filesOpen: BigInt(answer.filesOpen),
    filesPublished: BigInt(answer.filesPublished),
    message: answer.message === '' ? keptText(answer) : answer.message,
    errorCode,
  };
}

/** `2 pinned (hearth unpin); 1 open, until it is closed`. */
function keptText(answer: DontNeedAnswer['answers'][number]): string {
  const { filesKept, filesPinned, filesOpen, filesPublished } = answer;
  const failed = filesKept - filesPinned - filesOpen - filesPublished;
  const reasons: [number, string][] = [
    [filesPinned, 'pinned (hearth unpin)'],
    [filesOpen, 'open: try again when they are closed'],
    [filesPublished, 'in a view that is mounted'],
    [failed, 'could not be removed: see the log of the agent'],
  ];
  return reasons.flatMap(([files, why]) => (files === 0 ? [] : [`${files} ${why}`])).join('; ');
}
