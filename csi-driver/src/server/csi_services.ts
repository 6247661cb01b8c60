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
  type ProbeResponse,
  PluginCapability_Service_Type as Service,
} from '../generated/csi/csi.ts';
import { driverName } from '../names.ts';
import type { NodeService as Node } from '../node/index.ts';
import type { CallHandlers } from './call_handlers.ts';

export interface IdentityOptions {
  version: string;
  /** True when the Controller service is on the same socket. */
  controller: boolean;
  /** True once calls may be made. */
  ready: () => boolean;
}

/** CSI's Identity service. */
export class Identity {
  readonly #options: IdentityOptions;

  constructor(options: IdentityOptions) {
    this.#options = options;
  }

  getPluginInfo(): GetPluginInfoResponse {
    return { name: driverName, vendorVersion: this.#options.version, manifest: {} };
  }

  /** A volume can be used only on nodes with an agent of its StorageCluster. */
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

export function addIdentity(server: Server, handlers: CallHandlers, identity: Identity): void {
  const implementation: IdentityServer = {
    getPluginInfo: handlers.unary('GetPluginInfo', () => identity.getPluginInfo(), true),
    getPluginCapabilities: handlers.unary('GetPluginCapabilities', () => identity.getPluginCapabilities(), true),
    probe: handlers.unary('Probe', () => identity.probe(), true),
  };
  server.addService(IdentityService, implementation);
}

export function addNode(server: Server, handlers: CallHandlers, node: Node): void {
  const implementation: NodeServer = {
    nodeGetInfo: handlers.unary('NodeGetInfo', () => node.nodeGetInfo(), true),
    nodeGetCapabilities: handlers.unary('NodeGetCapabilities', () => node.nodeGetCapabilities(), true),
    nodeStageVolume: handlers.unary('NodeStageVolume', (request) => node.nodeStageVolume(request)),
    nodeUnstageVolume: handlers.unary('NodeUnstageVolume', (request) => node.nodeUnstageVolume(request)),
    nodePublishVolume: handlers.unary('NodePublishVolume', (request, signal) =>
      node.nodePublishVolume(request, signal),
    ),
    nodeUnpublishVolume: handlers.unary('NodeUnpublishVolume', (request) => node.nodeUnpublishVolume(request)),
    nodeGetVolumeStats: handlers.unary('NodeGetVolumeStats', (request) => node.nodeGetVolumeStats(request), true),
    nodeExpandVolume: handlers.unsupported('NodeExpandVolume'),
    nodeGetVolumeHealth: handlers.unsupported('NodeGetVolumeHealth'),
    nodeGetStorageHealth: handlers.unsupported('NodeGetStorageHealth'),
  };
  server.addService(NodeService, implementation);
}

export function addController(server: Server, handlers: CallHandlers, controller: Controller): void {
  const implementation: ControllerServer = {
    controllerGetCapabilities: handlers.unary(
      'ControllerGetCapabilities',
      () => controller.controllerGetCapabilities(),
      true,
    ),
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
