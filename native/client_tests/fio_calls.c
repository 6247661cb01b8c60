/*
 * The calls of the published fio engine for GD2FS, in its order and with its types, so that it
 * compiles and runs against this library: a path is looked up and, to be written, made; then reads
 * are submitted and completions taken.
 */
#include "client_tests/fio_calls.h"

#include <errno.h>
#include <string.h>
#include <xfer/gd2fs.h>

static const int kTimeoutMs = 3000;

static int open_file(xfer_gd2fs_ctx *ctx, const char *path, int write, unsigned long long io_size,
                     unsigned long long *size) {
  xfer_gd2fs_stat sb = {0};
  xfer_gd2fs_completion completion = {0};
  void *id = (void *)__func__;
  uint8_t err_class, err_code;

  xfer_gd2fs_fstat(ctx, id, path, &sb);
  xfer_gd2fs_wait(ctx, &completion, 1, kTimeoutMs);
  if (completion.id != id) return -EPROTO;
  err_code = XFER_GD2FS_STATUS_CODE(completion.status);
  if (!err_code) *size = sb.size;
  if (!write) return -err_code;

  memset(&completion, 0, sizeof completion);
  xfer_gd2fs_create(ctx, id, path, 0, io_size);
  xfer_gd2fs_wait(ctx, &completion, 1, kTimeoutMs);
  if (completion.id != id) return -EPROTO;
  err_class = XFER_GD2FS_STATUS_CLASS(completion.status);
  err_code = XFER_GD2FS_STATUS_CODE(completion.status);
  if (err_code && (err_class != XFER_GD2FS_STATUS_CLASS_SERVER || err_code != EEXIST))
    return -err_code;
  return 0;
}

int hearth_fio_job(const char *cpaddr, const char *dpaddr, const char *cluster, const char *path,
                   int write, void *buffer, size_t size) {
  xfer_gd2fs_options xopts = {0};
  xfer_gd2fs_completion completions[2];
  xfer_gd2fs_sge sges[2];
  xfer_gd2fs_ctx *ctx;
  xfer_gd2fs_iomem *iomem;
  unsigned long long found = 0;
  unsigned int i;
  ssize_t bytes;
  int result;

  xopts.cp_address = cpaddr;
  xopts.dp_address = dpaddr;
  xopts.cluster_id = cluster;
  xopts.iothread_count = 1;
  xopts.memthread_count = 1;
  xopts.conn_stream_count = 1;
  xopts.log_level = NULL;
  xopts.timeout = kTimeoutMs;
  ctx = xfer_gd2fs_connect(&xopts);
  if (!ctx) return -errno;
  iomem = xfer_gd2fs_reg_iomem(ctx, buffer, size, NULL);
  result = iomem ? open_file(ctx, path, write, size, &found) : -errno;
  if (result == 0 && found < size) result = -ENODATA;
  for (i = 0; i < 2 && result == 0; i++) {
    sges[i].addr = (unsigned char *)buffer + i * (size / 2);
    sges[i].len = i == 0 ? size / 2 : size - size / 2;
    sges[i].iomem = iomem;
  }
  if (result == 0) {
    bytes = write ? xfer_gd2fs_pwritev(ctx, buffer, path, 0, sges, 2, 0)
                  : xfer_gd2fs_preadv(ctx, buffer, path, 0, sges, 2, 0);
    if (bytes < 0) result = (int)bytes;
  }
  if (result == 0) {
    result = xfer_gd2fs_wait(ctx, completions, 2, -1) == 1 && completions[0].id == buffer
                 ? -(int)XFER_GD2FS_STATUS_CODE(completions[0].status)
                 : -EPROTO;
  }
  xfer_gd2fs_close(ctx);
  return result;
}
