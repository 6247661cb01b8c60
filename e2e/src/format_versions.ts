import type { baseline } from './previous_release.ts';

type Format = keyof typeof baseline.formats;

/** Where a release says which version of each format it writes; the control API's place has changed once. */
const places: Record<Format, readonly (readonly [path: string, version: RegExp])[]> = {
  wire: [['native/wire/frame.h', / kWireVersion = (\d+);/]],
  holder: [['native/holder/holder_protocol.h', / kHolderVersion = (\d+);/]],
  manifest: [['native/manifest/format.h', / kVersion = (\d+);/]],
  residencyLog: [['native/cache/residency_replay.h', / kLogVersion = (\d+);/]],
  controlApi: [
    ['common/src/control_api.ts', / controlApi: ApiOffer = \{ apiVersion: (\d+),/],
    ['node-agent/src/control/status_calls.ts', /^const apiVersion = (\d+);/m],
  ],
  records: [['node-agent/src/records/format.ts', / recordFormat = (\d+);/]],
};

/** The versions of all formats, by the text of its sources; `read` gives undefined for what is not there. */
export async function formatVersions(
  read: (path: string) => Promise<string | undefined>,
): Promise<Record<Format, number>> {
  const versions: Partial<Record<Format, number>> = {};
  for (const [format, candidates] of Object.entries(places)) {
    for (const [path, version] of candidates) {
      const found = version.exec((await read(path)) ?? '')?.[1];
      if (found === undefined) continue;
      versions[format as Format] = Number(found);
      break;
    }
    if (!(format in versions)) throw new Error(`no source says which version of ${format} it writes`);
  }
  return versions as Record<Format, number>;
}
