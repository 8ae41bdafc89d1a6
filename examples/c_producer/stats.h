/* Sums of tensors, computed in Rust.
 *
 * Every function with a managed tensor argument takes ownership of it, whatever it returns: the tensor's
 * deleter is called once, and the caller must not use the tensor again. Until then nothing may write the
 * data. The deleter may be called on another thread.
 *
 * A function that does not return STATS_OK leaves its result unchanged, and explains the error in
 * `message`, which may be NULL. */
#ifndef STATS_H_
#define STATS_H_

#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  STATS_OK = 0,
  STATS_VERSION = 1, /* the tensor has another major version of DLPack */
  STATS_INVALID = 2, /* the tensor breaks the specification */
  STATS_DEVICE = 3,  /* the CPU cannot read the data */
  STATS_DTYPE = 4,   /* elements other than int32, float32, float64 */
  STATS_USAGE = 5,   /* a required argument is NULL */
  STATS_BROKEN = 6   /* a defect of the library, or no thread; the message has details */
} stats_status;

/* A NUL-terminated text, truncated if it is too long. */
typedef struct {
  char text[256];
} stats_message;

/* The sum of the elements. */
stats_status stats_sum(struct DLManagedTensorVersioned *tensor, double *sum, stats_message *message);
stats_status stats_sum_legacy(DLManagedTensor *tensor, double *sum, stats_message *message);

/* A sum that is being computed on a thread. */
typedef struct stats_job stats_job;

/* Starts a thread, which also calls the deleter. Pass the job to stats_finish. */
stats_status stats_start(struct DLManagedTensorVersioned *tensor, stats_job **job,
                         stats_message *message);

/* Waits for the job and frees it, whatever it returns. The deleter has been called by then. */
stats_status stats_finish(stats_job *job, double *sum, stats_message *message);

#ifdef __cplusplus
}
#endif

#endif /* STATS_H_ */
