/** Origins of bytes: HTTP, S3, hubs, directories. */
export { createOrigin } from './create_origin.ts';
export { DirectoryCalls } from './directory_calls.ts';
export {
  checkMirrors,
  comparesTags,
  hasOwn,
  mirrorsOf,
  placeKey,
  placeName,
  sameMirrors,
  samePlaces,
} from './mirrors.ts';
export type { LocatableEntry, Origin, OriginBase, OriginOptions, OriginRevision, Source } from './origin.ts';
export { collectConcurrently } from './row_stream.ts';
export { describeSource, parseSource } from './source.ts';
export { type Environment, proxiesOf, withEnvironment } from './source_environment.ts';
export type { PublishedVolumes } from './volume_origin.ts';
