import { z } from 'zod';
import { parseSize } from './quantity.ts';
import { countBetween, listOf, oneOf, optionalSetting, setting } from './setting.ts';

const parsePortPattern = (value: unknown) =>
  typeof value === 'string' && /^[\w.*?[\]!^-]{1,64}(\/\d)?$/.test(value) ? value : undefined;

/** Resources of the machine for the engine: threads, connections, memory. */
export const engineSection = z
  .strictObject({
    shards: setting(
      {
        description: 'Threads that own keys; 0 chooses by the number of cores.',
        allowed: 'a number from 0 to 256',
        form: 'text',
      },
      countBetween(0, 256),
      '0',
    ),
    originConnections: setting(
      { description: 'Parallel requests to origins.', allowed: 'a number from 1 to 1024', form: 'text' },
      countBetween(1, 1024),
      '32',
    ),
    bufferBytes: setting(
      {
        description: 'Memory for chunks, taken at the start: what comes in lands there before it is written.',
        allowed: 'a size of at least 32MiB, for example 512MiB',
        form: 'text',
      },
      (value) => {
        const size = parseSize(value);
        return size !== undefined && size >= 32n << 20n ? size : undefined;
      },
      '512MiB',
    ),
    pages: setting(
      {
        description:
          'The best pages that are asked for that memory. Those of huge-2Mi and huge-1Gi are set apart by the administrator; where they are not there, worse ones are taken and status says why.',
        allowed: 'transparent, huge-2Mi or huge-1Gi',
        form: 'text',
      },
      oneOf('transparent', 'huge-2Mi', 'huge-1Gi'),
      'transparent',
    ),
    rdma: setting(
      {
        description:
          'Whether this agent and others read from each other by RDMA where both have a port: auto where that works, with TCP where not, and status says why; required does not start without a port. The memory for chunks is pinned then, which needs a limit of locked memory as large, or CAP_IPC_LOCK.',
        allowed: 'off, auto or required',
        form: 'text',
      },
      oneOf('off', 'auto', 'required'),
      'off',
    ),
    rdmaDevices: setting(
      {
        description: 'RDMA devices and ports that may be used, as patterns. Absent: all.',
        allowed: 'patterns of devices or ports, for example mlx5_0, mlx5_* or mlx5_1/2',
        form: 'list',
      },
      listOf(parsePortPattern),
      '',
    ),
    rdmaLibrary: optionalSetting(
      {
        description: 'Library of RDMA verbs. Absent: libibverbs.so.1, where the system looks for libraries.',
        allowed: 'a file name or an absolute path',
        form: 'text',
      },
      (value) => (typeof value === 'string' && /^[^\s/]+$|^\/\S+$/.test(value) ? value : undefined),
    ),
    scrubRate: setting(
      {
        description:
          'What the background scrub reads of each cache directory in a second, to compare it with its checksums; 0 turns it off.',
        allowed: 'a size, for example 20MiB, or 0',
        form: 'text',
      },
      parseSize,
      '20MiB',
    ),
  })
  .prefault({});
