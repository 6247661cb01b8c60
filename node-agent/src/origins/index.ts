export { createOrigin } from './create_origin.ts';
export type {
  LocatableEntry,
  Origin,
  OriginBase,
  OriginOptions,
  OriginRevision,
  S3Credentials,
} from './origin.ts';
export { describeSource, parseSource } from './source.ts';
export { withEnvironment } from './source_environment.ts';
