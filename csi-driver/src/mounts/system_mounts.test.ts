import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rename } from 'node:fs/promises';
import { silentLogger } from '@hearth/common';
import { FrozenFuse, needsRoot, TemporaryFolder, until } from '@hearth/common/testing';
import { runChild } from './child.ts';
import { isBarrier, isWriteProtected, mountAt, parseMountInfo } from './mount_calls.ts';
import { labelOption, SystemMounts } from './system_mounts.ts';

const free = { noexec: false };

describe('the label of mounts', () => {
  const table = (options: string) => parseMountInfo(Buffer.from(`22 1 0:21 / / rw - xfs /dev/vda1 ${options}\n`));

  it('is one that every container may read where SELinux labels files, and none elsewhere', () => {
    assert.deepEqual(labelOption(table('rw,seclabel,attr2')), ['context="system_u:object_r:container_file_t:s0"']);
    assert.deepEqual(labelOption(table('rw,attr2')), []);
  });
});

describe('SystemMounts', () => {
  let folder: TemporaryFolder;
  let mounts: SystemMounts;
  let source: string;
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };

  before(function () {
    needsRoot(this);
  });
  beforeEach(() => {
    folder = new TemporaryFolder('csi');
    source = folder.file('source');
    mkdirSync(`${source}/sub`, { recursive: true });
    writeFileSync(`${source}/sub/file`, 'bytes');
    mkdirSync(folder.file('kubelet/pod'), { recursive: true });
    mounts = new SystemMounts({ kubeletDirectory: folder.file('kubelet'), deadlineMs: 300_000, logger });
    warnings.length = 0;
  });
  afterEach(() => folder?.remove());

  const publish = async (target: string, restrictions = free): Promise<void> => {
    await mounts.makeTarget(target);
    await mounts.bind(source, target, restrictions);
    await mounts.restrict(target, restrictions);
  };
  const at = async (path: string) => mountAt(await mounts.table(), path);

  it('binds a folder so that it can be read and not written', async () => {
    const target = folder.file('kubelet/pod/mount');
    await publish(target);
    assert.equal(readFileSync(`${target}/sub/file`, 'utf8'), 'bytes');
    for (const write of [
      () => writeFileSync(`${target}/new`, ''),
      () => writeFileSync(`${target}/sub/file`, ''),
      () => chmodSync(`${target}/sub/file`, 0o777),
      () => rmdirSync(`${target}/sub`),
    ]) {
      assert.throws(write, { code: 'EROFS' });
    }
    assert.deepEqual((await at(target))?.options.slice(0, 3), ['ro', 'nosuid', 'nodev']);
    writeFileSync(`${source}/still-writable`, '');
    await mounts.unmount(target);
    await mounts.removeTarget(target);
    assert.equal(existsSync(target), false);
    await mounts.removeTarget(target);
    assert.deepEqual(warnings, []);
  });

  it('mounts a folder in memory whose files it replaces, for a group or for all', async () => {
    const target = folder.file('kubelet/pod/mount');
    await mounts.makeTarget(target);
    await mounts.memory(target, 2000);
    const mode = (path: string) => [statSync(path).mode & 0o777, statSync(path).gid];
    assert.deepEqual(mode(target), [0o750, 2000]);
    const entries = [
      { name: 'token', text: 'one' },
      { name: 'link', link: 'agent/socket' },
    ];
    await mounts.replace(target, entries, 2000);
    assert.deepEqual(mode(`${target}/token`), [0o440, 2000]);
    const before = openSync(`${target}/token`, 'r');
    // Left by a process that died, as a link to where nothing may be written.
    symlinkSync(`${source}/sub/file`, `${target}/.token.partial`);
    await mounts.replace(target, [{ name: 'token', text: 'two' }, ...entries.slice(1)], undefined);
    assert.equal(readFileSync(before, 'utf8'), 'one', 'whoever reads the former sees all of it');
    closeSync(before);
    assert.equal(readFileSync(`${target}/token`, 'utf8'), 'two');
    assert.equal(readFileSync(`${source}/sub/file`, 'utf8'), 'bytes');
    assert.equal(readlinkSync(`${target}/link`), 'agent/socket');
    assert.deepEqual(mode(`${target}/token`), [0o444, 0]);
    assert.deepEqual(readdirSync(target).sort(), ['link', 'token']);
    assert.deepEqual((await at(target))?.options.slice(0, 4), ['rw', 'nosuid', 'nodev', 'noexec']);
    assert.throws(() => writeFileSync(`${target}/large`, Buffer.alloc(2 << 20)), { code: 'ENOSPC' });
    const { bytes, files, filesFree } = await mounts.space(target);
    assert.equal(bytes, 1n << 20n);
    assert.ok(filesFree < files);
    await mounts.unmount(target);
    await mounts.removeTarget(target);
    assert.deepEqual(warnings, []);
  });

  it('shows a folder by an overlay, which stays read-only when a container runtime asks for a writable mount', async () => {
    const target = folder.file('kubelet/pod/mount');
    const inContainer = folder.file('container');
    mkdirSync(inContainer);
    await mounts.makeTarget(target);
    await mounts.overlay(source, target, free);
    await mounts.restrict(target, free);
    // As runc does for a mount that is not asked to be read-only.
    execFileSync('mount', ['--bind', target, inContainer]);
    execFileSync('mount', ['--options', 'remount,bind,rw', 'none', inContainer]);
    for (const path of [target, inContainer]) {
      assert.equal(readFileSync(`${path}/sub/file`, 'utf8'), 'bytes');
      assert.deepEqual(readdirSync(path), ['sub']);
      for (const write of [
        () => writeFileSync(`${path}/new`, ''),
        () => writeFileSync(`${path}/sub/file`, ''),
        () => chmodSync(`${path}/sub/file`, 0o777),
        () => rmdirSync(`${path}/sub`),
      ]) {
        assert.throws(write, { code: 'EROFS' });
      }
    }
    const mounted = await at(target);
    assert.ok(mounted && isWriteProtected(mounted));
    await mounts.unmount(target);
    await mounts.removeTarget(target);
    assert.doesNotMatch(readFileSync('/proc/self/mountinfo', 'utf8'), / [^ ]*hearth-layer-[^ ]* [^ ]* [^ ]*- tmpfs/);
    const odd = { status: 'FAILED_PRECONDITION', message: /so mount cannot overlay it/ };
    await assert.rejects(mounts.overlay(folder.file('a,b'), target, free), odd);
  });

  it('binds over a mount whose server is gone, so that containers which see later mounts see it', async function () {
    const kubelet = folder.file('kubelet/pod');
    const container = folder.file('container');
    mkdirSync(container);
    execFileSync('mount', ['--bind', kubelet, kubelet]);
    execFileSync('mount', ['--make-private', kubelet]);
    execFileSync('mount', ['--make-shared', kubelet]);
    try {
      const target = `${kubelet}/mount`;
      const frozen = await FrozenFuse.start(this, target);
      execFileSync('mount', ['--no-canonicalize', '--bind', target, container]);
      execFileSync('mount', ['--no-canonicalize', '--make-slave', container]);
      await frozen.stop();
      assert.throws(() => readdirSync(target), { code: 'ENOTCONN' });
      await mounts.bindOver(source, target, free);
      await mounts.restrict(target, free);
      for (const path of [target, container]) assert.equal(readFileSync(`${path}/sub/file`, 'utf8'), 'bytes');
      assert.throws(() => writeFileSync(`${target}/new`, ''), { code: 'EROFS' });
      await mounts.unmount(target);
      await mounts.unmount(target);
      assert.equal(await at(target), undefined);
    } finally {
      execFileSync('umount', ['--lazy', '--no-canonicalize', '--recursive', container, kubelet]);
    }
  });

  it('bars a dead mount: who looks at it is refused, in containers that see new mounts too, until one is bound over it', async function () {
    const kubelet = folder.file('kubelet/pod');
    execFileSync('mount', ['--bind', kubelet, kubelet]);
    execFileSync('mount', ['--make-private', kubelet]);
    execFileSync('mount', ['--make-shared', kubelet]);
    const container = folder.file('container');
    mkdirSync(container);
    try {
      const target = `${kubelet}/mount`;
      const frozen = await FrozenFuse.start(this, target);
      execFileSync('mount', ['--no-canonicalize', '--bind', target, container]);
      execFileSync('mount', ['--no-canonicalize', '--make-slave', container]);
      await frozen.stop();
      await until('the mount is found dead', () => mounts.isDead(target));
      await mounts.bar(target);
      const top = await at(target);
      assert.ok(top && isBarrier(top) && top.options.includes('ro'), JSON.stringify(top));
      for (const path of [target, container]) assert.throws(() => statSync(path), { code: 'ENOTCONN' }, path);
      await until('the barrier is found dead', () => mounts.isDead(target));
      await mounts.bindOver(source, target, free);
      for (const path of [target, container]) assert.equal(readFileSync(`${path}/sub/file`, 'utf8'), 'bytes');
      assert.equal(await mounts.isDead(target), false);
      for (let layer = 0; layer < 3; layer++) await mounts.unmount(target);
      assert.equal(await at(target), undefined);
      await mounts.removeTarget(target);
    } finally {
      spawnSync('umount', ['--lazy', '--no-canonicalize', '--recursive', container, kubelet]);
    }
  });

  it('takes no mount for dead that only does not answer', async function () {
    const target = folder.file('kubelet/pod/mount');
    const frozen = await FrozenFuse.start(this, target);
    try {
      assert.equal(await mounts.isDead(target), false);
    } finally {
      await frozen.stop();
      spawnSync('umount', ['--lazy', '--no-canonicalize', target]);
    }
  });

  it('binds each target by itself, and what is bound over one is seen by its containers and copies alone', async () => {
    const other = folder.file('other');
    mkdirSync(other);
    writeFileSync(`${other}/later`, 'bytes');
    const [one, two, container] = [folder.file('kubelet/pod/one'), folder.file('kubelet/pod/two'), folder.file('in')];
    mkdirSync(container);
    for (const shared of [source, other, folder.file('kubelet')]) {
      execFileSync('mount', ['--bind', shared, shared]);
      execFileSync('mount', ['--make-private', shared]);
      execFileSync('mount', ['--make-shared', shared]);
    }
    // As the host, beside the namespace of the driver's own container.
    const host = spawn('unshare', ['--mount', '--propagation', 'unchanged', 'sleep', '300'], { stdio: 'ignore' });
    try {
      await until(
        'the host has a namespace of its own',
        () => readlinkSync(`/proc/${host.pid}/ns/mnt`) !== readlinkSync('/proc/self/ns/mnt'),
      );
      await publish(one, { noexec: true });
      await publish(two);
      const flags = (target: string) =>
        mountAt(parseMountInfo(readFileSync(`/proc/${host.pid}/mountinfo`)), target)
          ?.options.slice(0, 4)
          .join();
      assert.deepEqual([flags(one), flags(two)], ['ro,nosuid,nodev,noexec', 'ro,nosuid,nodev,relatime']);
      execFileSync('mount', ['--bind', one, container]);
      execFileSync('mount', ['--make-slave', container]);
      await mounts.bindOver(other, one, free);
      await mounts.bindOver(other, two, free);
      const seen = (target: string) =>
        [target, `/proc/${host.pid}/root${target}`].map((path) => readdirSync(path).join());
      assert.deepEqual(readdirSync(container), ['later']);
      assert.deepEqual([...seen(one), ...seen(two)], ['later', 'later', 'later', 'later']);
      await mounts.unmount(one);
      assert.deepEqual([...seen(one), ...seen(two)], ['sub', 'sub', 'later', 'later']);
      execFileSync('mount', ['--bind', source, other]);
      assert.deepEqual(seen(two), ['later', 'later'], 'what comes over the source is not seen');
      // Other drivers of this machine have their own.
      const ours = readFileSync('/proc/self/mountinfo', 'utf8')
        .split('\n')
        .filter((row) => row.includes(folder.path));
      assert.doesNotMatch(ours.join('\n'), /hearth-bind-/);
    } finally {
      host.kill('SIGKILL');
      const made = (await mounts.table()).filter(({ mountPoint }) => mountPoint.startsWith(folder.path));
      for (const { mountPoint } of made.reverse()) spawnSync('umount', ['--lazy', mountPoint]);
    }
  });

  it('forbids programs when that is asked for', async () => {
    const target = folder.file('kubelet/pod/mount');
    writeFileSync(`${source}/program`, '#!/bin/sh\n', { mode: 0o755 });
    await publish(target);
    execFileSync(`${target}/program`);
    await mounts.restrict(target, { noexec: true });
    assert.throws(() => execFileSync(`${target}/program`), { code: 'EACCES' });
  });

  it('serves two pods, and a folder inside for a third, each by itself', async () => {
    const [one, two] = [folder.file('kubelet/pod/one'), folder.file('kubelet/pod/two')];
    await publish(one);
    await publish(two);
    // As the kubelet does for a subPath.
    const part = folder.file('part');
    mkdirSync(part);
    execFileSync('mount', ['--bind', `${one}/sub`, part]);
    await mounts.unmount(one);
    assert.equal(readFileSync(`${two}/sub/file`, 'utf8'), 'bytes');
    assert.equal(readFileSync(`${part}/file`, 'utf8'), 'bytes');
    assert.throws(() => writeFileSync(`${part}/file`, ''), { code: 'EROFS' });
    assert.deepEqual(readdirSync(one), []);
  });

  it('takes targets of any name and of thousands of bytes', async () => {
    const names = ['blank and\ttab', 'line\nfeed', 'back\\slash#', 'ü-😀', "quote's", '--option', 'x'.repeat(255)];
    for (const name of names) {
      const target = folder.file('kubelet/pod', name);
      await publish(target);
      assert.ok(await at(target), name);
      assert.equal(readFileSync(`${target}/sub/file`, 'utf8'), 'bytes');
      await mounts.unmount(target);
      assert.equal(await at(target), undefined);
      await mounts.removeTarget(target);
    }
    const deep = `kubelet/pod/${Array.from({ length: 15 }, (_, i) => `${i}`.repeat(2).padEnd(240, 'd')).join('/')}`;
    mkdirSync(folder.file(deep), { recursive: true });
    const target = folder.file(deep, 'mount');
    await publish(target);
    assert.equal(await mounts.resolve(target), target);
    await mounts.unmount(target);
    await mounts.removeTarget(target);
  });

  it('follows no link below the folder of the kubelet, and the folder itself may be one', async () => {
    const outside = folder.file('outside');
    mkdirSync(`${outside}/deeper`, { recursive: true });
    symlinkSync(outside, folder.file('kubelet/link'));
    symlinkSync(outside, folder.file('kubelet/pod/mount'));
    const refused = { status: 'INVALID_ARGUMENT', message: /symbolic link/ };
    await assert.rejects(mounts.makeTarget(folder.file('kubelet/link/mount')), refused);
    await assert.rejects(mounts.makeTarget(folder.file('kubelet/link/deeper/mount')), refused);
    await assert.rejects(mounts.makeTarget(folder.file('kubelet/pod/mount')), refused);
    await assert.rejects(mounts.bind(source, folder.file('kubelet/pod/mount'), free), refused);
    assert.deepEqual(readdirSync(outside), ['deeper']);

    await rename(folder.file('kubelet'), folder.file('moved'));
    symlinkSync(folder.file('moved'), folder.file('kubelet'));
    const target = folder.file('kubelet/pod/other');
    await publish(target);
    assert.equal(await mounts.resolve(target), folder.file('moved/pod/other'));
    assert.ok(await at(folder.file('moved/pod/other')));
    await mounts.unmount(target);
  });

  it('refuses targets outside, relative, endless or with NUL, and files in their place', async () => {
    const invalid = { status: 'INVALID_ARGUMENT' };
    for (const target of [
      '/etc/hearth',
      folder.file('kubelet'),
      folder.file('kubelet/../outside'),
      'kubelet/pod/mount',
      '',
      folder.file('kubelet/pod/a\0b'),
      `/${'x/'.repeat(3000)}`,
    ]) {
      await assert.rejects(mounts.resolve(target), invalid, target.slice(0, 80));
    }
    writeFileSync(folder.file('kubelet/pod/file'), '');
    await assert.rejects(mounts.makeTarget(folder.file('kubelet/pod/file')), invalid);
    assert.equal(await mounts.resolve(folder.file('kubelet/gone/mount')), undefined);
    await assert.rejects(mounts.makeTarget(folder.file('kubelet/gone/mount')), { status: 'FAILED_PRECONDITION' });
    await mounts.removeTarget(folder.file('kubelet/gone/mount'));
  });

  it('neither hides nor removes what others left in a target', async () => {
    const target = folder.file('kubelet/pod/mount');
    mkdirSync(target);
    await mounts.makeTarget(target);
    writeFileSync(`${target}/file`, 'mine');
    await assert.rejects(mounts.makeTarget(target), { status: 'FAILED_PRECONDITION', message: /not empty/ });
    await assert.rejects(mounts.removeTarget(target), {
      status: 'INTERNAL',
      message: /nothing is mounted there; remove it by hand/,
    });
    assert.equal(readFileSync(`${target}/file`, 'utf8'), 'mine');
  });

  it('says what mount said when it fails', async () => {
    const target = folder.file('kubelet/pod/mount');
    await mounts.makeTarget(target);
    await assert.rejects(mounts.bind(folder.file('absent'), target, free), {
      code: 'IoError',
      message: /mount failed for .*absent/,
    });
    await assert.rejects(mounts.restrict(target, free), { code: 'IoError', message: /mount failed for/ });
    await assert.rejects(mounts.unmount(target), { code: 'IoError', message: /umount failed for .*not mounted/ });
  });

  it('detaches a target that a process keeps busy, and says so', async () => {
    const target = folder.file('kubelet/pod/mount');
    await publish(target);
    const sitting = spawn('sleep', ['60'], { cwd: target, stdio: 'ignore' });
    await once(sitting, 'spawn');
    await mounts.unmount(target);
    sitting.kill('SIGKILL');
    assert.equal(await at(target), undefined);
    assert.deepEqual(warnings, ['failed to unmount a volume; detached its mount instead']);
    await mounts.removeTarget(target);
  });

  it('binds and unmounts a file system whose server never answers', async function () {
    const frozen = await FrozenFuse.start(this, folder.file('frozen'));
    try {
      assert.ok((await runChild('stat', [folder.file('frozen')], { deadlineMs: 300 })).late, 'asking it hangs');
      const target = folder.file('kubelet/pod/mount');
      await mounts.makeTarget(target);
      await mounts.bind(folder.file('frozen'), target, free);
      await mounts.restrict(target, free);
      assert.equal(await mounts.resolve(target), target);
      assert.ok(await at(target));
      await mounts.unmount(target);
      await mounts.removeTarget(target);
      assert.equal(existsSync(target), false);
    } finally {
      await frozen.stop();
    }
  });
});
