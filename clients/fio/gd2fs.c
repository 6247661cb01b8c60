/*
 * libgd2fs as an engine of fio:
 *
 *   fio --name=read --ioengine=external:libfio-gd2fs.so --filename=/dataset/llama-3/model.safetensors \
 *       --cp_address=gd2fs://10.0.0.1:7527 --cluster_id=hearth --rw=read --bs=256m --iodepth=1
 *
 * Names of files are paths of the cluster. Each job has a context of its own, made after fio has
 * forked for it, and registers the job's buffers once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"

#include <xfer/gd2fs.h>

struct gd2fs_options {
  void *pad; /* fio takes no option at offset 0 */
  char *cp_address;
  char *dp_address;
  char *cluster_id;
  unsigned int io_threads;
  unsigned int streams;
  unsigned int timeout_ms;
};

#define GD2FS_OPTION(option, kind, explanation)                                          \
  {                                                                                      \
    .name = #option, .lname = #option, .type = kind, .help = explanation,                \
    .off1 = offsetof(struct gd2fs_options, option), .category = FIO_OPT_C_ENGINE,        \
    .group = FIO_OPT_G_INVALID,                                                          \
  }

static struct fio_option options[] = {
    GD2FS_OPTION(cp_address, FIO_OPT_STR_STORE, "Agents: gd2fs://IP[:PORT],..."),
    GD2FS_OPTION(dp_address, FIO_OPT_STR_STORE, "NICs of this host: tcp://IP,..."),
    GD2FS_OPTION(cluster_id, FIO_OPT_STR_STORE, "Name of the cluster"),
    GD2FS_OPTION(io_threads, FIO_OPT_INT, "Threads that move bytes; 0: as the library chooses"),
    GD2FS_OPTION(streams, FIO_OPT_INT, "Connections of each thread; 0: as the library chooses"),
    GD2FS_OPTION(timeout_ms, FIO_OPT_INT, "Of a request; 0: as the library chooses"),
    {.name = NULL},
};

struct gd2fs_job {
  xfer_gd2fs_ctx *ctx;
  xfer_gd2fs_iomem *buffers;
  xfer_gd2fs_completion *done; /* the ones that getevents() took last */
};

static xfer_gd2fs_ctx *gd2fs_connect(struct thread_data *td) {
  const struct gd2fs_options *given = td->eo;
  xfer_gd2fs_options options = {0};
  xfer_gd2fs_ctx *ctx;

  options.cp_address = given->cp_address;
  options.dp_address = given->dp_address;
  options.cluster_id = given->cluster_id;
  options.iothread_count = given->io_threads;
  options.conn_stream_count = given->streams;
  options.timeout = given->timeout_ms;
  options.log_level = "error";
  ctx = xfer_gd2fs_connect(&options);
  if (ctx == NULL) td_verror(td, errno, "xfer_gd2fs_connect");
  return ctx;
}

/* 0, or 1 and the job's error. */
static int gd2fs_find_size(struct thread_data *td, xfer_gd2fs_ctx *ctx, struct fio_file *file) {
  xfer_gd2fs_stat st;
  xfer_gd2fs_completion done;
  int error = -xfer_gd2fs_fstat(ctx, file, file->file_name, &st);

  if (error == 0 && xfer_gd2fs_wait(ctx, &done, 1, -1) != 1) error = EIO;
  if (error == 0) error = XFER_GD2FS_STATUS_CODE(done.status);
  if (error != 0) {
    log_err("fio: gd2fs: %s: %s\n", file->file_name, strerror(error));
    td_verror(td, error, "xfer_gd2fs_fstat");
    return 1;
  }
  file->real_file_size = st.size;
  fio_file_set_size_known(file);
  return 0;
}

/* In fio's first process, which may fork for the job: its context ends here. */
static int gd2fs_setup(struct thread_data *td) {
  struct fio_file *file;
  unsigned int i;
  int failed = 0;
  xfer_gd2fs_ctx *ctx = gd2fs_connect(td);

  if (ctx == NULL) return 1;
  for_each_file(td, file, i) failed = failed || gd2fs_find_size(td, ctx, file);
  xfer_gd2fs_close(ctx);
  return failed;
}

