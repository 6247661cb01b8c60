import { createHash } from 'node:crypto';
import { HearthError, ignoring } from '@hearth/common';
import type { Volume as VolumeRecord } from '@hearth/common/generated/hearth/v1/control.ts';
import { clusterTopologyKey, topologyValue } from '@hearth/common/names';
import type { ControlCalls } from '../agent/index.ts';
import { CsiError, invalidArgument } from '../csi_error.ts';
import * as csi from '../generated/csi/csi.ts';
import { attributeNames } from '../names.ts';
import { checkCapabilities, chosenBy, type DatasetChoice, registeredName } from '../volume_request.ts';

const Rpc = csi.ControllerServiceCapability_RPC_Type;

/**
 * CSI's Controller service for one cluster, for orchestrators other than Kubernetes. A volume is a name for a dataset,
 * so creation moves no bytes. Agents keep a record of each volume, since such orchestrators refer to volumes by name
 * alone. Throws HearthError.
 */
export class ControllerService {
  readonly #control: ControlCalls;
  #cluster: string | undefined;

  constructor(control: ControlCalls) {
    this.#control = control;
  }

  controllerGetCapabilities(): csi.ControllerGetCapabilitiesResponse {
    const types = [Rpc.CREATE_DELETE_VOLUME, Rpc.LIST_VOLUMES, Rpc.SINGLE_NODE_MULTI_WRITER];
    return { capabilities: types.map((type) => ({ type: { $case: 'rpc', value: { type } } })) };
  }

  /** The same name returns the same volume, or `ALREADY_EXISTS`. The capacity is the larger of request and dataset. */
  async createVolume(request: csi.CreateVolumeRequest, signal: AbortSignal): Promise<csi.CreateVolumeResponse> {
    const name = volumeIdOf(request.name);
    checkCapabilities(request.volumeCapabilities);
    if (request.volumeContentSource !== undefined) {
      throw invalidArgument(
        'volumes of Hearth are not made from snapshots or other volumes; use dataSourceRef with a Dataset',
      );
    }
    if (Object.keys(request.mutableParameters).length > 0)
      throw invalidArgument('volumes of Hearth have no mutable parameters');
    const range = rangeOf(request.capacityRange);
    const choice = chosenBy(request.parameters);
    const cluster = await this.#checkedCluster(choice, signal);
    const wanted = { name, dataset: registeredName(choice), manifest: choice.revision };
    const present = await this.#find(name, signal);
    if (present !== undefined) return { volume: toVolume(checkFit(present, wanted, range), cluster) };
    const capacityBytes = capacityOf(await this.#size(choice, cluster, signal), range);
    return { volume: toVolume(await this.#create({ ...wanted, capacityBytes }, range, signal), cluster) };
  }

  async deleteVolume(request: csi.DeleteVolumeRequest, signal: AbortSignal): Promise<csi.DeleteVolumeResponse> {
    const name = checkedId(request.volumeId);
    await this.#control.call('deleteVolume', { name }, { signal }).catch(ignoring('NotFound'));
    return {};
  }

  async validateVolumeCapabilities(
    request: csi.ValidateVolumeCapabilitiesRequest,
    signal: AbortSignal,
  ): Promise<csi.ValidateVolumeCapabilitiesResponse> {
    const id = checkedId(request.volumeId);
    const { volumeCapabilities, volumeContext, parameters, mutableParameters } = request;
    if (volumeCapabilities.length === 0) throw invalidArgument('the volume capabilities are missing');
    if ((await this.#find(id, signal)) === undefined) throw new CsiError('NOT_FOUND', `there is no volume ${id}`);
    try {
      checkCapabilities(volumeCapabilities);
    } catch (thrown) {
      return { confirmed: undefined, message: HearthError.from(thrown).message };
    }
    return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters }, message: '' };
  }

  async listVolumes(request: csi.ListVolumesRequest, signal: AbortSignal): Promise<csi.ListVolumesResponse> {
    const { volumes } = await this.#control.call('listVolumes', {}, { signal });
    // Volumes without a namespace belong to other programs.
    const ours = volumes.filter(({ dataset }) => dataset.includes('.'));
    const page = pageOf(ours, request.maxEntries, request.startingToken);
    const cluster = await this.#ownCluster(signal);
    const entries = page.volumes.map((record) => ({ volume: toVolume(record, cluster), status: undefined }));
    return { entries, nextToken: page.nextToken };
  }

  /** A concurrent call may have created the volume. */
  async #create(record: VolumeRecord, range: Range, signal: AbortSignal): Promise<VolumeRecord> {
    try {
      return await this.#control.call('createVolume', record, { signal });
    } catch (thrown) {
      if (!(thrown instanceof HearthError) || thrown.code !== 'AlreadyExists') throw thrown;
      const present = await this.#find(record.name, signal);
      if (present === undefined) throw thrown;
      return checkFit(present, record, range);
    }
  }

  async #find(name: string, signal: AbortSignal): Promise<VolumeRecord | undefined> {
    return await this.#control.call('getVolume', { name }, { signal }).catch(ignoring('NotFound'));
  }

  async #ownCluster(signal: AbortSignal): Promise<string> {
    this.#cluster ??= (await this.#control.call('getStatus', { recordsOnly: true }, { signal })).cluster;
    return this.#cluster;
  }

