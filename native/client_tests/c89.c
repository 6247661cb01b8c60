/* C programs that read a file, and that put and get a value, for the tests in C++ beside them. */
#include <string.h>
#include <xfer/gd2fs.h>
#include <xfer/hearth_kv.h>

/* Bytes that were read, or a negative errno. */
long hearth_read_from_c(const xfer_gd2fs_options *options, const char *path, void *into,
                        size_t size) {
  xfer_gd2fs_ctx *ctx;
  xfer_gd2fs_stat st;
  xfer_gd2fs_sge sge;
  xfer_gd2fs_completion done;
  long result = -1;
  int id = 0;

  ctx = xfer_gd2fs_connect(options);
  if (ctx == NULL) return -1;
  sge.addr = into;
  sge.len = size;
  sge.iomem = xfer_gd2fs_reg_iomem(ctx, into, size, NULL);
  if (xfer_gd2fs_fstat(ctx, &id, path, &st) == 0 && xfer_gd2fs_wait(ctx, &done, 1, -1) == 1 &&
      XFER_GD2FS_STATUS_CODE(done.status) == 0 && done.id == &id && st.size <= size &&
      xfer_gd2fs_preadv(ctx, &id, path, 0, &sge, 1, 0) == 0 &&
      xfer_gd2fs_wait(ctx, &done, 1, -1) == 1) {
    result = done.status == 0 ? (long)done.value : -(long)XFER_GD2FS_STATUS_CODE(done.status);
  }
  if (xfer_gd2fs_dereg_iomem(ctx, sge.iomem) != 0) result = -1;
  xfer_gd2fs_close(ctx);
  return result;
}

static int run_batch(hearth_kv *kv, int (*call)(hearth_kv *, const hearth_kv_batch *),
                     hearth_kv_item *item) {
  hearth_kv_batch batch;
  hearth_kv_completion done;

  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.id = item;
  batch.items = item;
  batch.count = 1;
  done.size = sizeof done;
  if (call(kv, &batch) != 0 || hearth_kv_wait(kv, &done, 1, -1) != 1 || done.id != item) return -1;
  return done.status != 0 ? done.status : item->status;
}

/* Puts the value, and gets it back into `into`; bytes that were got, or a negative errno. */
long hearth_put_and_get_from_c(const xfer_gd2fs_options *options, const char *volume,
                               const void *key, size_t key_bytes, void *value, void *into,
                               size_t size) {
  xfer_gd2fs_ctx *ctx = xfer_gd2fs_connect(options);
  xfer_gd2fs_sge from, to;
  hearth_kv_space space;
  hearth_kv_item item;
  hearth_kv *kv;
  int failed;

  if (ctx == NULL) return -1;
  memset(&space, 0, sizeof space);
  space.size = sizeof space;
  space.volume = volume;
  space.fingerprint = "c89";
  space.fingerprint_bytes = 3;
  kv = hearth_kv_open(ctx, &space);
  from.addr = value;
  to.addr = into;
  from.len = to.len = size;
  from.iomem = xfer_gd2fs_reg_iomem(ctx, value, size, NULL);
  to.iomem = xfer_gd2fs_reg_iomem(ctx, into, size, NULL);
  memset(&item, 0, sizeof item);
  item.size = sizeof item;
  item.key = key;
  item.key_bytes = key_bytes;
  item.sges = &from;
  item.sge_count = 1;
  failed = run_batch(kv, hearth_kv_put, &item);
  item.sges = &to;
  if (!failed) failed = run_batch(kv, hearth_kv_get, &item);
  hearth_kv_close(kv);
  xfer_gd2fs_close(ctx);
  return failed ? -(long)failed : (long)item.value_bytes;
}
