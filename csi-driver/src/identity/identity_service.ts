import {
  type GetPluginCapabilitiesResponse,
  type GetPluginInfoResponse,
  PluginCapability_Service_Type as Service,
} from '../generated/csi/csi.ts';
import { driverName } from '../names.ts';

export interface IdentityOptions {
  version: string;
  /** Whether the Controller service is on the same socket. */
  controller: boolean;
}

/** CSI's Identity service. */
export class IdentityService {
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
