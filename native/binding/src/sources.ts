import type { DatasetRevision } from './engine.ts';

/** One of the places that a revision can be read from. */
export interface RevisionSource extends DatasetRevision {
  /** 0, or left out: the first, which was listed. 1: the first of its mirrors. */
  source?: number;
}

/** A mirror, as the engine has to know it. */
export interface MirrorPlace {
  /** For people, without secrets. */
  name: string;
  /**
   * Equal ETags at the source and here prove equal bytes, where they are an MD5 (32 digits 0-9a-f, not all zero), with or
   * without "-" and the number of parts.
   */
  sameTags: boolean;
}

/** Of one source of a dataset, since its mirrors were set. */
export interface SourceStatistics {
  /** As it was given; '' of the first source. */
  name: string;
  /** Of files, that came from it. */
  bytes: bigint;
  requests: bigint;
  failures: bigint;
  /** Requests that went on to another source because this one was slow. */
  stragglers: bigint;
  /** Files that are not taken from it: it lacks them, has them otherwise, or nothing proves that it has the same. */
  unproved: bigint;
  /** Why it is put aside now; '': it is not. */
  aside: string;
}
