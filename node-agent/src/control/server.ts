import { chmod, mkdir, unlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { experimental, Server, ServerCredentials } from '@grpc/grpc-js';
import { HearthError, type Logger } from '@hearth/common';
import { type ControlServer, ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/agent.ts';
import { type Endpoint, formatEndpoint } from '../config/index.ts';
import { callerNames, type TlsFiles } from '../tls/index.ts';
import { CredentialCalls } from './credential_calls.ts';
import { DatasetCalls, type PrepareSource } from './dataset_calls.ts';
import { FileCalls } from './file_calls.ts';
import { Handlers } from './handlers.ts';
import { NodeCalls } from './node_calls.ts';
import { VolumeCalls } from './volume_calls.ts';
import { WarmCalls } from './warm_calls.ts';

export interface ControlOptions {
  socket: string;
  /** TCP with mutual TLS; the files are closed by their owner. */
  tcp?: { listen: Endpoint; files: TlsFiles };
  cluster: string;
  prepare: PrepareSource;
}

/** The control API of an agent: a Unix socket that only its owner may open, and TCP with mutual TLS. */
export class ControlApi {
  readonly #server = new Server({ 'grpc.max_receive_message_length': 4 << 20 });
  readonly #ending = new AbortController();
  readonly #logger: Logger;
  readonly #options: ControlOptions;
  /** TCP address with its real port. */
  tcpAddress: string | undefined;

  constructor(agent: Agent, options: ControlOptions) {
    this.#logger = agent.context.logger;
    this.#options = options;
    this.#server.addService(ControlService, implementation(agent, options, this.#logger, this.#ending.signal));
  }

  /** `InUse` when another agent listens on the socket or port. */
  async listen(): Promise<void> {
    const { socket, tcp } = this.#options;
    await mkdir(dirname(socket), { recursive: true });
    await removeStale(socket);
    // Between bind and chmod the mode is what the mask leaves: nobody else may slip in.
    const mask = process.umask(0o177);
    try {
      await this.#bind(`unix:${socket}`, ServerCredentials.createInsecure());
    } finally {
      process.umask(mask);
    }
    await chmod(socket, 0o600);
    if (tcp === undefined) return;
    const { createCertificateProviderServerCredentials } = experimental;
    const mutual = createCertificateProviderServerCredentials(tcp.files, tcp.files, true);
    const port = await this.#bind(formatEndpoint(tcp.listen), mutual);
    this.tcpAddress = formatEndpoint({ host: tcp.listen.host, port });
  }

  /** Ends streams and waits for calls under way, at most for the time given. */
  async close(deadlineMs: number): Promise<void> {
    this.#ending.abort(new HearthError('Unavailable', 'the agent is ending; try again when it is back'));
    const timer = setTimeout(() => this.#server.forceShutdown(), deadlineMs);
    await new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve()));
    clearTimeout(timer);
    await unlink(this.#options.socket).catch(() => {});
  }

  async #bind(address: string, credentials: ServerCredentials): Promise<number> {
    return await new Promise((resolve, reject) => {
      this.#server.bindAsync(address, credentials, (error, port) => {
        if (error === null) resolve(port);
        else reject(bindError(address, error));
      });
    });
  }
}

function bindError(address: string, error: Error): HearthError {
  const inUse = error.message.includes('EADDRINUSE');
  const place = address.replace(/^unix:/, '');
  if (inUse)
    return new HearthError(
      'InUse',
      `${place} is in use by another program; stop it or set another address for the control API`,
    );
  return new HearthError(
    'IoError',
    `the control API cannot listen on ${place} (${error.message}); set control.socket or control.listen to another address`,
  );
}

/** A socket that nobody answers is left from an agent that was killed. */
async function removeStale(path: string): Promise<void> {
  const answered = await new Promise<boolean>((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
  if (answered) {
    throw new HearthError('InUse', `another agent listens on ${path}; stop it or set control.socket to another path`);
  }
  await unlink(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== 'ENOENT') {
      throw new HearthError(
        'PermissionDenied',
        `the stale socket ${path} cannot be removed (${thrown.message}); remove it`,
      );
    }
  });
}

function implementation(agent: Agent, options: ControlOptions, logger: Logger, ending: AbortSignal): ControlServer {
  const handlers = new Handlers(logger, ending, callerNames(options.cluster));
  const datasets = new DatasetCalls(agent, options.prepare);
  const warm = new WarmCalls(agent);
  const nodes = new NodeCalls(agent, options.cluster);
  const files = new FileCalls(agent);
  const credentials = new CredentialCalls(agent, options.cluster);
  const volumes = new VolumeCalls(agent);
  return {
    getStatus: handlers.unary('GetStatus', () => nodes.status()),
    watchStatus: handlers.streaming('WatchStatus', (request, signal) => nodes.watch(request, signal)),
    configureNode: handlers.unary('ConfigureNode', (request) => nodes.configure(request)),
    addDataset: handlers.streaming('AddDataset', (request, signal) => datasets.add(request, signal)),
    listDatasets: handlers.unary('ListDatasets', () => datasets.list()),
    getDataset: handlers.unary('GetDataset', (request) => datasets.get(request)),
    removeDataset: handlers.unary('RemoveDataset', (request, signal) => datasets.remove(request, signal)),
    listEntries: handlers.streaming('ListEntries', (request, signal) => datasets.entries(request, signal)),
    setCredentials: handlers.unary('SetCredentials', (request, signal, caller) =>
      credentials.set(request, caller, signal),
    ),
    getCredentials: handlers.unary('GetCredentials', (request, _signal, caller) => credentials.get(request, caller)),
    createWarmJob: handlers.unary('CreateWarmJob', (request, signal) => warm.create(request, signal)),
    getWarmJob: handlers.unary('GetWarmJob', (request) => warm.get(request)),
    listWarmJobs: handlers.unary('ListWarmJobs', () => warm.list()),
    watchWarmJob: handlers.streaming('WatchWarmJob', (request, signal) => warm.watch(request, signal)),
    cancelWarmJob: handlers.unary('CancelWarmJob', (request) => warm.cancel(request)),
    mount: handlers.local('Mount', (request, signal) => nodes.mount(request, signal)),
    unmount: handlers.local('Unmount', (request) => nodes.unmount(request)),
    listMounts: handlers.local('ListMounts', () => nodes.listMounts()),
    publishVolume: handlers.local('PublishVolume', (request, signal) => volumes.publish(request, signal)),
    createVolume: handlers.unary('CreateVolume', (request, signal) => volumes.create(request, signal)),
    getVolume: handlers.unary('GetVolume', (request, signal) => volumes.get(request, signal)),
    listVolumes: handlers.unary('ListVolumes', (_request, signal) => volumes.list(signal)),
    deleteVolume: handlers.unary('DeleteVolume', (request, signal) => volumes.delete(request, signal)),
    pin: handlers.unary('Pin', (request, signal) => nodes.pin(request, signal)),
    unpin: handlers.unary('Unpin', (request, signal) => nodes.unpin(request, signal)),
    evict: handlers.unary('Evict', (request, signal) => nodes.evict(request, signal)),
    verify: handlers.streaming('Verify', (request, signal) => files.verify(request, signal)),
    read: handlers.streaming('Read', (request, signal) => files.read(request, signal)),
  };
}