  async #checkedCluster({ cluster }: DatasetChoice, signal: AbortSignal): Promise<string> {
    const own = await this.#ownCluster(signal);
    if (cluster === undefined || cluster === own) return own;
    throw invalidArgument(`this controller serves StorageCluster ${own}, and the parameter cluster names ${cluster}`);
  }

  async #size(choice: DatasetChoice, cluster: string, signal: AbortSignal): Promise<bigint> {
    const what = `Dataset ${choice.namespace}/${choice.dataset}`;
    const request = { name: registeredName(choice), recordsOnly: true };
    const found = await this.#control.call('getDataset', request, { signal }).catch(ignoring('NotFound'));
    if (found === undefined) {
      throw new CsiError(
        'NOT_FOUND',
        `${what} is not known in StorageCluster ${cluster}; check: kubectl -n ${choice.namespace} get dataset ${choice.dataset}`,
      );
    }
    // A dataset with a revision is usable while agents list a newer one.
    if (found.manifest !== '') return found.bytes;
    const why = found.message === '' ? 'it is being resolved' : found.message;
    throw new CsiError('UNAVAILABLE', `${what} has no revision yet (${why}); the volume is made when it has one`);
  }
}

type Range = { required: bigint; limit: bigint };

function rangeOf(range: csi.CapacityRange | undefined): Range {
  const { requiredBytes: required, limitBytes: limit } = range ?? { requiredBytes: 0n, limitBytes: 0n };
  if (required < 0n || limit < 0n) throw invalidArgument('the capacity must not be negative');
  if (limit !== 0n && required > limit) throw invalidArgument('the capacity required is more than its limit');
  return { required, limit };
}

function capacityOf(datasetBytes: bigint, { required, limit }: Range): bigint {
  const capacity = datasetBytes > required ? datasetBytes : required;
  if (limit === 0n || capacity <= limit) return capacity;
  throw new CsiError('OUT_OF_RANGE', `the dataset has ${datasetBytes} bytes, which is more than the limit of ${limit}`);
}

function checkFit(present: VolumeRecord, wanted: Omit<VolumeRecord, 'capacityBytes'>, range: Range): VolumeRecord {
  const { name, dataset, manifest, capacityBytes } = present;
  const same = dataset === wanted.dataset && manifest === wanted.manifest;
  if (same && capacityBytes >= range.required && (range.limit === 0n || capacityBytes <= range.limit)) return present;
  throw new CsiError(
    'ALREADY_EXISTS',
    `volume ${name} was made for dataset ${dataset} with ${capacityBytes} bytes, which is not what is asked for now; choose another name, or delete it first`,
  );
}

function toVolume({ name, dataset, capacityBytes, manifest }: VolumeRecord, cluster: string): csi.Volume {
  const dot = dataset.indexOf('.');
  return {
    volumeId: name,
    capacityBytes,
    volumeContext: {
      [attributeNames.cluster]: cluster,
      [attributeNames.namespace]: dataset.slice(0, dot),
      [attributeNames.dataset]: dataset.slice(dot + 1),
      ...(manifest === '' ? {} : { [attributeNames.revision]: manifest }),
    },
    contentSource: undefined,
    accessibleTopology: [{ segments: { [clusterTopologyKey(cluster)]: topologyValue } }],
  };
}

function checkedId(id: string): string {
  if (id !== '') return id;
  throw invalidArgument('the volume id is missing');
}

/** The specification's limit for strings, bytes of UTF-8. */
const longestName = 128;
/** The specification forbids control characters except tab, line feed and carriage return. */
const forbidden = /[^\P{Cc}\t\n\r]/u;
const plain = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** The name itself, such as `pvc-<uid>`, or a digest for other characters. Throws `INVALID_ARGUMENT`. */
export function volumeIdOf(name: string): string {
  if (name === '') throw invalidArgument('the name of the volume is missing');
  if (Buffer.byteLength(name) > longestName) {
    throw invalidArgument(`the name of the volume is longer than ${longestName} bytes`);
  }
  if (forbidden.test(name)) throw invalidArgument('the name of the volume has control characters');
  if (plain.test(name)) return name;
  return `volume-${createHash('sha256').update(name).digest('hex').slice(0, 40)}`;
}

type Page = { volumes: VolumeRecord[]; nextToken: string };

const tokenPrefix = 'after:';

/** Continues after the token's name, so that deletions lose nothing. Throws `ABORTED` for a foreign token. */
export function pageOf(volumes: VolumeRecord[], maxEntries: number, token: string): Page {
  if (maxEntries < 0) throw invalidArgument('max_entries must not be negative');
  if (token !== '' && !token.startsWith(tokenPrefix)) {
    throw new CsiError('ABORTED', 'the starting token is none that this driver gave out; list from the beginning');
  }
  const after = token.slice(tokenPrefix.length);
  const rest = volumes.filter(({ name }) => name > after).sort((a, b) => (a.name < b.name ? -1 : 1));
  const page = maxEntries === 0 ? rest : rest.slice(0, maxEntries);
  const last = page.at(-1);
  return { volumes: page, nextToken: last !== undefined && page.length < rest.length ? tokenPrefix + last.name : '' };
}
