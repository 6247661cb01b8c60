import type { OpenOrigin } from '../datasets/index.ts';
import { createOrigin, type PublishedVolumes } from '../origins/index.ts';

/** Opens origins like `open`, and those of volumes, which only a running agent can read. */
export function withVolumes(open: OpenOrigin, volumes: PublishedVolumes): OpenOrigin {
  return (source, ...rest) =>
    source.kind?.$case === 'volume' ? createOrigin(source, { volumes }) : open(source, ...rest);
}
