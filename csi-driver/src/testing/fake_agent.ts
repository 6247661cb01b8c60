import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Server, ServerCredentials, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { HearthError } from '@hearth/common';
import {
  type ClientToken,
  ControlService,
  type CreateTokenRequest,
  Dataset,
  GetStatusResponse,
  type PublishedVolume,
  type PublishVolumeRequest,
  type Volume,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { scriptedControl } from '@hearth/common/grpc/testing';

/** The control API of an agent on its socket, with the calls that the driver makes; the test decides the answers. */
export class FakeAgent {
  readonly cluster: string;
  readonly directory: string;
  readonly requests: PublishVolumeRequest[] = [];
  readonly volumes = new Map<string, Volume>();
  readonly datasets = new Map<string, Pick<Dataset, 'bytes' | 'manifest' | 'message'>>();
  publish: (request: PublishVolumeRequest) => PublishedVolume | Promise<PublishedVolume> = () => {
    throw new HearthError('NotFound', 'the test publishes nothing');
  };
  readonly tokenRequests: CreateTokenRequest[] = [];
  #server: Server | undefined;

  /** `stateDirectory`: as the driver's. */
  constructor(stateDirectory: string, cluster: string) {
    this.cluster = cluster;
    this.directory = join(stateDirectory, cluster);
  }

  get socket(): string {
    return join(this.directory, 'run', 'agent.sock');
  }

  async start(): Promise<void> {
    mkdirSync(dirname(this.socket), { recursive: true });
    const server = new Server();
    server.addService(ControlService, this.#implementation());
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(`unix:${this.socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    this.#server = server;
  }

  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  #implementation(): UntypedServiceImplementation {
    const missing = (what: string) => new HearthError('NotFound', `there is no ${what}`);
    return scriptedControl({
      publishVolume: (request: PublishVolumeRequest) => {
        this.requests.push(request);
        return this.publish(request);
      },
      createToken: (request: CreateTokenRequest): ClientToken => {
        this.tokenRequests.push(request);
        const token = `hearth-token-1.${this.tokenRequests.length}`;
        return {
          token,
          expiresAtMs: 0n,
          cluster: this.cluster,
          agents: ['gd2fs://10.0.0.1:7527', 'gd2fs://10.0.0.2:7527'],
        };
      },
      getStatus: () => GetStatusResponse.fromPartial({ cluster: this.cluster, node: 'a' }),
      getDataset: ({ name }: { name: string }) => {
        const found = this.datasets.get(name);
        if (found === undefined) throw missing(`dataset ${name}`);
        return Dataset.fromPartial({ name, ...found });
      },
      createVolume: (volume: Volume) => {
        const present = this.volumes.get(volume.name) ?? volume;
        if (JSON.stringify(textOf(present)) !== JSON.stringify(textOf(volume))) {
          throw new HearthError('AlreadyExists', `volume ${volume.name} is another one`);
        }
        this.volumes.set(volume.name, volume);
        return volume;
      },
      getVolume: ({ name }: { name: string }) => {
        const found = this.volumes.get(name);
        if (found === undefined) throw missing(`volume ${name}`);
        return found;
      },
      listVolumes: () => ({ volumes: [...this.volumes.values()] }),
      deleteVolume: ({ name }: { name: string }) => {
        this.volumes.delete(name);
        return {};
      },
    });
  }
}

function textOf({ name, dataset, capacityBytes, manifest }: Volume): string[] {
  return [name, dataset, `${capacityBytes}`, manifest];
}
