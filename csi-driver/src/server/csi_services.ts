import type { Server } from '@grpc/grpc-js';
import type { ControllerService as Controller } from '../controller/index.ts';
import {
  type ControllerServer,
  ControllerService,
  type GetPluginCapabilitiesResponse,
  type GetPluginInfoResponse,
  type IdentityServer,
  IdentityService,
  type NodeServer,
  NodeService,
  PluginCapability_Service_Type as Service,
} from '../generated/csi/csi.ts';
import { driverName } from '../names.ts';
import type { NodeService as Node } from '../node/index.ts';
import type { CallHandlers } from './call_handlers.ts';

export interface IdentityOptions {
  version: string;
  /** Whether the Controller service is on the same socket. */
  controller: boolean;
}

/** CSI's Identity service. */
export class Identity {
  readonly #options: IdentityOptions;

  constructor(options: IdentityOptions) {
    this.#options = options;
  }

  info(): GetPluginInfoResponse {
    return { name: driverName, vendorVersion: this.#options.version, manifest: {} };
  }

  /** Every node sees every volume, so nothing is said of topology; which node is near to the bytes is no constraint. */
  capabilities(): GetPluginCapabilitiesResponse {
    if (!this.#options.controller) return { capabilities: [] };
    return { capabilities: [{ type: { $case: 'service', value: { type: Service.CONTROLLER_SERVICE } } }] };
  }
}

/** `ready`: whether calls may be made already. */
export function addIdentity(server: Server, handlers: CallHandlers, identity: Identity, ready: () => boolean): void {
  const implementation: IdentityServer = {
    getPluginInfo: handlers.unary('GetPluginInfo', () => identity.info(), true),
    getPluginCapabilities: handlers.unary('GetPluginCapabilities', () => identity.capabilities(), true),
    probe: handlers.unary('Probe', () => ({ ready: ready() }), true),
  };
  server.addService(IdentityService, implementation);
}

export function addNode(server: Server, handlers: CallHandlers, node: Node): void {
  const implementation: NodeServer = {
    nodeGetInfo: handlers.unary('NodeGetInfo', () => node.info(), true),
    nodeGetCapabilities: handlers.unary('NodeGetCapabilities', () => node.capabilities(), true),
    nodeStageVolume: handlers.unary('NodeStageVolume', (request) => node.stage(request)),
    nodeUnstageVolume: handlers.unary('NodeUnstageVolume', (request) => node.unstage(request)),
    nodePublishVolume: handlers.unary('NodePublishVolume', (request, signal) => node.publish(request, signal)),
    nodeUnpublishVolume: handlers.unary('NodeUnpublishVolume', (request) => node.unpublish(request)),
    nodeGetVolumeStats: handlers.unary('NodeGetVolumeStats', (request) => node.stats(request), true),
    nodeExpandVolume: handlers.unsupported('NodeExpandVolume'),
    nodeGetVolumeHealth: handlers.unsupported('NodeGetVolumeHealth'),
    nodeGetStorageHealth: handlers.unsupported('NodeGetStorageHealth'),
  };
  server.addService(NodeService, implementation);
}

export function addController(server: Server, handlers: CallHandlers, controller: Controller): void {
  const implementation: ControllerServer = {
    controllerGetCapabilities: handlers.unary('ControllerGetCapabilities', () => controller.capabilities(), true),
    createVolume: handlers.unary('CreateVolume', (request, signal) => controller.createVolume(request, signal)),
    deleteVolume: handlers.unary('DeleteVolume', (request, signal) => controller.deleteVolume(request, signal)),
    validateVolumeCapabilities: handlers.unary('ValidateVolumeCapabilities', (request, signal) =>
      controller.validateVolumeCapabilities(request, signal),
    ),
    listVolumes: handlers.unary('ListVolumes', (request, signal) => controller.listVolumes(request, signal)),
    controllerPublishVolume: handlers.unsupported('ControllerPublishVolume'),
    controllerUnpublishVolume: handlers.unsupported('ControllerUnpublishVolume'),
    controllerListVolumeHealth: handlers.unsupported('ControllerListVolumeHealth'),
    controllerGetVolumeHealth: handlers.unsupported('ControllerGetVolumeHealth'),
    getCapacity: handlers.unsupported('GetCapacity'),
    createSnapshot: handlers.unsupported('CreateSnapshot'),
    deleteSnapshot: handlers.unsupported('DeleteSnapshot'),
    listSnapshots: handlers.unsupported('ListSnapshots'),
    getSnapshot: handlers.unsupported('GetSnapshot'),
    controllerExpandVolume: handlers.unsupported('ControllerExpandVolume'),
    controllerGetVolume: handlers.unsupported('ControllerGetVolume'),
    controllerModifyVolume: handlers.unsupported('ControllerModifyVolume'),
  };
  server.addService(ControllerService, implementation);
}
