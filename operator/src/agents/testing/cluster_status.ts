import type { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from '../agents.ts';
import { StatusAssembly } from '../status_assembly.ts';

/** The status that one agent's message alone makes. */
export function clusterStatus(message: GetStatusResponse, receivedAt: number): ClusterStatus {
  const assembly = new StatusAssembly();
  assembly.applyRecords(message, receivedAt);
  return assembly.build() as ClusterStatus;
}
