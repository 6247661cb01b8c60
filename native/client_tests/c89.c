/* A C program that reads a file, for the tests in C++ beside it. */
#include <xfer/gd2fs.h>

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
