import assert from 'node:assert/strict';
import { bytesOf, MiB, needsMounts, ok, run, sha256, unlessUnavailable } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { gitId, HubServer } from '@hearth/common/testing/origins';
import { pythonPackages } from '../cluster/images/wheel.ts';

const repo = 'team/tiny';
const config = { model_type: 'bert', hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 40 };
const script = `
import hashlib, json, pathlib
from huggingface_hub import hf_hub_download, snapshot_download
from transformers import AutoConfig
folder = pathlib.Path(snapshot_download("${repo}"))
weights = hf_hub_download("${repo}", "model.safetensors")
print(json.dumps({
    "commit": folder.name,
    "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()),
    "weights": hashlib.sha256(open(weights, "rb").read()).hexdigest(),
    "hidden": AutoConfig.from_pretrained("${repo}").hidden_size,
}))
`;

/** Mounts whose layout is that of a cache of the hub, read by the hub's own library and by transformers, as they are. */
describe('a mount as a cache of the Hugging Face hub', () => {
  let cluster: Cluster;
  let hub: HubServer;
  let packages: string;
  const weights = bytesOf(81, 9 * MiB + 1);

  before(async function () {
    this.timeout(15 * 60_000); // The first run on a machine fetches the packages.
    needsMounts(this);
    packages = await unlessUnavailable(this, () => pythonPackages('huggingface_hub==2.4.0', 'transformers==5.23.0'));
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    const files = {
      'config.json': Buffer.from(JSON.stringify(config)),
      'onnx/model.onnx': bytesOf(82, 5_000),
      'model.safetensors': weights,
    };
    hub = await HubServer.start('127.0.0.1', repo, files);
    const source = `hf://${repo}?endpoint=${hub.url}&layout=hub`;
    await cluster.json(
      'a',
      'dataset',
      'add',
      'tiny',
      source,
      '--allow-private',
      '--include',
      '*.json',
      '--include',
      '*.safetensors',
    );
  });
  after(async () => {
    await cluster?.close();
    await hub?.[Symbol.asyncDispose]();
  });

  async function offline(mount: string) {
    const environment = { PYTHONPATH: packages, HF_HUB_CACHE: mount, HF_HUB_OFFLINE: '1', HF_ENDPOINT: undefined };
    return JSON.parse((await ok(run('python3', ['-c', script], { environment }))).trim().split('\n').at(-1) ?? '');
  }

  const whole = {
    commit: gitId('commit'),
    files: ['config.json', 'model.safetensors'],
    weights: sha256(weights),
    hidden: config.hidden_size,
  };

  it('gives snapshot_download, hf_hub_download and from_pretrained what they ask for, by FUSE', async () => {
    const target = cluster.mountPoint('cold');
    await cluster.json('a', 'mount', 'tiny', target, '--data-path', 'fuse');
    assert.deepEqual(await offline(target), whole);
  });

  it('and as a view, on another agent', async () => {
    await cluster.json('b', 'warm', 'tiny', '--node', 'b');
    const target = cluster.mountPoint('warm');
    await cluster.json('b', 'mount', 'tiny', target, '--data-path', 'view');
    assert.deepEqual(await offline(target), whole);
  });
});
