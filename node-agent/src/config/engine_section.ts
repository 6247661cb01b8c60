import { z } from 'zod';
import { parseAmount, parseSize } from './quantity.ts';
import { countBetween, listOf, oneOf, optionalSetting, setting } from './setting.ts';

const parsePortPattern = (value: unknown) =>
  typeof value === 'string' && /^[\w.*?[\]!^-]{1,64}(\/\d)?$/.test(value) ? value : undefined;

/** Resources of the machine for the engine: threads, connections, memory. */
export const engineSection = z
  .strictObject({
    shards: setting(
      {
        description: 'Threads of the engine, each owning a part of the keys; 0 chooses by the number of cores.',
        allowed: 'a number from 0 to 256',
        form: 'text',
      },
      countBetween(0, 256),
      '0',
    ),
    originConnections: setting(
      {
        description: 'Maximum number of parallel requests to origins.',
        allowed: 'a number from 1 to 1024',
        form: 'text',
      },
      countBetween(1, 1024),
      '32',
    ),
    bufferBytes: optionalSetting(
      {
        description:
          'Memory for chunks, allocated at the start: fetched bytes land there before they are written. Less than 40MiB for each of the shards counts as 40MiB each. Absent: 512MiB; 256MiB beside memoryBytes, because whole files in memory serve readers then.',
        allowed: 'a size of at least 32MiB, for example 512MiB',
        form: 'text',
      },
      (value) => {
        const size = parseSize(value);
        return size !== undefined && size >= 32n << 20n ? size : undefined;
      },
    ),
    memoryBytes: setting(
      {
        description:
          'Memory for whole files beside that: warm jobs copy files there, and applications read them at memory speed. The mount holder keeps it for the next agent. 0 turns it off.',
        allowed: "a size, for example 64GiB, or a share of the machine's memory, for example 25%",
        form: 'text',
      },
      parseAmount,
      '0',
    ),
    pages: setting(
      {
        description:
          'Preferred pages for that memory. The administrator reserves huge-2Mi and huge-1Gi pages; without them the agent uses smaller pages, and status gives the reason.',
        allowed: 'transparent, huge-2Mi or huge-1Gi',
        form: 'text',
      },
      oneOf('transparent', 'huge-2Mi', 'huge-1Gi'),
      'transparent',
    ),
    rdma: setting(
      {
        description:
          'Reads between agents by RDMA. auto: over RDMA where both agents have a port, else over TCP, and status gives the reason; required: the agent does not start without a port. RDMA pins the memory for chunks, which needs CAP_IPC_LOCK or an equally large limit of locked memory.',
        allowed: 'off, auto or required',
        form: 'text',
      },
      oneOf('off', 'auto', 'required'),
      'off',
    ),
    rdmaDevices: setting(
      {
        description: 'Patterns of permitted RDMA devices and ports. Absent: all.',
        allowed: 'patterns of devices or ports, for example mlx5_0, mlx5_* or mlx5_1/2',
        form: 'list',
      },
      listOf(parsePortPattern),
      '',
    ),
    rdmaLibrary: optionalSetting(
      {
        description: "Library of RDMA verbs. Absent: libibverbs.so.1 on the system's library path.",
        allowed: 'a file name or an absolute path',
        form: 'text',
      },
      (value) => (typeof value === 'string' && /^[^\s/]+$|^\/\S+$/.test(value) ? value : undefined),
    ),
    scrubRate: setting(
      {
        description:
          'Bytes a second of each cache directory that the background scrub compares with their checksums; 0 turns it off.',
        allowed: 'a size, for example 20MiB, or 0',
        form: 'text',
      },
      parseSize,
      '20MiB',
    ),
  })
  .prefault({});

/** Bytes of memory for chunks where none are set. */
export function defaultBufferBytes({ memoryBytes }: z.output<typeof engineSection>): bigint {
  const keepsFiles = 'bytes' in memoryBytes ? memoryBytes.bytes > 0n : memoryBytes.basisPoints > 0;
  return (keepsFiles ? 256n : 512n) << 20n;
}
