/** Where bytes come from: HTTP, S3, hubs, directories. */
export { createOrigin } from './create_origin.ts';
export type {
  LocatableEntry,
  Origin,
  OriginBase,
  OriginOptions,
  OriginRevision,
  S3Credentials,
  Source,
} from './origin.ts';
export { collectConcurrently } from './row_stream.ts';
export { describeSource, parseSource } from './source.ts';
export { type Environment, withEnvironment } from './source_environment.ts';