static int gd2fs_init(struct thread_data *td) {
  struct gd2fs_job *job = calloc(1, sizeof *job);

  if (job == NULL) return 1;
  td->io_ops_data = job;
  job->done = calloc(td->o.iodepth, sizeof *job->done);
  job->ctx = gd2fs_connect(td);
  return job->done == NULL || job->ctx == NULL;
}

static int gd2fs_register_buffers(struct thread_data *td) {
  struct gd2fs_job *job = td->io_ops_data;

  job->buffers = xfer_gd2fs_reg_iomem(job->ctx, td->orig_buffer, td->orig_buffer_size, NULL);
  if (job->buffers != NULL) return 0;
  td_verror(td, errno, "xfer_gd2fs_reg_iomem");
  return 1;
}

static void gd2fs_cleanup(struct thread_data *td) {
  struct gd2fs_job *job = td->io_ops_data;

  if (job == NULL) return;
  xfer_gd2fs_close(job->ctx);
  free(job->done);
  free(job);
  td->io_ops_data = NULL;
}

static enum fio_q_status gd2fs_queue(struct thread_data *td, struct io_u *io_u) {
  struct gd2fs_job *job = td->io_ops_data;
  xfer_gd2fs_sge sge = {io_u->xfer_buf, io_u->xfer_buflen, job->buffers};
  const char *path = io_u->file->file_name;
  ssize_t result = -EINVAL;

  fio_ro_check(td, io_u);
  if (io_u->ddir == DDIR_READ)
    result = xfer_gd2fs_preadv(job->ctx, io_u, path, io_u->offset, &sge, 1, 0);
  else if (io_u->ddir == DDIR_WRITE)
    result = xfer_gd2fs_pwritev(job->ctx, io_u, path, io_u->offset, &sge, 1, 0);
  if (result == 0) return FIO_Q_QUEUED;
  if (result == -EAGAIN) return FIO_Q_BUSY;
  io_u->error = (unsigned int)-result;
  return FIO_Q_COMPLETED;
}

static int gd2fs_getevents(struct thread_data *td, unsigned int min, unsigned int max,
                           const struct timespec *time) {
  struct gd2fs_job *job = td->io_ops_data;
  int timeout = time == NULL ? -1 : (int)(time->tv_sec * 1000 + time->tv_nsec / 1000000);
  unsigned int taken = 0;

  do {
    int count = xfer_gd2fs_wait(job->ctx, job->done + taken, (int)(max - taken),
                                taken < min ? timeout : 0);
    if (count < 0) return count;
    if (count == 0) break;
    taken += (unsigned int)count;
  } while (taken < min);
  return (int)taken;
}

static struct io_u *gd2fs_event(struct thread_data *td, int event) {
  const struct gd2fs_job *job = td->io_ops_data;
  const xfer_gd2fs_completion *done = &job->done[event];
  struct io_u *io_u = done->id;

  io_u->error = XFER_GD2FS_STATUS_CODE(done->status);
  io_u->resid = io_u->error != 0 ? 0 : io_u->xfer_buflen - done->value;
  return io_u;
}

/* Paths are opened by no call, and the library keeps no bytes. */
static int gd2fs_no_file(struct thread_data *td, struct fio_file *file) { return 0; }

/* fio finds it by this name. */
struct ioengine_ops ioengine = {
    .name = "gd2fs",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_RAWIO,
    .setup = gd2fs_setup,
    .init = gd2fs_init,
    .post_init = gd2fs_register_buffers,
    .cleanup = gd2fs_cleanup,
    .queue = gd2fs_queue,
    .getevents = gd2fs_getevents,
    .event = gd2fs_event,
    .open_file = gd2fs_no_file,
    .close_file = gd2fs_no_file,
    .invalidate = gd2fs_no_file,
    .options = options,
    .option_struct_size = sizeof(struct gd2fs_options),
};
