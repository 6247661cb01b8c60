import type { Server, ServiceDefinition } from '@grpc/grpc-js';
import type { ControllerService } from '../controller/index.ts';
import {
  ControllerService as ControllerCalls,
  type GetPluginCapabilitiesResponse,
  type GetPluginInfoResponse,
  IdentityService,
  NodeService as NodeCalls,
  type ProbeResponse,
  PluginCapability_Service_Type as Service,
} from '../generated/csi/csi.ts';
import { driverName } from '../names.ts';
import type { NodeService } from '../node/index.ts';
import type { CallHandlers } from './call_handlers.ts';

export type IdentityOptions = { version: string; controller: boolean; ready: () => boolean };

export class Identity {
  readonly #options: IdentityOptions;

  constructor(options: IdentityOptions) {
    this.#options = options;
  }

  getPluginInfo(): GetPluginInfoResponse {
    return { name: driverName, vendorVersion: this.#options.version, manifest: {} };
  }

  /** Only nodes with an agent of its StorageCluster can use a volume. */
  getPluginCapabilities(): GetPluginCapabilitiesResponse {
    const types = [
      Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,
      ...(this.#options.controller ? [Service.CONTROLLER_SERVICE] : []),
    ];
    return { capabilities: types.map((type) => ({ type: { $case: 'service', value: { type } } })) };
  }

  probe(): ProbeResponse {
    return { ready: this.#options.ready() };
  }
}

export interface CsiServices {
  identity: Identity;
  node: NodeService;
  controller: ControllerService | undefined;
}

export function addCsiServices(
  server: Server,
  handlers: CallHandlers,
  { identity, node, controller }: CsiServices,
): void {
  addService(server, handlers, IdentityService, identity);
  addService(server, handlers, NodeCalls, node);
  if (controller !== undefined) addService(server, handlers, ControllerCalls, controller);
}

type Calls = Record<
  string,
  { requestSerialize: (request: never) => Buffer; responseDeserialize: (text: Buffer) => unknown }
>;

/** A method for each implemented call, named after it. */
type Answers<S extends Calls> = {
  [Name in keyof S]?: (
    request: Parameters<S[Name]['requestSerialize']>[0],
    signal: AbortSignal,
  ) => ReturnType<S[Name]['responseDeserialize']> | Promise<ReturnType<S[Name]['responseDeserialize']>>;
};

const quiet = new Set([
  'getPluginInfo',
  'getPluginCapabilities',
  'probe',
  'nodeGetInfo',
  'nodeGetCapabilities',
  'nodeGetVolumeStats',
  'controllerGetCapabilities',
]);

/** Calls without a method end with `UNIMPLEMENTED`. */
export function addService<S extends Calls & ServiceDefinition>(
  server: Server,
  handlers: CallHandlers,
  service: S,
  answers: Answers<S>,
): void {
  const methods = answers as Record<string, ((request: unknown, signal: AbortSignal) => unknown) | undefined>;
  const calls = Object.entries(service).map(([key, { path }]) => {
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (methods[key] === undefined) return [key, handlers.unsupported(name)];
    return [key, handlers.unary(name, (request, signal) => methods[key]?.(request, signal), quiet.has(key))];
  });
  server.addService(service, Object.fromEntries(calls));
}
