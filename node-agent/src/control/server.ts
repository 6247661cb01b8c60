import { unlink } from 'node:fs/promises';
import { experimental, Server } from '@grpc/grpc-js';
import { type Clock, HearthError, systemClock } from '@hearth/common';
import { type ControlServer, ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import { bind, bindSocket } from '@hearth/common/grpc';
import { type Agent, StandbyAgent, sightOf } from '../agent/index.ts';
import { type Endpoint, formatEndpoint } from '../config/index.ts';
import { callerNames, type TlsFiles } from '../tls/index.ts';
import { AdviceCalls } from './advice_calls.ts';
import { CredentialCalls } from './credential_calls.ts';
import { DatasetCalls, type PrepareSource } from './dataset_calls.ts';
import { FileCalls } from './file_calls.ts';
import { Handlers } from './handlers.ts';
import { NodeCalls } from './node_calls.ts';
import { watchNode } from './node_reports.ts';
import { PinCalls } from './pin_calls.ts';
import { RevocationCalls } from './revocation_calls.ts';
import { standbyCalls } from './standby_calls.ts';
import { StatusCalls } from './status_calls.ts';
import { type AdviceGrants, TokenCalls } from './token_calls.ts';
import { VolumeCalls } from './volume_calls.ts';
import { WarmCalls } from './warm_calls.ts';
import { WritableVolumeCalls } from './writable_volume_calls.ts';

export interface ControlOptions {
  socket: string;
  /** TCP with mutual TLS. The caller closes the files. */
  tcp?: { listen: Endpoint; files: TlsFiles };
  cluster: string;
  /** The cluster secret, which signs client tokens and appears in no answer. */
  secret: Uint8Array;
  /** Advice that pods may give through their tokens; default: none. */
  grants?: AdviceGrants;
  prepare: PrepareSource;
  clock?: Clock;
}

/** Answers calls: an agent, or a standby without a cache. */
export type Answerer = Agent | StandbyAgent;

/** The control API of an agent: a Unix socket of mode 0600, and TCP with mutual TLS. */
export class ControlApi {
  readonly #server = new Server({ 'grpc.max_receive_message_length': 4 << 20 });
  readonly #options: ControlOptions;
  /** Ends the calls of the current answerer. */
  #ending = new AbortController();
  #calls: ControlServer;
  /** TCP address with its bound port. */
  tcpAddress: string | undefined;

  constructor(answerer: Answerer, options: ControlOptions) {
    this.#options = options;
    this.#calls = this.#callsOf(answerer);
    const present = (name: keyof ControlServer) => (call: never, callback: never) =>
      (this.#calls[name] as (call: never, callback: never) => void)(call, callback);
    const names = Object.keys(ControlService) as (keyof ControlServer & string)[];
    const dispatching = Object.fromEntries(names.map((name) => [name, present(name)]));
    this.#server.addService(ControlService, dispatching as unknown as ControlServer);
  }

  /** Switches to another answerer; calls and streams of the former end with `Unavailable`. */
  switchTo(answerer: Answerer): void {
    const former = this.#ending;
    this.#ending = new AbortController();
    this.#calls = this.#callsOf(answerer);
    former.abort(new HearthError('Unavailable', 'the agent has started to serve; try again'));
  }

  #callsOf(answerer: Answerer): ControlServer {
    const { cluster } = this.#options;
    const logger = answerer instanceof StandbyAgent ? answerer.logger : answerer.context.logger;
    const handlers = new Handlers(logger, this.#ending.signal, callerNames(cluster));
    if (answerer instanceof StandbyAgent) return standbyCalls(answerer, cluster, handlers);
    return agentCalls(answerer, this.#options, handlers);
  }

  /** Throws `InUse` when another process listens on the socket or port. */
  async listen(): Promise<void> {
    const { socket, tcp } = this.#options;
    await bindSocket(this.#server, socket, 'set control.socket to another path');
    if (tcp === undefined) return;
    const { createCertificateProviderServerCredentials } = experimental;
    const mutual = createCertificateProviderServerCredentials(tcp.files, tcp.files, true);
    const address = formatEndpoint(tcp.listen);
    const port = await bind(this.#server, address, mutual).catch((error: Error) => {
      throw bindError(address, error);
    });
    this.tcpAddress = formatEndpoint({ host: tcp.listen.host, port });
  }

  /** Ends streams and waits for calls in flight, at most for `deadlineMs`. Idempotent. */
  async close(deadlineMs: number): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort(new HearthError('Unavailable', 'the agent is shutting down; try again when the agent is back'));
    const { clock = systemClock } = this.#options;
    const cancel = clock.schedule(deadlineMs, () => this.#server.forceShutdown());
    await new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve()));
    cancel();
    await unlink(this.#options.socket).catch(() => {});
  }
}

function bindError(address: string, error: Error): HearthError {
  if (error.message.includes('EADDRINUSE')) {
    const words = `${address} is in use by another program; stop it or set control.listen to another address`;
    return new HearthError('InUse', words);
  }
  return new HearthError(
    'IoError',
    `the control API cannot listen on ${address} (${error.message}); set control.listen to another address`,
  );
}

function agentCalls(agent: Agent, options: ControlOptions, handlers: Handlers): ControlServer {
  const datasets = new DatasetCalls(agent, options.prepare);
  const warm = new WarmCalls(agent);
  const status = new StatusCalls(sightOf(agent), options.cluster);
  const nodes = new NodeCalls(agent);
  const pins = new PinCalls(agent);
  const files = new FileCalls(agent);
  const credentials = new CredentialCalls(agent, options.cluster);
  const volumes = new VolumeCalls(agent);
  const writable = new WritableVolumeCalls(agent);
  const advice = new AdviceCalls(agent);
  const tokens = new TokenCalls(agent, options);
  const revocations = new RevocationCalls(agent);
  return {
    getStatus: handlers.unary('GetStatus', (request, signal) => status.getStatus(request, signal)),
    watchStatus: handlers.streaming('WatchStatus', (request, signal) => status.watchStatus(request, signal)),
    watchNode: handlers.streaming('WatchNode', (request, signal) =>
      watchNode(agent.statistics.history, request, signal, agent.context.clock),
    ),
    configureNode: handlers.unary('ConfigureNode', (request) => status.configureNode(request)),
    addDataset: handlers.streaming('AddDataset', (request, signal) => datasets.addDataset(request, signal)),
    listDatasets: handlers.unary('ListDatasets', (request, signal) => datasets.listDatasets(request, signal)),
    getDataset: handlers.unary('GetDataset', (request, signal) => datasets.getDataset(request, signal)),
    removeDataset: handlers.unary('RemoveDataset', (request, signal) => datasets.removeDataset(request, signal)),
    listEntries: handlers.streaming('ListEntries', (request, signal) => datasets.listEntries(request, signal)),
    setCredentials: handlers.unary('SetCredentials', (request, signal, caller) =>
      credentials.setCredentials(request, caller, signal),
    ),
    getCredentials: handlers.unary('GetCredentials', (request, _signal, caller) =>
      credentials.getCredentials(request, caller),
    ),
    createWarmJob: handlers.unary('CreateWarmJob', (request, signal) => warm.createWarmJob(request, signal)),
    getWarmJob: handlers.unary('GetWarmJob', (request) => warm.getWarmJob(request)),
    listWarmJobs: handlers.unary('ListWarmJobs', () => warm.listWarmJobs()),
    watchWarmJob: handlers.streaming('WatchWarmJob', (request, signal) => warm.watchWarmJob(request, signal)),
    cancelWarmJob: handlers.unary('CancelWarmJob', (request) => warm.cancelWarmJob(request)),
    measureFiles: handlers.unary('MeasureFiles', (request, signal) => warm.measureFiles(request, signal)),
    mount: handlers.local('Mount', (request, signal) => nodes.mount(request, signal)),
    unmount: handlers.local('Unmount', (request) => nodes.unmount(request)),
    listMounts: handlers.local('ListMounts', () => nodes.listMounts()),
    publishVolume: handlers.local('PublishVolume', (request, signal) => volumes.publishVolume(request, signal)),
    createVolume: handlers.unary('CreateVolume', (request, signal) => volumes.createVolume(request, signal)),
    getVolume: handlers.unary('GetVolume', (request, signal) => volumes.getVolume(request, signal)),
    listVolumes: handlers.unary('ListVolumes', (_request, signal) => volumes.listVolumes(signal)),
    deleteVolume: handlers.unary('DeleteVolume', (request, signal) => volumes.deleteVolume(request, signal)),
    createWritableVolume: handlers.unary('CreateWritableVolume', (request, signal) => writable.create(request, signal)),
    getWritableVolume: handlers.unary('GetWritableVolume', (request, signal) => writable.get(request, signal)),
    listWritableVolumes: handlers.unary('ListWritableVolumes', (_request, signal) => writable.list(signal)),
    resizeWritableVolume: handlers.unary('ResizeWritableVolume', (request, signal) => writable.resize(request, signal)),
    deleteWritableVolume: handlers.unary('DeleteWritableVolume', (request, signal) => writable.delete(request, signal)),
    createToken: handlers.local('CreateToken', async (request) => tokens.createToken(request)),
    revokeTokens: handlers.unary('RevokeTokens', (request, signal) => revocations.revoke(request, signal)),
    permitTokens: handlers.unary('PermitTokens', (request, signal) => revocations.permit(request, signal)),
    listRevocations: handlers.unary('ListRevocations', (_request, signal) => revocations.list(signal)),
    pin: handlers.unary('Pin', (request, signal) => pins.pin(request, signal)),
    unpin: handlers.unary('Unpin', (request, signal) => pins.unpin(request, signal)),
    listPins: handlers.unary('ListPins', (request, signal) => pins.listPins(request, signal)),
    releasePins: handlers.unary('ReleasePins', (request, signal) => pins.releasePins(request, signal)),
    evict: handlers.unary('Evict', (request, signal) => nodes.evict(request, signal)),
    advise: handlers.unary('Advise', (request, signal) => advice.advise(request, signal)),
    verify: handlers.streaming('Verify', (request, signal) => files.verify(request, signal)),
    read: handlers.streaming('Read', (request, signal) => files.read(request, signal)),
  };
}
