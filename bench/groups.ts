import type { Group } from './plan.ts';
import { clients } from './rows/clients.ts';
import { coldHttp } from './rows/cold_http.ts';
import { coldHub } from './rows/cold_hub.ts';
import { coldS3 } from './rows/cold_s3.ts';
import { completeFile } from './rows/complete_file.ts';
import { epoch } from './rows/epoch.ts';
import { findChunk } from './rows/find_chunk.ts';
import { gates } from './rows/gates.ts';
import { hitRatio } from './rows/hit_ratio.ts';
import { idleOperator } from './rows/idle_operator.ts';
import { kvBlocks } from './rows/kv_blocks.ts';
import { limits } from './rows/limits.ts';
import { linkReads } from './rows/links.ts';
import { loadSlices } from './rows/load_slices.ts';
import { loops } from './rows/loops.ts';
import { manyAgents } from './rows/many_agents.ts';
import { oneFile } from './rows/one_file.ts';
import { countedOrigin } from './rows/origin_bytes.ts';
import { planner } from './rows/planner.ts';
import { preloaded, preloadedLoad } from './rows/preloaded.ts';
import { remoteReads } from './rows/remote.ts';
import { smallCold } from './rows/small_cold.ts';
import { smallFiles } from './rows/small_files.ts';
import { spreading } from './rows/spread.ts';
import { storeWrites } from './rows/store_writes.ts';
import { storms } from './rows/storm.ts';
import { transport } from './rows/transport.ts';
import { volumeDataset } from './rows/volume_dataset.ts';
import { volumeNames } from './rows/volume_names.ts';
import { volumes } from './rows/volumes.ts';
import { warmDirectory } from './rows/warm_directory.ts';
import { warmS3 } from './rows/warm_s3.ts';

/** In the order in which they are measured. */
const all: readonly Group[] = [
  completeFile,
  preloaded,
  preloadedLoad,
  loadSlices,
  smallFiles,
  smallCold,
  epoch,
  coldHttp,
  coldHub,
  coldS3,
  oneFile,
  countedOrigin,
  warmDirectory,
  warmS3,
  spreading,
  storms,
  remoteReads,
  clients,
  linkReads,
  findChunk,
  loops,
  volumes,
  volumeNames,
  kvBlocks,
  volumeDataset,
  transport,
  limits,
  planner,
  storeWrites,
  hitRatio,
  gates,
  idleOperator,
  manyAgents,
];

/** True when a row was asked for: by its id or a beginning of it. */
export const isWanted = (rows: readonly string[], id: string): boolean =>
  rows.length === 0 || rows.some((word) => id.startsWith(word));

/** Groups that have a row which was asked for. None was named: all but those that take long. */
export const groupsOf = (rows: readonly string[], among: readonly Group[] = all): Group[] =>
  among.filter(({ ids, long }) =>
    rows.length === 0
      ? long !== true
      : ids.some((id) => rows.some((word) => id.startsWith(word) || word.startsWith(id))),
  );
