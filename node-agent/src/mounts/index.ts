/** Mounts of datasets and writable volumes on this node, and the holder that keeps them. */
export { HolderWatch } from './holder_watch.ts';
export { isMounted, unmountForeign } from './kernel_mounts.ts';
export { type MountRow, Mounts, type SeenMount, volumeName, volumePrefix } from './mounts.ts';
